"""TRUNCATE events of source tables: what their tables hold, and tell as changes."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table import Table
from paimon_table.errors import SchemaChangeRefused
from pipelines.batch.batch import process_batch
from pipelines.batch.compactions import Compactions
from pipelines.batch.exchange import Written
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import WriteTask
from tests.support.changelog import replay_strictly
from tests.support.item_batches import TOPIC, event, records
from tests.support.local_batches import (
    dump_batches,
    pipeline_tables,
    processed,
    reported_batches,
    shop_config,
    task_settings,
)
from tests.support.paused_pipeline import Killed, PausedPipeline, killed_at
from tests.support.replay import CAPTURES
from tests.support.source_content import assert_equals_source, open_table

APPLY: list[dict[str, object]] = [
    {"match": {"schema": "public", "table": "(.*)"}, "into": "lake.{table}", "schema_changes": {"truncate": "apply"}}
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "producer"), [(1, "lookup"), (3, "input"), (1000, "none"), (1000, "lookup")])
@pytest.mark.parametrize("is_one_job", [False, True])
def test_a_captured_truncate_is_followed(tmp_path: Path, size: int, producer: str, is_one_job: bool) -> None:
    tables = pipeline_tables(tmp_path, APPLY, **{"changelog-producer": producer})
    batches = [
        batch.filter([topic.endswith(("wiped", "wiped_child")) for topic in batch.column("topic").to_pylist()])
        for batch in dump_batches(CAPTURES / "evolve_schema.jsonl.gz", size)
    ]

    processed(tables, [b for b in batches if b.num_rows], task_settings(tmp_path), is_one_job=is_one_job)

    for name in ("wiped", "wiped_child"):
        table = open_table(tables, name)
        assert_equals_source(table, "evolve", name, ["id"], set())
        if producer == "lookup":
            changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
            assert len(changes) == len(table.to_arrow())


KAFKA = {"kafka": {"bootstrap_servers": "localhost:1", "topics": {"include": [TOPIC]}}, "format": "debezium-json"}
ITEMS: dict[str, Any] = {"match": {"table": "items"}, "into": "lake.items", "schema_changes": {"truncate": "apply"}}


def drawn_events(r: random.Random, count: int) -> tuple[list[tuple[Any, Any]], dict[int, dict[str, Any]]]:
    """Inserts, updates, deletes and some truncates, and what the source holds in the end."""
    found, rows = [], dict[int, dict[str, Any]]()
    for n in range(count):
        key = r.randrange(12)
        if r.random() < 0.08:
            rows.clear()
            found.append((None, event("t", 0)[1]))
        elif key in rows and r.random() < 0.4:
            found.append(event("d", key, None, rows.pop(key)))
        else:
            op = "u" if key in rows else "c"
            rows[key] = {"id": key, "n": n}
            found.append(event(op, key, rows[key]))
    return found, rows


def content(table: Any) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


OPTIONS: list[dict[str, str]] = [
    {"bucket": "2", "changelog-producer": "lookup"},
    {"bucket": "-1", "changelog-producer": "lookup", "dynamic-bucket.target-row-num": "3"},
    {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
    {"bucket": "2", "deletion-vectors.enabled": "true"},
    {"bucket": "1", "changelog-producer": "none"},
]


@pytest.mark.slow
@pytest.mark.parametrize("source", [{}, {"source": KAFKA}], ids=["dumps", "kafka"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_history_gives_the_rows_and_the_changes_of_its_source(
    tmp_path: Path, options: dict[str, str], source: dict[str, Any]
) -> None:
    """Each batch runs twice, the second time in a process that starts over: it changes nothing."""
    for seed in range(4):
        r, root = random.Random(seed), tmp_path / str(seed)
        events, expected = drawn_events(r, 60)
        whole, at, batch_id = records(*events), 0, 0
        config = shop_config(root, [ITEMS], options, **source)
        while at < whole.num_rows:
            part = whole.slice(at, r.randint(1, 25))
            for _ in range(2):
                tables = PipelineTables(config, "tidemark-shop-test")
                processed(tables, [part], task_settings(root), batch_id)
            at, batch_id = at + part.num_rows, batch_id + 1

        table = open_table(tables, "items")
        assert content(table) == expected, f"seed {seed}"
        if options.get("changelog-producer", "none") not in ("none", "input"):
            changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
            assert changes == {(key,): row for key, row in expected.items()}, f"seed {seed}"


def test_a_truncate_below_the_position_deletes_nothing(tmp_path: Path) -> None:
    config = shop_config(tmp_path, [ITEMS], {"bucket": "1"}, source=KAFKA)
    first = records(event("c", 1, {"id": 1}), (None, event("t", 0)[1]), event("c", 2, {"id": 2}))
    overlapping = records(
        *((None, event("t", 0)[1]), event("c", 2, {"id": 2}), event("c", 3, {"id": 3})), first_offset=1
    )

    for batch_id, batch in enumerate((first, overlapping)):
        processed(PipelineTables(config, "tidemark-shop-test"), [batch], task_settings(tmp_path), batch_id)

    assert content(Table.open(f"{config.catalog.warehouse}/lake.db/items")).keys() == {2, 3}


@pytest.mark.crash
def test_killed_anywhere_a_truncate_is_applied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the stream and in the slices of a table that is caught up."""
    events, expected = drawn_events(random.Random(3), 70)
    others = [event("c", n, {"id": n, "n": 1}, table="orders") for n in range(20)]
    source = records(*(events + others))
    step, points = 1, 0
    while True:
        root = tmp_path / str(step)
        with killed_at(monkeypatch, step) as was_killed:
            try:
                _story(root, source)
            except Killed:
                points += 1
        if not was_killed():
            break
        finished = _story(root, source)
        assert finished.behind == {}
        assert finished.rows("lake.items") == expected, f"crash point {step}"
        changes = replay_strictly((rows for _, rows in finished.table("lake.items").changes()), ["id"])
        assert changes == {(key,): row for key, row in expected.items()}, f"crash point {step}"
        step += 5
    assert points > 8


