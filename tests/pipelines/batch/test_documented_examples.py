"""The examples of Paimon's documentation on merge engines and changelogs, as Debezium events through a pipeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.table import Table
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables, run_batches

Row = Sequence[Any]


@dataclass(frozen=True)
class Example:
    name: str
    columns: dict[str, str]
    """Type of each column; the first one is the key."""
    options: dict[str, str]
    events: list[Row]
    """``after`` of a create, or ("d", *before)."""
    content: list[Row]
    changes: list[Row] = field(default_factory=list)
    """Changelog of one batch per event, with kinds; empty: not looked at."""


_GROUPS = {"k": "INT", "a": "INT", "b": "INT", "g_1": "INT", "c": "INT", "d": "INT", "g_2": "INT"}
_PARTIAL = {"merge-engine": "partial-update"}
_PAIRS = {"k": "INT", "a": "INT", "b": "INT", "c": "INT", "d": "INT"}
_LOOKUP = {"changelog-producer": "lookup"}

EXAMPLES = [
    Example(
        "deduplicate keeps the latest record and drops others with its key",
        {"k": "INT", "v": "STRING"},
        {},
        [(1, "a"), (1, "b"), (2, "c"), ("d", 2, "c")],
        [(1, "b")],
    ),
    Example(
        "partial-update completes a record over several updates",
        {"k": "INT", "price": "DOUBLE", "sales": "BIGINT", "title": "STRING"},
        _PARTIAL,
        [(1, 23.0, 10, None), (1, None, None, "This is a book"), (1, 25.2, None, None)],
        [(1, 25.2, 10, "This is a book")],
    ),
    Example(
        "sequence groups keep streams in disorder apart",
        _GROUPS,
        {**_PARTIAL, "fields.g_1.sequence-group": "a,b", "fields.g_2.sequence-group": "c,d"},
        [(1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, None), (1, 3, 3, 1, 3, 3, 3)],
        [(1, 2, 2, 2, 3, 3, 3)],
    ),
    Example(
        "a sequence group may have several sequence fields",
        {**_GROUPS, "g_3": "INT"},
        {**_PARTIAL, "fields.g_1.sequence-group": "a,b", "fields.g_2,g_3.sequence-group": "c,d"},
        [(1, 1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, 1, None), (1, 3, 3, 1, 3, 3, 3, 1)],
        [(1, 2, 2, 2, 3, 3, 3, 1)],
    ),
    Example(
        "aggregate functions inside sequence groups",
        _PAIRS,
        {
            **_PARTIAL,
            "fields.a.sequence-group": "b",
            "fields.b.aggregate-function": "first_value",
            "fields.c.sequence-group": "d",
            "fields.d.aggregate-function": "sum",
        },
        [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)],
        [(1, 2, 1, 2, 3)],
    ),
    Example(
        "a default aggregate function inside sequence groups",
        _PAIRS,
        {
            **_PARTIAL,
            "fields.a.sequence-group": "b",
            "fields.c.sequence-group": "d",
            "fields.default-aggregate-function": "last_non_null_value",
            "fields.d.aggregate-function": "sum",
        },
        [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)],
        [(1, 2, 2, 2, 3)],
    ),
    Example(
        "partial-update removes the whole record on a delete",
        {"k": "INT", "a": "INT", "b": "INT"},
        {**_PARTIAL, "partial-update.remove-record-on-delete": "true"},
        [(1, 1, None), (1, None, 2), ("d", 1, None, None), (2, 5, None)],
        [(2, 5, None)],
    ),
    Example(
        "aggregation by max and sum",
        {"product_id": "BIGINT", "price": "DOUBLE", "sales": "BIGINT"},
        {
            "merge-engine": "aggregation",
            "fields.price.aggregate-function": "max",
            "fields.sales.aggregate-function": "sum",
        },
        [(1, 23.0, 15), (1, 30.2, 20)],
        [(1, 30.2, 35)],
    ),
    Example(
        "first-row keeps the first record and its changelog has inserts only",
        {"k": "INT", "v": "STRING"},
        {"merge-engine": "first-row", "ignore-delete": "true", **_LOOKUP},
        [(1, "first"), (1, "second"), (2, "other"), ("d", 1, "first")],
        [(1, "first"), (2, "other")],
        [("+I", 1, "first"), ("+I", 2, "other")],
    ),
    Example(
        "lookup publishes the values before and after each change",
        {"k": "INT", "v": "STRING"},
        _LOOKUP,
        [(1, "a"), (1, "b"), ("d", 1, "whatever")],
        [],
        [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b")],
    ),
    Example(
        "full-compaction publishes the difference between two full compactions",
        {"k": "INT", "v": "BIGINT"},
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": "2",
        },
        [(1, 1), (1, 2), (1, 3), (1, 4)],
        [(1, 10)],
        [("+I", 1, 3), ("-U", 1, 3), ("+U", 1, 10)],
    ),
    Example(
        "input passes the changes on as they came",
        {"k": "INT", "v": "STRING"},
        {"changelog-producer": "input"},
        [(1, "a"), ("d", 1, "a"), ("d", 1, "a")],
        [],
        [("+I", 1, "a"), ("-D", 1, "a"), ("-D", 1, "a")],
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
@pytest.mark.parametrize("size", [1, 100], ids=["batch per event", "one batch"])
def test_documented_example(tmp_path: Path, example: Example, size: int) -> None:
    key = next(iter(example.columns))
    rules: list[dict[str, object]] = [
        {"match": {"table": "t"}, "into": "lake.t", "primary_key": [key], "columns": {"types": example.columns}}
    ]
    records = _records(example)
    tables = pipeline_tables(tmp_path, rules, **example.options)

    run_batches(tables, [records.slice(at, size) for at in range(0, records.num_rows, size)], tmp_path)

    table = Table.open(f"{tables.config.catalog.warehouse}/lake.db/t")
    assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == sorted(map(tuple, example.content))
    if example.changes and size == 1:
        changes = [row for _, rows in table.changes() for row in rows.to_pylist()]
        assert [(RowKind(row[VALUE_KIND]).short, *(row[n] for n in example.columns)) for row in changes] == [
            tuple(row) for row in example.changes
        ]


def _records(example: Example) -> pa.RecordBatch:
    names = list(example.columns)
    rows = []
    for offset, event in enumerate(example.events):
        is_delete = event[0] == "d"
        values = dict(zip(names, event[is_delete:], strict=True))
        envelope = {
            "before": values if is_delete else None,
            "after": None if is_delete else values,
            "source": {"db": "docs", "schema": "public", "table": "t"},
            "op": "d" if is_delete else "c",
        }
        rows.append(
            {
                "topic": "docs.public.t",
                "partition": 0,
                "offset": offset,
                "timestamp": 0,
                "key": json.dumps({names[0]: values[names[0]]}).encode(),
                "value": json.dumps(envelope).encode(),
                "headers": None,
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
