"""A source table whose rule comes back, where the table is not just in the stream: its sums have each record once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError, RolledBack
from paimon_table.history.rollback import plan_rollback, roll_back
from pipelines.catchup.reading import Step
from pipelines.replay.replay_slices import check_in_stream
from sinks import faults
from tests.support.listed_kafka import ListedKafka, listed
from tests.support.paused_pipeline import Killed, PausedPipeline

ITEMS = {"match": {"table": "items"}, "into": "lake.items"}
TURNS = [("a", 0), ("b", 0), ("items", 0)] * 27


def rule(table: str) -> dict[str, Any]:
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
    keys = {"primary_key": ["id"], "options": options, "merge_sources": "disjoint_keys"}
    return {"match": {"table": table}, "into": "lake.t", **keys}


ALL = [rule("a"), rule("b"), ITEMS]
WITHOUT_A, WITHOUT_B = [rule("b"), ITEMS], [rule("a"), ITEMS]


def process(
    root: Path, source: pa.RecordBatch, rules: list[Mapping[str, Any]] | list[dict[str, Any]], **keys: Any
) -> PausedPipeline:
    return PausedPipeline(root, source, rules, otherwise="skip", slices=ListedKafka, **keys)


def paused(root: Path, source: pa.RecordBatch, batches: int) -> None:
    """Three batches, then some without the table."""
    first = process(root, source, ALL)
    first.run(3)
    first.pause("lake.t")
    first.run(batches)


def check(pipeline: PausedPipeline, source: pa.RecordBatch) -> None:
    pipeline.caught_up()
    pipeline.run()
    sums = {key: row["amount"] for key, row in pipeline.rows("lake.t").items()}
    topics = source.column("topic").to_pylist()
    assert sums == {key: 1 for key, topic in enumerate(topics) if not topic.endswith("items")}


def back_to_batch(pipeline: PausedPipeline, number: int) -> None:
    context = pipeline.table("lake.t").context
    found = [
        s.id for s in context.snapshots.newest_first() if s.commit_identifier == number and "+" not in s.commit_user
    ]
    roll_back(context, plan_rollback(context, max(found)))


def dies(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], point: str, time: int = 1) -> None:
    """Do something until the process is killed, when it comes to a crash point for the given time."""
    seen: list[str] = []

    def reached(at: str, _number: int) -> None:
        seen.append(at)
        if seen.count(point) == time:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", reached)
        work()


@pytest.mark.slow
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_batch_that_the_table_has_and_spark_has_not_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_first: bool
) -> None:
    source = listed(*TURNS)
    process(tmp_path, source, ALL).run(2)
    away = process(tmp_path, source, WITHOUT_B)
    away.run(1)
    dies(monkeypatch, lambda: away.run(1), "before-closing")
    back = process(tmp_path, source, ALL)
    if batch_first:
        back.run(1)
    check(back, source)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["slice-planned", "slice-done"])
@pytest.mark.parametrize("time", [1, 2])
def test_a_slice_that_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, time: int) -> None:
    """It has the first records of a topic and of a partition."""
    turns = [*[("a", 0), ("b", 0)] * 20, *[("a", 0), ("b", 0), ("c", 0), ("b", 1), ("items", 0)] * 6]
    source = listed(*turns, *[("a", 0), ("b", 0), ("c", 0), ("b", 1)] * 5)
    rules = [*ALL, rule("c")]
    process(tmp_path, source, rules).run(2)
    away = process(tmp_path, source, rules[1:])
    away.run(2)
    away.pause("lake.t")
    away.run(3)
    dies(monkeypatch, away.caught_up, point, time)
    check(process(tmp_path, source, rules), source)


@pytest.mark.slow
def test_a_table_that_was_paused_when_the_rule_went(tmp_path: Path) -> None:
    """A partition comes during the pause: the stream has records of it then, the table has none."""
    turns = [("a", 0), ("b", 0), ("items", 0), ("b", 0)] * 8 + [("a", 0), ("b", 0), ("items", 0), ("b", 1)] * 22
    source = listed(*turns)
    paused(tmp_path, source, 3)
    away = process(tmp_path, source, WITHOUT_B)
    away.run(1)
    away.caught_up()
    away.run(1)
    check(process(tmp_path, source, ALL), source)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3, 99])
def test_a_table_that_goes_away_itself_on_its_way_back(tmp_path: Path, steps: int) -> None:
    source = listed(*TURNS, *TURNS)
    paused(tmp_path, source, 2)
    away = process(tmp_path, source, WITHOUT_A)
    away.run(2)
    catch_up = away.catch_up("lake.t")
    for _ in range(steps):
        if catch_up.step() is Step.DONE:
            break
    process(tmp_path, source, [ITEMS]).run(2)
    check(process(tmp_path, source, ALL), source)


@pytest.mark.slow
def test_sources_that_go_together_and_come_back_one_by_one(tmp_path: Path) -> None:
    source = listed(*TURNS, *TURNS)
    process(tmp_path, source, ALL).run(2)
    for rules, batches in (([ITEMS], 1), (WITHOUT_B, 3), ([ITEMS], 2)):
        away = process(tmp_path, source, rules)
        away.caught_up()
        away.run(batches)
    check(process(tmp_path, source, ALL), source)


@pytest.mark.slow
@pytest.mark.parametrize("start_between", [False, True])
def test_a_table_that_was_rolled_back_meanwhile(tmp_path: Path, start_between: bool) -> None:
    """To before it had records of a partition, of which the stream had passed some when the rule went."""
    turns = [("a", 0), ("b", 0), ("items", 0), ("a", 0)] * 8 + [("a", 0), ("b", 0), ("items", 0), ("a", 1)] * 22
    source = listed(*turns)
    process(tmp_path, source, ALL).run(6)
    away = process(tmp_path, source, WITHOUT_A)
    away.run(1)
    back_to_batch(away, 1)
    if start_between:
        again = process(tmp_path, source, WITHOUT_A)
        again.caught_up()
        again.run(1)
    check(process(tmp_path, source, ALL), source)


@pytest.mark.slow
def test_a_commit_that_nobody_has_counted_and_that_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = listed(*TURNS)
    process(tmp_path, source, ALL).run(2)
    away = process(tmp_path, source, WITHOUT_B)
    away.run(1)
    dies(monkeypatch, lambda: away.run(1), "after-append", 2)
    back_to_batch(process(tmp_path, source, ALL), 2)
    check(process(tmp_path, source, ALL), source)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "running"])
def test_a_quiet_table_under_a_new_checkpoint_is_counted(tmp_path: Path, how: str) -> None:
    source = listed(*TURNS)
    process(tmp_path, source, ALL).run(3)
    (tmp_path / "checkpoint").rename(tmp_path / "old")
    later = listed(*TURNS, *[("items", 0)] * 40).slice(81)
    running = process(tmp_path, later, ALL, query="another")
    running.run(2)
    back_to_batch(running, 0)
    if how == "running":
        with pytest.raises(RolledBack):
            process_of_all(running, tmp_path)
    assert "lake.t" in process(tmp_path, later, ALL, query="another").behind


def process_of_all(running: PausedPipeline, root: Path) -> None:
    """Go on with records of both tables."""
    running.records = listed(*TURNS, *[("items", 0)] * 20, *[("a", 0), ("b", 0)] * 10).slice(81)
    running.run()


@pytest.mark.slow
def test_a_rebuild_waits_for_the_start_that_reads_them(tmp_path: Path) -> None:
    source = listed(*TURNS)
    process(tmp_path, source, ALL).run(2)
    process(tmp_path, source, WITHOUT_A).run(2)
    back = process(tmp_path, source, WITHOUT_A)
    with_rule = process(tmp_path / "other", source, ALL).config.model_copy(
        update={"checkpoint": back.config.checkpoint, "catalog": back.config.catalog}
    )
    with pytest.raises(ConfigError, match=r"lake.t lacks records of shop.public.a .*, because their rule was missing"):
        check_in_stream(with_rule, back.checkpoint, back.standings.own, "lake.t")
    check_in_stream(back.config, back.checkpoint, back.standings.own, "lake.t")
