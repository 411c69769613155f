"""A rule that is away for a while: its table has all records once when it is back, wherever a process was killed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from pipelines.checkpoint.book import Cause
from pipelines.replay.replay_slices import check_in_stream
from pipelines.tables.table_failure import TableFailure
from sinks import faults
from sources.changes import RECORD_SCHEMA
from tests.support import paused_pipeline
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import Killed, PausedPipeline, killed_at

COUNT = 60
SUM_OPTIONS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
SUMS = {"match": {"table": "sums"}, "into": "lake.sums", "options": SUM_OPTIONS}
ITEMS = {"match": {"table": "items"}, "into": "lake.items"}


def source() -> pa.RecordBatch:
    """Records of two topics by turns."""
    items = records(*(event("c", n, {"id": n}) for n in range(COUNT))).to_pylist()
    sums = records(*(event("c", n % 5, {"id": n % 5, "amount": 1}, table="sums") for n in range(COUNT))).to_pylist()
    other = [{**row, "topic": "shop.public.sums"} for row in sums]
    rows = [row for pair in zip(items, other, strict=True) for row in pair]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def process(root: Path, *rules: Mapping[str, Any], **keys: Any) -> PausedPipeline:
    return PausedPipeline(root, source(), rules, **keys)


def sums(pipeline: PausedPipeline) -> dict[int, int]:
    return {key: row["amount"] for key, row in pipeline.rows("lake.sums").items()}


ALL = dict.fromkeys(range(5), COUNT // 5)


@pytest.mark.slow
@pytest.mark.parametrize("away", [1, 4])
def test_what_came_meanwhile_is_caught_up(tmp_path: Path, away: int) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    for _ in range(2):
        process(tmp_path, ITEMS).run(away)
    back = process(tmp_path, SUMS, ITEMS)
    (mark,) = back.paused.pauses.values()
    assert (mark.table, mark.cause, mark.reason) == ("lake.sums", Cause.FAILED, "no rule wrote it from batch 2 on")
    back.run(1)
    back.caught_up(batch_between=True)
    back.run()
    assert (back.behind, sums(back)) == ({}, ALL)
    assert sorted(back.rows("lake.items")) == [*range(COUNT)]
    again = process(tmp_path, SUMS, ITEMS)
    assert (again.behind, sums(again)) == ({}, ALL)


@pytest.mark.slow
def test_a_table_that_no_rule_writes_is_not_behind(tmp_path: Path) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    away = process(tmp_path, ITEMS)
    away.run()
    assert (away.behind, "lake.sums" in away.paused.ruleless) == ({}, True)
    assert sum(sums(away).values()) == 10


@pytest.mark.slow
@pytest.mark.parametrize("cause", [Cause.FAILED, Cause.ASKED])
def test_a_table_that_was_behind_keeps_its_place_and_its_cause(tmp_path: Path, cause: Cause) -> None:
    first = process(tmp_path, SUMS, ITEMS)
    first.run(2)
    first.paused.pause("lake.sums", cause, "why", 2, ["shop.public.sums"])
    first.run(2)
    away = process(tmp_path, ITEMS)
    away.run(2)
    assert away.behind == {}
    back = process(tmp_path, SUMS, ITEMS)
    assert back.paused.pauses["lake.sums"].cause is cause
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("slices", [0, 2])
def test_a_backfill_that_was_not_done_goes_on(tmp_path: Path, slices: int) -> None:
    process(tmp_path, ITEMS).run(4)
    filling = process(tmp_path, ITEMS, {**SUMS, "backfill": True})
    filling.run(1)
    if slices:
        catch_up = filling.catch_up("lake.sums")
        for _ in range(slices):
            catch_up.step()
    away = process(tmp_path, ITEMS)
    away.run(2)
    assert away.behind == {}
    back = process(tmp_path, ITEMS, {**SUMS, "backfill": True})
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_table_that_failed_before_its_first_rows_has_all_in_the_end(tmp_path: Path) -> None:
    first = process(tmp_path, ITEMS)
    first.run(1)
    first.paused.pause("lake.sums", Cause.FAILED, "why", 1, ["shop.public.sums"])
    process(tmp_path, ITEMS).run(2)
    back = process(tmp_path, SUMS, ITEMS)
    assert list(back.behind) == ["lake.sums"]
    back.caught_up()
    back.run()
    assert sum(sums(back).values()) == COUNT - 5


@pytest.mark.slow
@pytest.mark.parametrize("how", ["misspelt", "taken by an earlier rule"])
def test_a_rule_that_does_not_lead_to_its_table_any_more_is_away(tmp_path: Path, how: str) -> None:
    """By the source tables that fed the table, where the names of table and topic do not tell."""
    process(tmp_path, SUMS, ITEMS).run(2)
    other = {**SUMS, "match": {"table": "sumz"}} if how == "misspelt" else {**SUMS, "into": "lake.elsewhere"}
    rules = [other, ITEMS] if how == "misspelt" else [other, SUMS, ITEMS]
    away = process(tmp_path, *rules)
    away.run(2)
    assert "lake.sums" in away.paused.ruleless
    back = process(tmp_path, SUMS, ITEMS)
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_topic_that_began_meanwhile_is_caught_up_too(tmp_path: Path) -> None:
    rule = {"match": {"table": "s[12]"}, "into": "lake.sums", "options": SUM_OPTIONS, "merge_sources": "same_rows"}
    rows: list[dict[str, Any]] = []
    for n in range(COUNT):
        name = "s2" if n % 2 and n >= 20 else "s1"
        row = records(event("c", n % 5, {"id": n % 5, "amount": 1}, table=name)).to_pylist()[0]
        rows.append({**row, "topic": f"shop.public.{name}", "offset": n})
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
    PausedPipeline(tmp_path, batch, [rule]).run(2)
    PausedPipeline(tmp_path, batch, [ITEMS]).run(2)
    back = PausedPipeline(tmp_path, batch, [rule])
    back.run(1)
    back.caught_up(batch_between=True)
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_first_batch_that_was_killed_keeps_the_place_of_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "reached", lambda point, _: _killed() if point == "before-closing" else None)
    with pytest.raises(Killed):
        process(tmp_path, SUMS, ITEMS).run(1)
    monkeypatch.undo()
    process(tmp_path, ITEMS).run(2)
    back = process(tmp_path, SUMS, ITEMS)
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_checkpoint_that_is_lost_meanwhile_takes_no_record_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    process(tmp_path, ITEMS).run(2)
    shutil.rmtree(tmp_path / "checkpoint")
    monkeypatch.setattr(paused_pipeline, "USER", "tidemark-shop-other")
    for _ in range(2):
        process(tmp_path, ITEMS).run(2)
    back = process(tmp_path, SUMS, ITEMS)
    back.run(1)
    back.caught_up()
    back.run()
    assert (back.behind, sums(back)) == ({}, ALL)
    assert sorted(back.rows("lake.items")) == [*range(COUNT)]


@pytest.mark.slow
def test_one_of_several_sources_that_is_away_and_comes_back_is_told_once_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The table goes on with the others; nobody could read what it misses without reading their records twice."""
    both = {**SUMS, "match": {"table": "sums|items"}, "merge_sources": "same_rows"}
    one = {**both, "match": {"table": "sums"}}
    told: list[list[str]] = []
    other = {"match": {"table": "else"}, "into": "lake.else"}
    for rules in ([both], [both], [one], [one], [other], [one], [both], [both]):
        caplog.clear()
        pipeline = process(tmp_path, *rules)
        pipeline.run(1)
        pipeline.caught_up()
        told.append([r.getMessage() for r in caplog.records if "shop.public.items" in r.getMessage()])
    assert [len(texts) for texts in told] == [0, 0, 1, 0, 0, 0, 1, 0]
    assert told[2][0].startswith(
        "table lake.sums: no rule routes records of shop.public.items (topic shop.public.items) to it;"
        " it lacks them from batch 2 on"
    )
    assert (
        "no rule routed records of shop.public.items (topic shop.public.items) to it from batch 2 on; it lacks those"
        " from before batch 6: `tidemark replay FILE --table lake.sums`"
    ) in told[6][0]


