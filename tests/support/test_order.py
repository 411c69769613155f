"""The order of a test run and its limits."""

from __future__ import annotations

import pytest

from tests.support.order import turn
from tests.support.waiting import seconds

pytest_plugins = ["pytester"]

FILE = """
import pytest

@pytest.mark.spark
def test_a_spark(): pass

@pytest.mark.slow
def test_b_slow(): pass

def test_c_fast(): assert "seen" == "at once"

@pytest.mark.stack
@pytest.mark.slow
def test_d_stack(): pass

def test_e_fast(): pass
"""


def test_cheap_tests_come_first_and_failures_are_shown_when_they_happen(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FILE)
    pytester.makeini("[pytest]\nmarkers =\n spark\n slow\n stack")
    done = pytester.runpytest_inprocess("-v", "-p", "tests.support.order", "--show-failures-at-once")
    done.stdout.fnmatch_lines(
        [
            "*test_c_fast FAILED*",
            "*at once*",
            "*test_e_fast PASSED*",
            "*test_b_slow*",
            "*test_d_stack*",
            "*test_a_spark*",
        ]
    )


SHARING = """
import pytest

@pytest.fixture(scope="session")
def kafka(): pass

@pytest.fixture(scope="session")
def connect(kafka): pass

@pytest.fixture(scope="session")
def other(tmp_path_factory): pass

@pytest.fixture(scope="module")
def table(): pass

def test_alone(tmp_path): pass
def test_topic(kafka): pass
def test_capture(connect, table): pass
def test_other(other): pass
def test_table(table): pass
"""


def test_what_is_started_once_is_used_by_one_worker(pytester: pytest.Pytester) -> None:
    items, _ = pytester.inline_genitems(pytester.makepyfile(SHARING), "-p", "tests.support.order")

    groups = {item.name: [mark.args for mark in item.iter_markers("xdist_group")] for item in items}
    assert groups == {
        "test_alone": [],
        "test_topic": [("kafka",)],
        "test_capture": [("connect",)],
        "test_other": [("other",)],
        "test_table": [("test_what_is_started_once_is_used_by_one_worker",)],
    }


TURNS = """
import pytest

@pytest.fixture(scope="session")
def kafka(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.spark
def test_spark(): pass

@pytest.mark.stack
@pytest.mark.spark
def test_topic(kafka): pass

def test_fast(): pass

@pytest.mark.crash
@pytest.mark.slow
def test_crash(): pass
"""


def test_of_several_workers_one_begins_with_what_lasts_longest_and_slow_tests_fill_the_end(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nmarkers =\n spark\n slow\n stack\n crash")
    items, _ = pytester.inline_genitems(pytester.makepyfile(TURNS), "-p", "tests.support.order")

    names = [item.name for item in sorted(items, key=turn)]
    assert names == ["test_topic", "test_fast", "test_crash", "test_spark", "test_slow"]


LONG = """
import pytest

@pytest.mark.parametrize("text", ["short", "x" * 9000, "y" * 9000, b"z" * 300])
def test_text(text): pass
"""


def test_a_long_text_has_a_short_name(pytester: pytest.Pytester) -> None:
    items, _ = pytester.inline_genitems(pytester.makepyfile(LONG), "-p", "tests.support.order")

    names = ["short", "text of 9000_0", "text of 9000_1", "text of 300"]
    assert [item.name for item in items] == [f"test_text[{name}]" for name in names]


def test_limits_follow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_TEST_PATIENCE", "3")
    assert seconds(20) == 60
    monkeypatch.setenv("TIDEMARK_TEST_PATIENCE", "0.1")
    assert seconds(20) == 20, "never less than a quiet machine needs"
    monkeypatch.delenv("TIDEMARK_TEST_PATIENCE")
    monkeypatch.setattr("os.getloadavg", lambda: (1e6, 0, 0))
    assert seconds(20) == 200
