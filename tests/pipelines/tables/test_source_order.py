"""Tables whose rows are ordered by their place in the log of the source (`order_by: source_position`)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from paimon_table.errors import ConfigError
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.local_batches import pipeline_tables, processed, reported_batches, shop_config, task_settings
from tests.support.placed_changes import (
    RULE,
    TOPICS,
    Change,
    batch,
    content,
    drawn_history,
    folded,
    mongodb,
    mysql,
    oracle,
    other,
    postgresql,
    shuffled,
    sqlserver,
)
from tests.support.source_content import open_table

OPTIONS: list[dict[str, str]] = [
    {"bucket": "1", "changelog-producer": "none", "num-sorted-run.compaction-trigger": "2"},
    {"bucket": "2", "changelog-producer": "none", "full-compaction.delta-commits": "1"},
    {"bucket": "1", "changelog-producer": "lookup", "num-levels": "2"},
    {"bucket": "-1", "changelog-producer": "lookup"},
    {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_order_of_records_gives_the_fold_in_the_order_of_the_source(
    tmp_path: Path, options: dict[str, str]
) -> None:
    for seed in range(2):
        r, root = random.Random(seed), tmp_path / str(seed)
        changes, config = drawn_history(r, 40, postgresql), shop_config(root, [RULE], options)

        for batch_id, records in enumerate(shuffled(r, changes)):
            for _ in range(2):  # the second time in a new process
                tables = PipelineTables(config, "tidemark-shop-test")
                processed(tables, [records], task_settings(root), batch_id)

        table, expected = open_table(tables, "items"), folded(changes)
        assert content(table) == expected, f"seed {seed}"
        if options["changelog-producer"] != "none":
            told = replay_strictly((rows for _, rows in table.changes()), ["id"])
            is_told = options["changelog-producer"] == "lookup"
            assert not is_told or {key: row["n"] for (key,), row in told.items()} == expected, f"seed {seed}"


def test_an_older_event_never_undoes_a_newer_update_or_delete(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [RULE])
    newer = [
        Change("u", 1, 10, postgresql(50)),
        Change("d", 2, None, postgresql(60)),
        Change("c", 3, 1, postgresql(70)),
    ]
    older = [Change("c", 1, 1, postgresql(5)), Change("u", 2, 2, postgresql(6)), Change("u", 3, 3, postgresql(80))]

    reported_batches(tables, [batch(newer), batch(older, TOPICS[1])], tmp_path)

    assert content(open_table(tables, "items")) == {1: 10, 3: 3}


@pytest.mark.slow
@pytest.mark.parametrize("place", [mysql, sqlserver, oracle, other])
def test_each_source_has_an_order_of_its_own(tmp_path: Path, place: Callable[[int], dict[str, Any]]) -> None:
    r = random.Random(3)
    changes = drawn_history(r, 60, place)
    tables = pipeline_tables(tmp_path, [RULE], **{"full-compaction.delta-commits": "1"})

    quarantine, _ = reported_batches(tables, shuffled(r, changes), tmp_path)

    assert content(open_table(tables, "items")) == folded(changes)
    assert not Path(quarantine.path).exists()


def test_documents_have_the_order_of_the_oplog(tmp_path: Path) -> None:
    def document(number: int, op: str, n: int | None) -> dict[str, Any]:
        after = None if n is None else json.dumps({"_id": {"$numberLong": "1"}, "n": n})
        return {"op": op, "before": None, "after": after, "source": mongodb(number)}

    tables = pipeline_tables(tmp_path, [{**RULE, "into": "lake.items"}])
    events = [document(9, "c", 1), document(12, "d", None), document(10, "u", 2)]
    records = [
        {"topic": TOPICS[0], "partition": 0, "offset": i, "timestamp": 0, "key": b'{"id":"1"}',
         "value": json.dumps(value).encode(), "headers": None}
        for i, value in enumerate(events)
    ]  # fmt: skip
    batches = [pa.RecordBatch.from_pylist([record], schema=RECORD_SCHEMA) for record in records]

    quarantine, _ = reported_batches(tables, batches, tmp_path)

    assert open_table(tables, "items").to_arrow().num_rows == 0
    assert not Path(quarantine.path).exists()


def snapshot(number: int, lsn: int) -> Change:
    source = {"connector": "postgresql", "snapshot": "true", "lsn": lsn, "sequence": json.dumps([None, str(lsn)])}
    return Change("r", 1, number, source)


def test_rows_of_a_snapshot_never_undo_a_change(tmp_path: Path) -> None:
    """A restarted snapshot repeats its rows, and the first transaction after it has no lastCommitLsn."""
    tables = pipeline_tables(tmp_path, [RULE])
    first = Change("u", 1, 2, {"connector": "postgresql", "lsn": 150, "sequence": json.dumps([None, "150"])})
    next_one = Change("u", 1, 3, {"connector": "postgresql", "lsn": 140, "sequence": json.dumps(["160", "140"])})
    batches = [[snapshot(0, 100), first], [snapshot(1, 120)], [next_one, first], [snapshot(1, 120)]]

    found = []
    for number, changes in enumerate(batches):
        reported_batches(tables, [batch(changes, first_offset=10 * number)], tmp_path, number)
        found.append(content(open_table(tables, "items")))

    assert found == [{1: 2}, {1: 2}, {1: 3}, {1: 3}]


@pytest.mark.parametrize("again", [2, 1], ids=["the new row alone", "its delete too"])
@pytest.mark.parametrize("is_one_batch", [False, True])
def test_a_changed_key_that_comes_again_takes_no_values_of_a_newer_row(
    tmp_path: Path, again: int, is_one_batch: bool
) -> None:
    """The old key has another row by then."""
    tables = pipeline_tables(tmp_path, [RULE])
    changes = [Change("c", 1, 5, postgresql(1)), Change("d", 1, None, postgresql(2)), Change("c", 2, 0, postgresql(2))]
    rows = batch(changes).to_pylist()
    value = {**changes[2].value, "after": {"id": 2, "n": "__debezium_unavailable_value"}}
    rows[2]["value"] = json.dumps(value).encode()
    rows[1]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
    rows[2]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]
    other = batch([Change("c", 1, 9, postgresql(9))]).to_pylist()
    parts = [rows, other, rows[again:]]
    records = [{**row, "offset": offset} for offset, row in enumerate(row for part in parts for row in part)]
    ends = [len(records)] if is_one_batch else [3, 4, len(records)]

    slices = [records[begin:end] for begin, end in pairwise([0, *ends])]
    reported_batches(tables, [pa.RecordBatch.from_pylist(part, schema=RECORD_SCHEMA) for part in slices], tmp_path)

    assert {key: int(n or 0) for key, n in content(open_table(tables, "items")).items()} == {1: 9, 2: 5}


def test_columns_of_the_source_may_be_called_like_those_of_a_log(tmp_path: Path) -> None:
    value = {**Change("c", 1, None, postgresql(1)).value, "after": {"id": 1, "event_op": "own", "event_offset": 5}}
    records = batch([Change("c", 1, 1, postgresql(1))])
    index = records.schema.get_field_index("value")
    records = records.set_column(index, "value", pa.array([json.dumps(value).encode()]))
    tables = pipeline_tables(tmp_path, [RULE])

    reported_batches(tables, [records], tmp_path)

    rows = open_table(tables, "items").to_arrow().drop_columns(["_tidemark_position", "_tidemark_deleted_at"])
    assert rows.to_pylist() == [{"id": 1, "event_op": "own", "event_offset": 5}]


def reasons(path: str) -> list[str]:
    files = sorted(Path(path).rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


def test_a_table_has_the_positions_of_one_kind_of_source(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [RULE])
    mixed = [Change("c", 1, 1, other(1)), Change("c", 2, 2, postgresql(2)), Change("c", 3, 3, {"ts_ms": None})]

    quarantine, _ = reported_batches(
        tables, [batch(mixed), batch([Change("c", 4, 4, mysql(4))], first_offset=3)], tmp_path
    )

    assert content(open_table(tables, "items")) == {2: 2}
    told = reasons(quarantine.path)
    assert len(told) == 3
    assert all(
        "in the form of the table's first records (postgresql). Let the connector write source.lsn" in t for t in told
    )


def test_records_that_tell_no_place_go_to_quarantine(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [RULE])
    lost = Change("c", 1, 1, {"ts_ms": None})

    quarantine, _ = reported_batches(tables, [batch([lost])], tmp_path)

    assert ["has no place in the log of its source" in text for text in reasons(quarantine.path)] == [True]


def test_rows_that_were_there_before_are_older_than_every_record(tmp_path: Path) -> None:
    plain = {name: value for name, value in RULE.items() if name != "order_by"}
    before = pipeline_tables(tmp_path, [plain])
    reported_batches(before, [batch([Change("c", 1, 1, postgresql(9)), Change("c", 2, 2, postgresql(9))])], tmp_path)

    tables = pipeline_tables(tmp_path, [RULE])
    reported_batches(tables, [batch([Change("u", 1, 5, postgresql(1))], first_offset=2)], tmp_path, 1)

    assert content(open_table(tables, "items")) == {1: 5, 2: 2}
    with pytest.raises(ConfigError, match=r"is ordered by source positions.*Set `order_by: source_position`"):
        reported_batches(
            pipeline_tables(tmp_path, [plain]), [batch([Change("u", 1, 6, postgresql(2))], first_offset=3)], tmp_path, 2
        )


def test_rows_of_another_order_are_refused(tmp_path: Path) -> None:
    plain = {name: value for name, value in RULE.items() if name != "order_by"}
    versioned = pipeline_tables(tmp_path, [{**plain, "options": {"sequence.field": "n"}}])
    reported_batches(versioned, [batch([Change("c", 1, 1, postgresql(9))])], tmp_path)

    with pytest.raises(ConfigError, match=r"its rows are ordered by 'sequence.field' = n"):
        reported_batches(
            pipeline_tables(tmp_path, [RULE]), [batch([Change("u", 1, 6, postgresql(2))], first_offset=3)], tmp_path, 2
        )


def test_rows_that_leave_a_filter_are_deleted_in_order(tmp_path: Path) -> None:
    rule = {**RULE, "where": "n < 10", "columns": {"add": {"twice": "n * 2"}, "keep": ["id", "n"]}}
    tables = pipeline_tables(tmp_path, [rule], **{"full-compaction.delta-commits": "1"})
    from sources.debezium_json.decoder import DebeziumJsonDecoder
    from sources.expressions.decoder import TransformingDecoder

    decoder = TransformingDecoder(DebeziumJsonDecoder(), {})
    gone = [Change("c", 1, 1, postgresql(1)), Change("u", 1, 20, postgresql(9)), Change("u", 2, 3, postgresql(9))]
    late = [Change("u", 1, 2, postgresql(5)), Change("u", 2, 30, postgresql(5))]

    reported_batches(tables, [batch(gone), batch(late, first_offset=3)], tmp_path, decoder=decoder)

    rows = open_table(tables, "items").to_arrow().select(["id", "n", "twice"]).to_pylist()
    assert rows == [{"id": 2, "n": 3, "twice": 6}]


def test_deleted_rows_that_stay_are_ordered_too(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{**RULE, "history": "soft_delete"}])
    changes = [Change("c", 1, 1, postgresql(1)), Change("d", 1, None, postgresql(9)), Change("u", 1, 2, postgresql(5))]

    reported_batches(tables, [batch([change], first_offset=i) for i, change in enumerate(changes)], tmp_path)

    (row,) = open_table(tables, "items").to_arrow().to_pylist()
    assert (row["id"], row["n"], row["deleted_at"] is None) == (1, 1, False)
    assert "_tidemark_deleted_at" not in row


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"order_by": "arrival"}, "expected source_position or"),
        ({"order_by": {"source_position": {"keep_deletes": "soon"}}}, "expected a time such as 7 d"),
        ({"mode": "append", "merge_sources": None}, "with `mode: append` every record adds a row"),
        ({"options": {"sequence.field": "n"}}, "sets the order, and so does option 'sequence.field'"),
        ({"options": {"sequence.field.sort-order": "descending"}}, "and so does option 'sequence.field.sort-order'"),
        ({"options": {"merge-engine": "partial-update"}}, "it needs 'merge-engine' = deduplicate"),
        ({"options": {"changelog-producer": "input"}}, "repeats records as they arrive"),
        ({"options": {"deletion-vectors.enabled": "true"}}, "'deletion-vectors.enabled' has no use here"),
        ({"options": {"bucket": "-2"}}, "it needs another 'bucket' than -2"),
        ({"options": {"rowkind.field": "n"}}, "option 'rowkind.field' creates deletes"),
        ({"schema_changes": {"truncate": "apply"}, "merge_sources": None}, "does not work with this order"),
        (
            {"columns": {"mask": {"_tidemark_deleted_at": "redact"}}},
            "`order_by: source_position` stores its own values",
        ),
        ({"columns": {"types": {"_tidemark_position": "STRING"}}}, "`order_by: source_position` stores its own"),
    ],
)
def test_what_cannot_be_right_is_refused(tmp_path: Path, rule: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        shop_config(tmp_path, [{**RULE, **rule}], {})


def test_formats_whose_records_have_no_source_are_refused(tmp_path: Path) -> None:
    source = {"files": {"path": str(tmp_path)}, "format": "json"}
    with pytest.raises(ValidationError, match="records of the format json have no position in the log"):
        shop_config(tmp_path, [{**RULE, "primary_key": ["id"]}], {}, source=source)