def snapshot_file(root: Path) -> Path:
    return max((root / "warehouse/lake.db/sums/snapshot").glob("snapshot-*"), key=lambda file: int(file.name[9:]))


@pytest.mark.slow
def test_a_table_that_cannot_be_read_while_it_is_away_keeps_its_place(tmp_path: Path) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    process(tmp_path, ITEMS).run(2)
    file = snapshot_file(tmp_path)
    text = file.read_bytes()
    file.write_bytes(b"{")
    process(tmp_path, ITEMS).run(1)
    file.write_bytes(text)
    back = process(tmp_path, SUMS, ITEMS)
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_table_is_not_caught_up_without_a_rule(tmp_path: Path) -> None:
    """It could not be read when its rule went, so nobody noticed."""
    process(tmp_path, SUMS, ITEMS).run(2)
    file = snapshot_file(tmp_path)
    text = file.read_bytes()
    file.write_bytes(b"{")
    process(tmp_path, SUMS, ITEMS).run(2)
    away = process(tmp_path, ITEMS)
    file.write_bytes(text)
    with pytest.raises(TableFailure, match="no rule matches its source tables"):
        away.caught_up()
    back = process(tmp_path, SUMS, ITEMS)
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_table_that_is_away_is_not_compacted(tmp_path: Path) -> None:
    """What that would commit would be taken for rows of the batch that a process was killed in."""
    options = {**SUM_OPTIONS, "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"}
    here = {"match": {"table": "sums", "schema": "public"}, "into": "lake.{table}", "options": options}
    first = process(tmp_path, here, ITEMS)
    first.run(3)
    first._log("offsets", 3, f'v1\n{{"batchTimestampMs":0}}\n{paused_pipeline.position(40)}')
    process(tmp_path, {**here, "match": {"table": "sums", "schema": "other"}}, ITEMS).run(3)
    back = process(tmp_path, here, ITEMS)
    back.caught_up()
    back.run()
    assert sums(back) == ALL


