"""Bad records of a batch that is in its table and runs again: each stays in the quarantine, or is in the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import CorruptFile
from pipelines.quarantine.bad_lines import BadLine, BadLines
from sinks import faults
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import Killed, PausedPipeline

WIDE = 3_000_000_000
OTHER = {"match": {"table": "other"}, "into": "lake.other"}


def rule(type_: str = "INT") -> dict[str, Any]:
    return {"match": {"table": "items"}, "into": "lake.items", "columns": {"types": {"n": type_}}}


def process(root: Path, bad: set[int], *rules: Mapping[str, Any], **keys: Any) -> PausedPipeline:
    """Batches of ten of thirty records."""
    source = records(*(event("c", i, {"id": i, "n": WIDE if i in bad else i}) for i in range(30)))
    return PausedPipeline(root, source, rules, has_quarantine=True, **keys)


def put_aside(pipeline: PausedPipeline) -> list[int]:
    bad = BadLines(pipeline.config)
    return sorted(line.offset for line in bad.lines(bad.files(), lambda: None) if isinstance(line, BadLine))


def die(pipeline: PausedPipeline, monkeypatch: pytest.MonkeyPatch, point: str = "before-closing") -> None:
    """Run until the process is killed there."""

    def reached(at: str, _batch: int) -> None:
        if at == point:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", reached)
        while pipeline.run_batch():
            pass


def check(pipeline: PausedPipeline, bad: set[int]) -> None:
    assert sorted(pipeline.rows("lake.items")) == sorted({*range(30)} - bad)
    assert put_aside(pipeline) == sorted(bad)


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
