"""Mutated records of plain formats: each ends in a row, in quarantine or in a counted skip, and harms no other.

A few hundred of each format; ``TIDEMARK_MUTANTS=10000`` tries that many.
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sources.change_columns import OFFSET_COLUMN
from sources.changes import RECORD_SCHEMA, SourceTable
from sources.decode_target import DecodeTarget
from sources.formats import FORMATS
from sources.wording import BadReason, bad_reason
from tests.support.avro_mutants import changed_bytes
from tests.support.mutants import Record, mutant_count, mutated
from tests.support.plain_pipeline import TOPIC
from tests.support.protobuf_messages import class_of, files_with, framed, named, order, serialized

MUTANTS = mutant_count(600)
_PER_BATCH = 300
_AVRO = {"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]},
    {"name": "xs", "type": {"type": "array", "items": "double"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "m", "type": {"type": "map", "values": "int"}},
]}  # fmt: skip


def _json(n: int, r: random.Random) -> bytes:
    row = {"id": n, "v": r.choice(["a", None, "é"]), "xs": [0.5], "o": {"a": n}, "b": True, "p": "12.50"}
    return json.dumps(row).encode()


def _avro(n: int, r: random.Random) -> bytes:
    out = io.BytesIO()
    plain = json.loads(json.dumps(_AVRO).replace("decimal", "other"))
    row = {
        "id": n,
        "v": r.choice([None, "abc"]),
        "xs": [0.5] * r.randrange(3),
        "at": n,
        "p": b"\x01\x02",
        "m": {"k": n},
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), row)
    return struct.pack(">bI", 0, 1) + out.getvalue()


_ORDER = class_of(files_with(order()), "shop.Order")


def _protobuf(n: int, r: random.Random) -> bytes:
    message = _ORDER(id=n, state=r.randrange(3), total=n << 40, note="note", raw=b"raw", cash=5)
    message.lines.add(sku="sku", qty=n)
    message.tags[n] = 0.5
    message.at.seconds, message.nick.value = n, "nick"
    message.more.update({"a": [1, "b"]})
    return r.choice([framed(message, 1), b"\x00\x00\x00\x00\x01" + named(message)])


def _csv(n: int, r: random.Random) -> bytes:
    return f"{n},{r.choice(['a', '', chr(34) + 'b, c' + chr(34)])},12.50".encode()


def _options(form: str, directory: Path) -> dict[str, Any]:
    file = directory / "schemas.json"
    schema = {"avro": _AVRO, "protobuf": {"schema": serialized(order())}}.get(form)
    file.write_text(json.dumps({"schemas": {"1": schema}}))
    if form == "csv":
        return {"columns": ("id", "v", "p")}
    return {} if form == "json" else {"registry": {"file": str(file)}}


MAKE: dict[str, Callable[[int, random.Random], bytes]] = {
    "json": _json, "avro": _avro, "protobuf": _protobuf, "csv": _csv,
}  # fmt: skip


def mutant(record: Record, r: random.Random, form: str) -> Record:
    """One thing wrong, as JSON or as bytes."""
    if form == "json" and r.randrange(3):
        changed = mutated({**record, "headers": None}, r)
        return {**changed, "topic": TOPIC}
    part = r.choice(["value"] * 6 + ["key"])
    data: bytes = record[part] or b""
    whole = [None, b"", b"\x00", b"\x01" * 20, b"null", b"{}", b"[1]", b"\xff\xfe", r.randbytes(30), data + data]
    return {**record, part: changed_bytes(data, r) if r.randrange(5) else r.choice(whole)}


@pytest.mark.parametrize("form", MAKE)
def test_no_mutated_record_is_lost_or_harms_another(form: str, tmp_path: Path) -> None:
    r = random.Random(len(form))
    decoder = FORMATS[form].decoder(_options(form, tmp_path))
    source = SourceTable.of_topic(TOPIC)

    def batch_of(records: list[Record]) -> pa.RecordBatch:
        rows = [{**record, "offset": offset} for offset, record in enumerate(records)]
        return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    good: list[Record] = [
        {"topic": TOPIC, "partition": 0, "key": b'{"id":%d}' % n, "value": MAKE[form](n, r), "headers": None}
        for n in range(1, 40)
    ]  # fmt: skip
    (seen,) = decoder.decode(batch_of(good), {}).observations
    columns = tuple((c.name, c.type.with_nullable(c.name != "id")) for c in seen.columns if c.type is not None)
    target = DecodeTarget(columns, ("id",))
    expected = rows_of(decoder.decode(batch_of(good), {source: target}))
    assert len(expected) == len(good)

    bad = stored = 0
    for _ in range(max(1, MUTANTS // _PER_BATCH)):
        places: list[tuple[int | None, Record]] = [(None, mutant(r.choice(good), r, form)) for _ in range(_PER_BATCH)]
        for index in reversed(range(len(good))):
            places.insert(r.randrange(len(places) + 1), (index, good[index]))
        decoded = decoder.decode(batch_of([record for _, record in places]), {source: target})

        assert decoded.counts.accounted == len(places)
        actual = rows_of(decoded)
        for offset, (model, _) in enumerate(places):
            if model is not None:
                assert actual.get(offset) == expected[model]
        reasons = {row.reason for row in decoded.quarantine}
        assert {reason for reason in reasons if bad_reason(reason) is BadReason.OTHER} == set()
        assert not [reason for reason in reasons if "please report" in reason]
        bad += len(decoded.quarantine)
        stored += len(actual) - len(good)

    assert bad > MUTANTS / 10
    assert stored > MUTANTS / 20  # a flipped bit may give another good row


def rows_of(decoded: Any) -> dict[int, str]:
    """The rows as texts, by offset."""
    return {row.pop(OFFSET_COLUMN): str(row) for change in decoded.changes for row in change.rows.to_pylist()}