@pytest.mark.slow
def test_a_new_checkpoint_notes_where_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `restart` at the offsets behind those of the tables: the topics are not read again from their begin."""
    process(tmp_path, SUMS, ITEMS).run(4)
    shutil.rmtree(tmp_path / "checkpoint")
    monkeypatch.setattr(paused_pipeline, "USER", "tidemark-shop-other")

    def restarted(*rules: Mapping[str, Any]) -> PausedPipeline:
        pipeline = process(tmp_path, *rules, on_lost_checkpoint="restart")
        monkeypatch.setattr(pipeline.checkpoint, "offset_before", lambda _: paused_pipeline.position(40))
        return pipeline

    away = restarted(ITEMS)
    away.run(1)
    assert away.book.pauses["lake.sums"].begin == paused_pipeline.position(40)


@pytest.mark.slow
def test_a_rule_for_another_topic_says_what_the_table_misses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    other = {**SUMS, "match": {"table": "items"}, "merge_sources": "same_rows"}
    process(tmp_path, other).run(1)
    assert "its earlier sources (shop.public.sums) now: it lacks their records from batch 2 on" in caplog.text
    caplog.clear()
    process(tmp_path, {**other, "match": {"table": "sums|items"}})
    assert "no rule routed records of shop.public.sums (topic shop.public.sums) to it from batch 2 on" in caplog.text


def test_a_pause_outlasts_the_rule_of_one_source(tmp_path: Path) -> None:
    """The other one has sent its first records while the table was paused, so the table has none of it."""
    rules = [{**SUMS, "match": {"table": t}, "merge_sources": "same_rows"} for t in ("sums", "items")]
    rows = [row for row in source().to_pylist() if row["topic"].endswith("sums") or row["offset"] >= 10]
    records_of_both = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
    first = PausedPipeline(tmp_path, records_of_both, rules)
    first.run(1)
    first.pause("lake.sums")
    first.run(2)
    other = PausedPipeline(tmp_path, records_of_both, rules[1:])
    other.run(1)
    assert other.paused.pauses["lake.sums"].cause is Cause.ASKED
    assert other.paused.pauses["lake.sums"].topics == ("shop.public.items", "shop.public.sums")


def test_a_new_table_is_filled_by_all_its_rules(tmp_path: Path) -> None:
    process(tmp_path, {"match": {"table": "else"}, "into": "lake.else"}).run()
    fill = {"into": "lake.all", "backfill": True, "options": SUM_OPTIONS, "merge_sources": "same_rows"}
    rules = [{**fill, "match": {"table": t, "topic": f"shop.public.{t}"}} for t in ("sums", "items")]
    filling = process(tmp_path, *rules)
    assert filling.paused.pauses["lake.all"].topics == ("shop.public.items", "shop.public.sums")


def _killed() -> None:
    raise Killed


@pytest.mark.slow
def test_a_replay_of_a_table_that_is_away_waits_for_its_stream(tmp_path: Path) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    away = process(tmp_path, ITEMS)
    away.run(2)
    back = process(tmp_path, ITEMS)
    with pytest.raises(ConfigError, match=r"read while no rule wrote the table. Start the pipeline with a rule for it"):
        check_in_stream(back.config, back.checkpoint, back.standings.own, "lake.sums")


@pytest.mark.slow
@pytest.mark.parametrize("is_filled", [False, True])
def test_a_table_that_was_dropped_meanwhile_is_a_new_one(tmp_path: Path, is_filled: bool) -> None:
    process(tmp_path, SUMS, ITEMS).run(2)
    away = process(tmp_path, ITEMS)
    away.run(2)
    shutil.rmtree(tmp_path / "warehouse" / "lake.db" / "sums")
    back = process(tmp_path, {**SUMS, "backfill": is_filled}, ITEMS)
    back.caught_up()
    back.run()
    assert sum(sums(back).values()) == (COUNT if is_filled else COUNT - 20)


@pytest.mark.slow
def test_a_rule_for_another_topic_writes_the_table_at_once(tmp_path: Path) -> None:
    """Of what came while no rule was there for the first topic nothing is read, and nothing twice."""

    def rule(topic: str) -> Mapping[str, Any]:
        return {**SUMS, "match": {"topic": topic}, "merge_sources": "same_rows"}

    both: Sequence[Mapping[str, Any]] = [rule("shop.public.sums"), {**rule("shop.public.items"), "into": "lake.sums"}]
    rows = source().to_pylist()
    for n, row in enumerate(rows):
        if row["topic"] == "shop.public.items":
            value = event("c", n % 5, {"id": n % 5, "amount": 100}, table="sums")[1]
            rows[n] = {**records((None, value)).to_pylist()[0], **{k: row[k] for k in ("topic", "offset", "key")}}
            rows[n]["key"] = rows[n - 1]["key"] if n else row["key"]
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
    PausedPipeline(tmp_path, batch, [both[0]]).run(2)
    second = PausedPipeline(tmp_path, batch, [both[1]])
    assert "lake.sums" in second.paused.ruleless
    second.run(2)
    assert "lake.sums" not in second.paused.ruleless
    third = PausedPipeline(tmp_path, batch, both)
    assert third.behind == {}
    third.run()
    total = sum(sums(third).values())
    assert total == 10 + 10 * 100 + (COUNT - 20) * 101


@pytest.mark.slow
def test_older_records_of_a_second_rule_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    same = {"merge_sources": "same_rows", "into": "lake.items"}
    process(tmp_path, {**ITEMS, **same}).run(2)
    second = {"match": {"table": "sums"}, **same}
    process(tmp_path, {**ITEMS, **same}, second).run(1)
    assert "backfill" not in caplog.text
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    process(tmp_path, {**ITEMS, **same, "backfill": True}).run(2)
    filled = process(tmp_path, {**ITEMS, **same, "backfill": True}, {**second, "backfill": True})
    filled.run(2)
    told = [r.getMessage() for r in caplog.records if "`backfill` fills only new tables" in r.getMessage()]
    assert len(told) == 1 and told[0].startswith("shop.public.sums: table lake.items existed before records of ")


@pytest.mark.crash
def test_killed_anywhere_nothing_is_lost_or_applied_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = points = 1

    def story(root: Path) -> PausedPipeline:
        first = process(root, SUMS, ITEMS, batch_size=20, slice_size=25)
        if first.stream.next_batch < 2:
            first.run(2 - first.stream.next_batch)
        away = process(root, ITEMS, batch_size=20, slice_size=25)
        if away.stream.next_batch < 4:
            away.run(4 - away.stream.next_batch)
        back = process(root, SUMS, ITEMS, batch_size=20, slice_size=25)
        back.caught_up(batch_between=True)
        back.run()
        back.caught_up()
        return back

    while True:
        root = tmp_path / str(step)
        with killed_at(monkeypatch, step) as was_killed:
            try:
                story(root)
            except Killed:
                points += 1
        if not was_killed():
            break
        finished = story(root)
        assert (finished.behind, sums(finished)) == ({}, ALL), f"crash point {step}"
        step += 5
    assert points > 8
