"""Bad records that are read again once the rule is mended: they come into the table and leave the quarantine, once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.history.rollback import plan_rollback, roll_back
from pipelines.catchup.reading import Step
from sinks import faults
from sources.change_columns import OFFSET_COLUMN
from sources.changes import DecodeCounts, Decoded, SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import Goal
from sources.record_rows import rows_at
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import Killed, PausedPipeline, killed_at
from tests.support.quarantined import bad, put
from tests.support.wide_items import check, process, put_aside, rule

BAD = {3, 13, 14}


def back_to_first_batch(pipeline: PausedPipeline) -> None:
    context = pipeline.table("lake.items").context
    of_first = [s for s in context.snapshots.newest_first() if s.commit_identifier == 0 and "+" not in s.commit_user]
    first = max(snapshot.id for snapshot in of_first)
    roll_back(context, plan_rollback(context, first))


def filled_then_rolled_back(root: Path, **keys: object) -> PausedPipeline:
    """Three bad records, of which the table has passed the first after it was rolled back."""
    first = process(root, BAD, rule(), **keys)
    first.run()
    check(first, BAD)
    back_to_first_batch(first)
    return first


@pytest.mark.slow
@pytest.mark.parametrize("on_bad_record", ["quarantine", "fail"])
def test_of_a_table_that_is_caught_up(tmp_path: Path, on_bad_record: str) -> None:
    filled_then_rolled_back(tmp_path)
    source = {"files": {"path": str(tmp_path)}, "format": "debezium-json", "on_bad_record": on_bad_record}
    again = process(tmp_path, BAD, rule("BIGINT"), source=source)
    again.caught_up()
    again.run()
    check(again, {3})


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 40, 3))
def test_whenever_the_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    filled_then_rolled_back(tmp_path)
    with killed_at(monkeypatch, step) as is_killed:
        try:
            process(tmp_path, BAD, rule("BIGINT")).caught_up()
        except Killed:
            assert is_killed()
    again = process(tmp_path, BAD, rule("BIGINT"))
    again.caught_up()
    again.run()
    check(again, {3})


@pytest.mark.slow
def test_of_a_slice_that_was_committed_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice is read again under the mended rule, and takes nothing more."""
    filled_then_rolled_back(tmp_path)
    dies_behind_a_slice(process(tmp_path, BAD, rule()), monkeypatch)
    again = process(tmp_path, BAD, rule("BIGINT"))
    again.caught_up()
    again.run()
    check(again, BAD)


@pytest.mark.slow
def test_of_a_slice_that_was_committed_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice is read again while they cannot be, and puts nothing aside that the table has."""
    filled_then_rolled_back(tmp_path)
    dies_behind_a_slice(process(tmp_path, BAD, rule("BIGINT")), monkeypatch)
    again = process(tmp_path, BAD, rule("BIGINT"), decoder=Refusing({13, 14}))
    again.caught_up()
    again.run()
    check(again, {3})


@pytest.mark.slow
def test_of_a_batch_that_was_committed_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = process(tmp_path, BAD, rule("BIGINT"))
    first.run(1)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", lambda at, _: _killed() if at == "before-closing" else None)
        first.run()
    again = process(tmp_path, BAD, rule("BIGINT"), decoder=Refusing({13, 27}))
    again.run()
    check(again, {27})


@pytest.mark.slow
@pytest.mark.parametrize("is_bad_again", [True, False], ids=["bad again", "good again"])
def test_of_a_table_that_is_rolled_back_once_more(tmp_path: Path, is_bad_again: bool) -> None:
    filled_then_rolled_back(tmp_path)
    first = process(tmp_path, BAD, rule("BIGINT"))
    catch_up = first.catch_up("lake.items")
    assert catch_up.step() is Step.SLICE and put_aside(first) == [3]
    back_to_first_batch(first)
    again = process(tmp_path, BAD, rule("BIGINT"), decoder=Refusing({13, 14} if is_bad_again else set()))
    again.caught_up()
    again.run()
    check(again, BAD if is_bad_again else {3})


@pytest.mark.slow
def test_a_rollback_beside_the_catch_up_opens_them_again(tmp_path: Path) -> None:
    filled_then_rolled_back(tmp_path)
    first = process(tmp_path, BAD, rule("BIGINT"))
    catch_up = first.catch_up("lake.items")
    assert catch_up.step() is Step.SLICE
    back_to_first_batch(first)
    first.settings = replace(first.settings, decoder=Refusing({13, 14}))
    while catch_up.step() is not Step.DONE:
        pass
    first.run()
    check(process(tmp_path, BAD, rule("BIGINT")), BAD)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after-write", "after-append"])
def test_of_a_batch_that_a_new_checkpoint_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The table has none of its rows, and the old checkpoint's lines stay what they are: or it has all others."""
    first = process(tmp_path, BAD, rule())
    first.run(1)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", lambda at, batch: _killed() if (at, batch) == (point, 1) else None)
        first.run()
    shutil.rmtree(tmp_path / "checkpoint")
    process(tmp_path, BAD, rule("BIGINT"), query="another").run()
    check(process(tmp_path, BAD, rule("BIGINT"), query="another"), {3} if point == "after-write" else BAD)


