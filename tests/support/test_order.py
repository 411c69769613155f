"""The order of a test run and its limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from tests.support.order import DIVIDED, Share, turn
from tests.support.pipeline_run import wait_until
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


@pytest.mark.slow
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


def test_every_test_file_is_in_one_share() -> None:
    files = [f"tests/area_{n % 5}/test_{n}.py" for n in range(300)]
    shares = [Share.of(f"{number}/3") for number in (1, 2, 3)]
    assert all(sum(share.has(file) for share in shares) == 1 for file in files)
    assert all(60 < sum(map(share.has, files)) < 140 for share in shares)


def test_every_share_collects_the_divided_file(pytestconfig: pytest.Config) -> None:
    """If not, most of its cases would run nowhere."""
    assert "--share" in (pytestconfig.rootpath / DIVIDED).read_text()


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


@pytest.mark.slow
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


LIMITS = """
import pytest

def limit(request): return request.node.get_closest_marker("timeout").args[0]

def test_fast(request): assert limit(request) == 360

@pytest.mark.spark
def test_dear(request): assert limit(request) == 1800
"""


def test_the_limit_of_a_test_follows_its_cost_and_the_machine(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_TEST_PATIENCE", "3")
    pytester.makepyfile(LIMITS)
    pytester.makeini("[pytest]\nmarkers =\n spark")
    pytester.runpytest_inprocess("-p", "tests.support.order").assert_outcomes(passed=2)


HANGING = """
import ctypes, threading

def test_waits(): threading.Event().wait()

def test_deaf():
    lock, system = ctypes.create_string_buffer(64), ctypes.PyDLL(None)  # it keeps the lock of the interpreter, too
    system.pthread_mutex_lock(lock)
    system.pthread_mutex_lock(lock)

def test_later(): pass
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a lock of zeros is one of Linux")
def test_a_test_that_hangs_fails_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    pytester.makepyfile(HANGING)
    pytester.makeconftest("from tests.support import order\norder._GRACE_S = 1")
    done = pytester.runpytest_subprocess("-p", "tests.support.order", "-n", "1", "--timeout", "1")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines_random(["*Timeout*1*from pytest-timeout*", "*crashed while running*test_deaf*"])
    done.stderr.fnmatch_lines(["*in test_deaf*"])


def test_a_wait_ends_when_its_condition_holds_or_with_what_was_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_TEST_PATIENCE", "1")
    (file := tmp_path / "state.json").write_text('{"batch": ')
    file.with_suffix(".later").write_text('{"batch": 3}')
    looks = iter([Path("nothing"), file, file.with_suffix(".later")])
    wait_until(lambda: json.loads(next(looks).read_text())["batch"] == 3, 30, "the state")

    with pytest.raises(AssertionError, match="the state did not happen") as failure:
        wait_until(lambda: json.loads(file.read_text())["batch"] == 3, 0.01, "the state")
    assert isinstance(failure.value.__cause__, json.JSONDecodeError)
    with pytest.raises(CorruptFile):
        wait_until(lambda: raised(CorruptFile("a table that is damaged")), 30, "rows")


def raised(error: Exception) -> bool:
    raise error
