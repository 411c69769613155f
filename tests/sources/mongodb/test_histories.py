"""Random histories of a collection: the table is what the collection is in the end; no mutated record is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.changes import RECORD_SCHEMA
from sources.formats import FORMATS
from sources.wording import BadReason, bad_reason
from tests.support.feed_mutants import feed_mutant
from tests.support.feed_records import Run
from tests.support.mongodb_events import RULE, Event, Json, change, partial, records, text, with_schemas
from tests.support.mutants import Record, key_names, mutant_count, mutated

FIELDS: dict[str, Callable[[random.Random], Any]] = {
    "n": lambda r: {"$numberInt": str(r.randrange(-9, 9))},
    "l": lambda r: r.choice([{"$numberLong": str(r.randrange(1 << 60))}, r.randrange(100)]),
    "d": lambda r: {"$numberDouble": str(r.random())},
    "m": lambda r: {"$numberDecimal": f"{r.randrange(1000)}.25"},
    "t": lambda r: {"$date": {"$numberLong": str(r.randrange(1 << 40))}},
    "s": lambda r: r.choice(["", "x", 'q"uo\\te', "ü" * 5, "123", 'a,"source":{']),
    "doc": lambda r: {"x": {"$numberInt": str(r.randrange(9))}, "y": [r.choice("ab")]},
    "list": lambda r: [{"$numberInt": str(n)} for n in range(r.randrange(1, 3))],
}


def value_of(field: str, r: random.Random) -> Any:
    return None if r.random() < 0.1 else FIELDS[field](r)


def history(r: random.Random, count: int) -> tuple[list[Event], dict[str, Json]]:
    """Events of a collection, in every form that the connector writes, and its documents in the end."""
    documents: dict[str, Json] = {}
    events: list[Event] = []
    for _ in range(count):
        document_id = r.choice("abcdefgh")
        old = documents.get(document_id)
        fields = {name: value_of(name, r) for name in FIELDS if r.random() < 0.6}
        before = old if r.random() < 0.3 else None
        if old is None:
            documents[document_id] = {"_id": document_id, **fields}
            event = change(r.choice("cr"), document_id, documents[document_id])
        elif r.random() < 0.2:
            del documents[document_id]
            event = change("d", document_id, None, before)
        else:
            removed = [name for name in old if name not in (*fields, "_id") and r.random() < 0.2]
            documents[document_id] = {n: v for n, v in {**old, **fields}.items() if n not in removed}
            if r.random() < 0.4:
                event = partial(document_id, fields, removed)
            else:
                event = change("u", document_id, documents[document_id], before)
        events.append(with_schemas(event) if r.random() < 0.3 else event)
    return events, documents


def shown(document: Json) -> Json:
    """What the table has of a document, as a row of text."""

    def plain(value: Any) -> Any:
        match value:
            case {"$numberInt": number} | {"$numberLong": number}:
                return int(number)
            case {"$numberDouble": number}:
                return float(number)
            case {"$numberDecimal": number}:
                return number
            case {"x": {"$numberInt": number}, "y": letters}:
                return text({"x": int(number), "y": letters})
            case list():
                return [plain(item) for item in value]
        return value

    row = {name: plain(value) for name, value in document.items()}
    return row | {"t": None if row.get("t") is None else int(row["t"]["$date"]["$numberLong"])}


def stored(run: Run) -> list[Json]:
    table = run.table("lake.cust").to_arrow()
    times = table.column("t").cast(pa.int64()).to_pylist()
    rows = [{**row, "t": time} for row, time in zip(table.to_pylist(), times, strict=True)]
    return sorted(rows, key=lambda row: str(row["_id"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_what_its_collection_is_in_the_end(tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    whole = {"_id": "whole", **{name: make(r) for name, make in FIELDS.items()}}
    events, documents = history(r, 100)
    events = [change("r", "whole", whole), *events]
    size = [9, 17, 40, 200][seed % 4]
    batches = [records(*events[at : at + size], first_offset=at) for at in range(0, len(events), size)]

    run = Run(tmp_path, "debezium-json", batches, RULE)

    assert run.reasons == {}
    columns = dict.fromkeys(FIELDS)
    expected = [{"_id": None, **columns, **shown(d)} for d in [*documents.values(), whole]]
    assert stored(run) == sorted(expected, key=lambda row: str(row["_id"]))


MUTANTS = mutant_count(3000)
PER_BATCH = 250


def document_mutant(record: Record, r: random.Random) -> Record:
    """A record with something wrong in its envelope, its document, or its key."""
    if r.random() < 0.8:
        return feed_mutant(record, r)
    key = mutated({**record, "value": record["key"]}, r)["value"]
    return record if key_names(key) not in (None, key_names(record["key"])) else {**record, "key": key}


@pytest.mark.slow
def test_no_mutated_record_is_lost(tmp_path: Path) -> None:
    r = random.Random(MUTANTS)
    events, _ = history(r, 60)
    good: list[Record] = records(*events).to_pylist()
    models = [record for record in good if record["value"]]
    decoder = FORMATS["debezium-json"].decoder({"on_truncate": "skip"})
    run = Run(tmp_path, "debezium-json", [records(*events)], RULE)
    goals = dict(run.pipeline.decode_targets())
    quarantined, reasons = 0, set()
    for _ in range(MUTANTS // PER_BATCH):
        mutants = [document_mutant(r.choice(models), r) for _ in range(PER_BATCH)]
        numbered = [{**record, "offset": offset} for offset, record in enumerate(mutants + good)]
        decoded = decoder.decode(pa.RecordBatch.from_pylist(numbered, schema=RECORD_SCHEMA), goals)

        assert decoded.refusals == ()
        assert decoded.counts.accounted + decoded.counts.unknown_tables == len(numbered)
        assert not [row for row in decoded.quarantine if row.offset >= PER_BATCH]
        stored_offsets = {offset for change in decoded.changes for offset in change.rows.column("_OFFSET").to_pylist()}
        assert stored_offsets >= {*range(PER_BATCH, len(numbered))}
        quarantined += len(decoded.quarantine)
        reasons |= {row.reason for row in decoded.quarantine}

    assert quarantined > MUTANTS / 10
    assert {reason for reason in reasons if bad_reason(reason) is BadReason.OTHER} == set()
    assert not [reason for reason in reasons if "please report" in reason]