@pytest.mark.slow
def test_another_record_at_the_place_stays(tmp_path: Path) -> None:
    """As after a topic was recreated."""
    filled_then_rolled_back(tmp_path)
    put(tmp_path, 1, [bad(13, topic="shop.public.items"), bad(14, topic="shop.public.others")], "query")
    again = process(tmp_path, BAD, rule("BIGINT"))
    again.caught_up()
    again.run()
    assert put_aside(again) == [3, 13, 14]


@pytest.mark.slow
def test_unreadable_ones_are_for_the_table_that_they_name_by_now(tmp_path: Path) -> None:
    """A record names no table while it cannot be read. Read again for one table, those of others stay."""
    rules = [{"match": {"table": name}, "into": f"lake.{name}"} for name in ("items", "other")]
    rows = [event("c", i, {"id": i}, table="items" if i % 2 else "other") for i in range(30)]
    source = records(*rows)
    unreadable = source.to_pylist()
    for offset in (12, 13):
        unreadable[offset]["value"] = b"{broken"
    broken = pa.RecordBatch.from_pylist(unreadable, schema=source.schema)
    first = PausedPipeline(tmp_path, broken, rules, has_quarantine=True)
    first.run()
    assert put_aside(first) == [12, 13]
    for line in (tmp_path / "checkpoint-quarantine").rglob("*.jsonl"):  # the same records, unreadable then
        fields = [json.loads(text) for text in line.read_text().splitlines()]
        mended = [{**one, "payload": source.column("value")[one["offset"]].as_py().decode()} for one in fields]
        line.write_text("".join(json.dumps(one) + "\n" for one in mended))
    back_to_first_batch(first)
    again = PausedPipeline(tmp_path, source, rules, has_quarantine=True)
    again.caught_up()
    assert sorted(again.rows("lake.items")) == [*range(1, 30, 2)]
    assert put_aside(again) == [12]


@dataclass(frozen=True)
class Refusing:
    """A decoder that cannot read the records at some offsets, as when a registry does not give their schema."""

    offsets: set[int]

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        decoded = DebeziumJsonDecoder().decode(batch, targets)
        held = [
            row
            for change in decoded.changes
            for row in rows_at(batch, change.source, change.partition, self.offsets, "it cannot be read")
        ]
        changes = [
            replace(change, rows=change.rows.filter(pa.array([o.as_py() not in self.offsets for o in of])))
            for change in decoded.changes
            for of in [change.rows.column(OFFSET_COLUMN)]
        ]
        counts = decoded.counts + DecodeCounts(with_rows=-len(held), quarantined=len(held))
        kept = tuple(change for change in changes if change.rows.num_rows)
        return replace(decoded, changes=kept, quarantine=(*decoded.quarantine, *held), counts=counts)


def dies_behind_a_slice(pipeline: PausedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", lambda at, _: _killed() if at == "slice-done" else None)
        pipeline.catch_up("lake.items").step()


def _killed() -> None:
    raise Killed
