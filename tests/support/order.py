"""How a test run goes: cheap tests first, limits that fit the machine, and failures shown as they happen.

``make test`` asks for the last one by ``--show-failures-at-once``, and for several workers that share the tests. Only
one worker starts what many tests share. Tests with a fixture of a module or of the session are a group, which
pytest-xdist gives to one worker as a whole, in the order of the tests. The longest groups begin at once, beside the
cheap tests, and slow tests that need nothing come last: none of them keeps one worker busy alone at the end.

Property tests draw the same examples in each run. ``--hypothesis-profile search`` draws others.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

from pipelines.report.run_log import PACKAGES
from tests.support.waiting import seconds

_LIMIT_S, _DEAR_LIMIT_S = 120, 600
_GRACE_S = 60
"""How much longer a test lasts that no signal ends, such as one within a call of Java."""
_DEAR = ("slow", "interop", "stack", "crash", "spark")
"""Markers from the cheaper tests to the more expensive ones; a test without a marker is cheap."""
DIVIDED = "tests/semantics/test_corpus.py"
"""The file with an eighth of the work: each share collects it and runs a part of its cases."""
_GROUPS = {"connect": "connect", "postgres": "connect"}
"""Groups of fixtures that need one another; any other fixture of the session is a group of its own name."""
_LONGEST = ("connect", "kafka")
"""Groups that last so long that they begin with the run."""
_LONGEST_ID = 200
_LOG_LEVELS: dict[str | None, int] = {None: logging.WARNING, **dict.fromkeys(PACKAGES, logging.NOTSET)}
_STDERR = pytest.StashKey[int]()
_OWN_OF_PYTEST = ("_pytest.", "pytest_", "xdist.", "_hypothesis")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--show-failures-at-once", action="store_true", help="print each failure when it happens")
    parser.addoption("--share", type=Share.of, metavar="K/N", help="only the Kth of N shares of the test files")


@dataclass(frozen=True)
class Share:
    """One of several equal parts of the test files. Processes with a share each collect every file once."""

    number: int
    shares: int

    @staticmethod
    def of(text: str) -> Share:
        number, _, shares = text.partition("/")
        if not (number.isdecimal() and shares.isdecimal() and 1 <= int(number) <= int(shares)):
            raise argparse.ArgumentTypeError(f"{text!r} is no share: write K/N, such as 1/3")
        return Share(int(number), int(shares))

    def has(self, name: str) -> bool:
        """Whether the share has the test file of this path, or the part of this name of a file that is divided."""
        return zlib.crc32(name.encode()) % self.shares == self.number - 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    share: Share | None = config.getoption("--share")
    if share is None or not collection_path.is_file():
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return None if path == DIVIDED or share.has(path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Nothing is timed, not an example and not how it is drawn: a busy machine would decide whether the tests pass.
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("search", untimed)
    settings.register_profile("tests", untimed, derandomize=True)
    settings.load_profile("tests")
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs, where there are several")
    seconds(0)  # measures the machine before there are workers to measure
    config.stash[_STDERR] = os.dup(2)  # what pytest does not capture
    if config.getoption("--show-failures-at-once"):
        config.pluginmanager.register(_FailuresAtOnce(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # what is imported and collected stays
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if getattr(config.option, "loadgroup", False):
        lost = [item for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError("pytest-xdist does not see the groups of tests: install what the lock file names")
        items.sort(key=turn)
    else:
        items.sort(key=cost)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # Imported and collected objects stay: the garbage collector need not visit them after each few allocations of the
    # tests.
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long text has a short name: ids travel between the workers and into the environment of child processes."""
    if isinstance(val, str | bytes) and len(val) > _LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    # A library that an earlier test has started may have changed which messages are kept.
    for name, level in _LOG_LEVELS.items():
        logger = logging.getLogger(name)
        if logger.level != level:  # to set it makes all loggers forget what they know
            logger.setLevel(level)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that hangs fails alone, with the stacks of all threads: its limit is that of the machine as it is now.

    pytest-timeout raises an error in the test. If that does not help, the process of the test ends, and xdist continues
    with another one.
    """
    given = item.config.getoption("timeout", None)
    limit_s = float(given) if given is not None else seconds(_DEAR_LIMIT_S if cost(item) else _LIMIT_S)
    item.add_marker(pytest.mark.timeout(limit_s), append=False)
    if limit_s:
        faulthandler.dump_traceback_later(limit_s + _GRACE_S, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_itemcollected(item: pytest.Item) -> None:
    if (name := group_of(item)) is not None:
        item.add_marker(pytest.mark.xdist_group(name))


def group_of(item: pytest.Item) -> str | None:
    """The resource that the test shares with others: the name of a group for one worker; None if any worker may run
    it."""
    info = getattr(item, "_fixtureinfo", None)  # there is no public way to the scopes of a test's fixtures
    fixtures = [chain[-1] for chain in info.name2fixturedefs.values()] if info is not None else []
    shared = {f.argname for f in fixtures if f.scope == "session" and not f.func.__module__.startswith(_OWN_OF_PYTEST)}
    if shared:
        return next((group for name, group in _GROUPS.items() if name in shared), min(shared))
    return item.path.stem if any(f.scope == "module" for f in fixtures) else None


def cost(item: pytest.Item) -> int:
    return max((1 + _DEAR.index(mark.name) for mark in item.iter_markers() if mark.name in _DEAR), default=0)


def turn(item: pytest.Item) -> tuple[int, int]:
    """Where the test comes in a run of several workers."""
    group, dear = group_of(item), cost(item)
    if group in _LONGEST:
        return 0, _LONGEST.index(group)
    return (1, 0) if not dear else (3, 0) if dear == 1 else (2, dear)


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
