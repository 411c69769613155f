"""Whole stretches read by Arrow give what reading the records one by one gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.changes import RECORD_SCHEMA, Decoded
from sources.decode_target import DecodeTarget
from sources.formats import FORMATS
from tests.support.feed_records import Json, Run, batch_of, canal, dms, golden_gate, maxwell

VALUES: dict[str, list[Any]] = {
    "id": [1, 2, 3],
    "qty": [0, -1, 2**31, None, 7],
    "note": ["a", "", None, 'x"}y', "ü\u0000", "null", '"qty":1'],
    "price": [12.5, 0.01, None, 100.25],
    "at": ["2024-05-01 10:00:00", "0000-00-00 00:00:00", None, "2024-05-01 10:00:00.5", "soon"],
    "doc": ["{}", None, "[1]"],
}
WILD: dict[str, list[Any]] = {
    "id": [2**64 - 1, "x", None],
    "qty": [1.5, "x", 2**40],
    "note": [{"qty": 1}, 5, "\x00"],
    "price": ["1e1", 7, {}],
    "at": [5, "2024-02-30 00:00:00"],
    "doc": [{"qty": 1}, [], ["a"]],
}
"""What sends a record the exact way, or to quarantine."""
MYSQL = {
    "id": "bigint unsigned", "qty": "int(11)", "note": "text", "price": "decimal(10,2)", "at": "datetime(3)",
    "doc": "json",
}  # fmt: skip


def drawn(r: random.Random) -> Json:
    row = {name: r.choice(values) for name, values in VALUES.items() if name == "id" or r.random() < 0.8}
    if r.random() < 0.02:
        name = r.choice([*row])
        row[name] = r.choice(WILD[name])
    return row


def parted(r: random.Random, row: Json) -> Json:
    return {name: r.choice(VALUES[name]) for name in row if r.random() < 0.4}


def as_texts(row: Json) -> Json:
    return {name: None if value is None else str(value) for name, value in row.items()}


def canal_message(r: random.Random) -> Json:
    op, row = r.choice(["INSERT", "UPDATE", "UPDATE", "DELETE"]), drawn(r)
    rows = [as_texts(row | {"id": r.choice(VALUES["id"])}) for _ in range(r.choice([1, 1, 1, 3]))]
    old = r.choice([None, [as_texts(parted(r, row)) for _ in rows]]) if op == "UPDATE" else None
    types = {name: MYSQL[name] for name in row}
    return canal(op, *rows, old=old, types=types)


def maxwell_record(r: random.Random) -> Json:
    op, row = r.choice(["insert", "update", "update", "delete"]), drawn(r)
    old = parted(r, drawn(r)) if op == "update" and r.random() < 0.9 else None
    return maxwell(op, row, old, primary_key_columns=["id"])


def golden_gate_record(r: random.Random) -> Json:
    op, row = r.choice("IUUD"), drawn(r)
    before = None if op == "I" else row if op == "D" else r.choice([None, {"id": row["id"], **parted(r, row)}])
    return golden_gate(op, before, None if op == "D" else row, primary_keys=["id"], table="shop.orders")


def dms_record(r: random.Random) -> Json:
    op, row = r.choice(["load", "insert", "update", "delete"]), drawn(r)
    before: Json = {"before-image": {"id": r.choice(VALUES["id"])}} if r.random() < 0.3 else {}
    if r.random() < 0.3:
        row |= {f"BI_{name}": value for name, value in parted(r, row).items()}
    return dms(op, row) | before


MAKERS = {
    "canal-json": canal_message,
    "maxwell-json": maxwell_record,
    "ogg-json": golden_gate_record,
    "dms-json": dms_record,
}
RULE = {
    "match": {"table": "orders"},
    "into": "lake.orders",
    "primary_key": ["id"],
    "columns": {
        "types": {
            "id": "DECIMAL(20, 0)", "qty": "INT", "note": "STRING", "price": "DECIMAL(10, 2)", "at": "TIMESTAMP(3)",
            "doc": "STRING",
        }
    },
}  # fmt: skip


def spaced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records with a blank in front of each value, which Arrow is not given."""
    rows = [row | {"value": b" " + row["value"]} for row in batch.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def shown(decoded: Decoded) -> Any:
    changes = [change.rows.to_pylist() for change in decoded.changes]
    for rows in changes:
        for row in rows:
            row["_UNAVAILABLE"] = sorted(row.get("_UNAVAILABLE") or [])
            row.setdefault("_OTHER_KEY", None)
    return changes, [(row.offset, row.reason) for row in decoded.quarantine]


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["after", "before and after"])
@pytest.mark.parametrize("form", MAKERS)
def test_both_ways_give_the_same(tmp_path: Path, form: str, before: bool) -> None:
    r = random.Random(11)
    options = {"changelog-producer": "input"} if before else {}
    run = Run(tmp_path, form, [batch_of(MAKERS[form](r))], RULE, table_options=options)
    (goal,) = run.pipeline.decode_targets().values()
    assert isinstance(goal, DecodeTarget) and goal.emit_update_before is before
    decoder = FORMATS[form].decoder({})

    for _ in range(4):
        batch = batch_of(*(MAKERS[form](r) for _ in range(300)))
        fast = decoder.decode(batch, run.pipeline.decode_targets())
        exact = decoder.decode(spaced(batch), run.pipeline.decode_targets())

        assert exact.counts.exact == 300
        assert fast.counts.exact < 270
        assert shown(fast) == shown(exact)
        assert fast.counts.with_rows > 50


@pytest.mark.slow
@pytest.mark.parametrize("form", MAKERS)
def test_records_of_other_tables_among_those_of_one_change_nothing(tmp_path: Path, form: str) -> None:
    r = random.Random(5)
    run = Run(tmp_path, form, [batch_of(MAKERS[form](r))], RULE)
    targets = run.pipeline.decode_targets()
    decoder = FORMATS[form].decoder({})
    mixed = [MAKERS[form](r) for _ in range(300)]
    others = range(20, 300, 21)
    for index in others:
        record = mixed[index]
        holder = record["metadata"] if form == "dms-json" else record
        name = "table-name" if form == "dms-json" else "table"
        holder[name] = "shop.others" if form == "ogg-json" else "others"
        record.setdefault("new", {"field": index})

    fast, exact = decoder.decode(batch_of(*mixed), targets), decoder.decode(spaced(batch_of(*mixed)), targets)

    assert (fast.counts.unknown_tables, exact.counts.unknown_tables) == (len(others), len(others))
    assert shown(fast) == shown(exact)
    assert fast.counts.exact < 150