def _story(root: Path, source: pa.RecordBatch) -> PausedPipeline:
    rules = [ITEMS, {"match": {"table": "orders"}, "into": "lake.orders"}]
    pipeline = PausedPipeline(root, source, rules, batch_size=23, slice_size=17)
    if pipeline.stream.next_batch < 2:
        pipeline.run(1)
        pipeline.pause("lake.items")
        pipeline.run(1)
    pipeline.caught_up(batch_between=True)
    pipeline.run()
    pipeline.caught_up()
    return pipeline


def test_a_topic_of_several_partitions_pauses_its_table(tmp_path: Path) -> None:
    first = records(*(event("c", key, {"id": key}) for key in (1, 2)))
    both = first.set_column(1, "partition", pa.array([0, 1], pa.int32()))
    tables = pipeline_tables(tmp_path, [ITEMS])
    reported_batches(tables, [both], tmp_path)

    with pytest.raises(
        SchemaChangeRefused, match="the topic has 2 partitions, and Tidemark cannot know which of their"
    ):
        reported_batches(tables, [records((None, event("t", 0)[1]), first_offset=5)], tmp_path, 1)

    assert content(open_table(tables, "items")).keys() == {1, 2}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}, "merge engine aggregation"),
        ({"ignore-delete": "true"}, "its options ignore deletes"),
        ({"bucket": "-2"}, "its rows wait for a compaction job"),
        ({"sequence.field": "n"}, "lets a deleted row win over a newer one"),
    ],
)
def test_a_table_that_takes_no_deletes_is_paused(tmp_path: Path, options: dict[str, str], told: str) -> None:
    tables = pipeline_tables(tmp_path, [{**ITEMS, "options": options}])
    batch = records(event("c", 1, {"id": 1, "n": 1}), (None, event("t", 0)[1]))

    with pytest.raises(SchemaChangeRefused, match=told):
        reported_batches(tables, [batch], tmp_path)


def test_rows_before_a_truncate_in_its_batch_count_among_the_truncates(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [ITEMS])
    batch = records(*(event("c", n, {"id": n}) for n in range(3)), (None, event("t", 0)[1]), event("c", 9, {"id": 9}))

    _, (report,) = reported_batches(tables, [batch], tmp_path)

    assert (report.counts.skipped, report.counts.with_rows) == ({"truncates": 4}, 1)
    assert content(open_table(tables, "items")).keys() == {9}


def test_what_was_written_for_a_truncate_goes_with_a_batch_that_fails(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [ITEMS])
    reported_batches(tables, [records(*(event("c", n, {"id": n}) for n in range(3)))], tmp_path)
    before = files_below(tmp_path / "warehouse")

    exchange = _Failing([records((None, event("t", 0)[1]), first_offset=3)])
    with pytest.raises(Killed):
        process_batch(BatchRun(1), tables, task_settings(tmp_path), exchange, Compactions(), lambda _: None)

    assert exchange.had_files > before
    assert files_below(tmp_path / "warehouse") == before


class _Failing(LocalExchange):
    """Its write tasks do not come to an end."""

    had_files: set[str]

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        self.had_files = files_below(Path(task.targets[0].context.paths.root).parent.parent)
        raise Killed


def files_below(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*.*") if path.is_file()}


@pytest.mark.parametrize("words", [{"history": "soft_delete"}, {"history": "scd2"}, {"merge_sources": "same_rows"}, {}])
def test_the_remedy_is_a_word_that_the_rule_may_have(tmp_path: Path, words: dict[str, Any]) -> None:
    rule = {**ITEMS, "schema_changes": {"truncate": "pause"}, **words}
    tables = pipeline_tables(tmp_path, [rule])
    with pytest.raises(SchemaChangeRefused) as refused:
        reported_batches(tables, [records(event("c", 1, {"id": 1})), records(event("t", 1), first_offset=1)], tmp_path)
    told = re.findall(r"\{truncate: (\w+)\}", str(refused.value))
    assert told == (["apply"] if not words else ["skip"])
    for word in told:
        pipeline_tables(tmp_path / word, [{**rule, "schema_changes": {"truncate": word}}])
