"""Bad records of a batch that is in its table and runs again: each stays in the quarantine, or is in the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from sinks import faults
from tests.support.paused_pipeline import Killed, PausedPipeline
from tests.support.wide_items import OTHER, check, process, put_aside, rule


def die(pipeline: PausedPipeline, monkeypatch: pytest.MonkeyPatch, point: str = "before-closing") -> None:
    """Run until the process is killed there."""

    def reached(at: str, _batch: int) -> None:
        if at == point:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", reached)
        while pipeline.run_batch():
            pass


@pytest.mark.slow
@pytest.mark.parametrize("bad", [{13}, {*range(10, 20)}], ids=["one", "all"])
@pytest.mark.parametrize("type_", ["INT", "BIGINT"], ids=["same rule", "mended rule"])
def test_of_a_batch_that_spark_did_not_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: set[int], type_: str
) -> None:
    first = process(tmp_path, bad, rule())
    first.run(1)
    die(first, monkeypatch)
    again = process(tmp_path, bad, rule(type_))
    again.run()
    check(again, bad)


def test_of_a_batch_whose_rows_were_never_committed_are_good_under_the_mended_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process(tmp_path, {13}, rule())
    first.run(1)
    die(first, monkeypatch, "after-write")
    assert put_aside(first) == [13]
    again = process(tmp_path, {13}, rule("BIGINT"))
    again.run()
    check(again, set())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["paused", "rule away"])
def test_of_a_table_that_is_out_of_the_stream_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    first = process(tmp_path, {13}, rule(), OTHER)
    first.run(1)
    die(first, monkeypatch)
    second = process(tmp_path, {13}, *([OTHER] if how == "rule away" else [rule(), OTHER]), otherwise="skip")
    if how == "paused":
        second.pause("lake.items")
    second.run()
    back = process(tmp_path, {13}, rule(), OTHER)
    back.caught_up()
    back.run()
    check(back, {13})


@pytest.mark.slow
def test_of_a_table_that_fails_once_its_rows_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = process(tmp_path, {13}, rule(), OTHER)
    pipeline.run(1)

    def reached(at: str, _batch: int) -> None:
        if at == "after-append":
            monkeypatch.undo()
            raise CorruptFile("a metadata file is missing")

    monkeypatch.setattr(faults, "reached", reached)
    pipeline.run(1)
    assert list(pipeline.behind) == ["lake.items"]
    pipeline.run()
    back = process(tmp_path, {13}, rule(), OTHER)
    back.caught_up()
    back.run()
    check(back, {13})


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["INT", "BIGINT"], ids=["same rule", "mended rule"])
def test_of_a_slice_that_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str) -> None:
    first = process(tmp_path, {13}, rule())
    first.run(1)
    first.pause("lake.items")
    first.run()
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", lambda at, _: _killed() if at == "slice-done" else None)
        first.catch_up("lake.items").step()
    again = process(tmp_path, {13}, rule(type_))
    again.caught_up()
    again.run()
    check(again, {13})


def _killed() -> None:
    raise Killed
