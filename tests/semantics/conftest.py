"""The option that names the directory of cases, and the count of what is not supported yet."""

import re
from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", default=None, help="directory with semantics cases (default: tests/semantics/cases)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "tests/semantics/" in r.nodeid]
    reasons = Counter(_reason(report) for report in skipped)
    if reasons:
        terminalreporter.section("semantics: not supported yet")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5} runs: {reason}")


def _reason(report: pytest.TestReport) -> str:
    assert isinstance(report.longrepr, tuple)
    reason = report.longrepr[2].partition(": ")[2].partition(": ")[2]
    return re.sub(r"'fields\.[^']*\.([^.']*)'", r"'fields.<column>.\1'", reason)
