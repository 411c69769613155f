"""How a test run goes: cheap tests first, limits that fit the machine, and failures shown as they happen.

``make test`` asks for the last one by ``--show-failures-at-once``.
"""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import settings

from tests.support.waiting import seconds

_TIMEOUT_S = 600
_DEAR = ("slow", "interop", "stack", "crash", "spark")
"""Markers from the cheaper tests to the dearer ones; a test without any of them is cheap."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--show-failures-at-once", action="store_true", help="print each failure when it happens")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # No example is timed: a busy machine would decide whether the tests pass.
    settings.register_profile("tests", deadline=None)
    settings.load_profile("tests")
    if config.getoption("timeout", None) is None:
        config.option.timeout = seconds(_TIMEOUT_S)
    if config.getoption("--show-failures-at-once"):
        config.pluginmanager.register(_FailuresAtOnce(config))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=cost)


def cost(item: pytest.Item) -> int:
    return max((1 + _DEAR.index(mark.name) for mark in item.iter_markers() if mark.name in _DEAR), default=0)


class _FailuresAtOnce:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        terminal = cast("pytest.TerminalReporter", self._config.pluginmanager.getplugin("terminalreporter"))
        terminal.ensure_newline()
        terminal.section(f"{report.nodeid} ({report.when})", "_", red=True)
        terminal.line(report.longreprtext)
