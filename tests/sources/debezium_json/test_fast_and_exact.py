"""The vectorised path and the exact path give the same rows, kinds, reasons and observations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paimon_table.types import parse_type
from sources.changes import Decoded, SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import DecodeTarget

TOPIC = "shop.public.t"
SOURCE = SourceTable(TOPIC, "shop", "public", "t")
COLUMNS: dict[str, str] = {
    "id": "BIGINT NOT NULL",
    "tiny": "TINYINT",
    "i": "INT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "n": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 3)",
    "s": "STRING",
    "v": "VARCHAR(5)",
    "b": "BOOLEAN",
    "bin": "BYTES",
    "day": "DATE",
    "clock": "TIME(3)",
    "ts": "TIMESTAMP(6)",
    "ts3": "TIMESTAMP(3)",
    "tz": "TIMESTAMP_LTZ(6)",
    "a": "ARRAY<INT>",
    "as": "ARRAY<STRING>",
    "r": "ROW<x INT, y STRING>",
}
TARGET = DecodeTarget(tuple((n, parse_type(t)) for n, t in COLUMNS.items()), ("id",), emit_update_before=True)

TEXTS = [
    "x",
    "12",
    "1234",
    "12.5",
    "-3",
    "Nw==",
    "AeJA",
    "A+g=",
    "AA",
    "=",
    "NaN",
    "Infinity",
    "infinity",
    "true",
    "2024-02-29",
    "2024-02-30",
    "23:59:59.9",
    "24:00:00",
    "2024-02-29T12:34:56.789Z",
    "2024-02-29T12:34:56",
    "-0043-03-15T00:00:00Z",
    "2024-02-29T12:34:56.7890129+02:00",
    "ü😀",
    "日本語です。",
    "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    'a"\\',
]
texts = st.sampled_from(["", *TEXTS]) | st.text(max_size=6)
numbers = (
    st.integers(-(1 << 70), 1 << 70)
    | st.sampled_from([0, 1, -1, 127, 128, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 63, 86_400_000, 1_709_210_096_789])
    | st.sampled_from([0.1, -0.0, 1e10, 1.5, 3.4e38, 1e39, 5e-324, 1e300, 12.34, 12.345])
    | st.integers(-1000, 1000)
)
scalars = st.none() | st.booleans() | numbers | texts
values = (
    scalars
    | st.lists(scalars, max_size=3)
    | st.dictionaries(st.sampled_from(["x", "y", "scale", "value"]), scalars, max_size=2)
)
fitting: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(0, 5),
    "tiny": st.integers(-128, 127),
    "i": st.integers(-5, 5),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "n": st.sampled_from(["Nw==", "AeJA", "A+g=", "AA=="]),
    "wide": st.sampled_from(["A/016215eo+sZ0UV", "AQ==", "/w=="]),
    "s": st.text(max_size=8),
    "v": st.text(max_size=5),
    "b": st.booleans(),
    "bin": st.sampled_from(["", "3q2+7wD/", "AQ=="]),
    "day": st.integers(-800_000, 3_000_000),
    "clock": st.integers(0, 86_399_999),
    "ts": st.integers(-(1 << 60), 1 << 60),
    "ts3": st.integers(-(1 << 50), 1 << 50),
    "tz": st.sampled_from(["2024-02-29T12:34:56.789012Z", "2024-02-29T12:34:56Z"]),
    "a": st.lists(st.integers(-3, 3) | st.none(), max_size=3),
    "as": st.lists(st.text(max_size=3), max_size=3),
    "r": st.fixed_dictionaries({"x": st.integers(0, 3), "y": st.text(max_size=2)}),
}


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """Mostly fitting rows; sometimes one value of any kind, a missing or an unexpected column."""
    row = {name: draw(st.none() | strategy) if name != "id" else draw(strategy) for name, strategy in fitting.items()}
    if draw(st.integers(0, 3)) == 0:
        row[draw(st.sampled_from([*COLUMNS, "new"]))] = draw(values)
    if draw(st.integers(0, 9)) == 0:
        del row[draw(st.sampled_from([*COLUMNS]))]
    return row


@st.composite
def envelopes(draw: st.DrawFn, alone: bool = False, whole: bool = False) -> str:
    """Events; ``alone`` ones have one image each, which is rarely on the wrong side for the operation.

    ``whole`` ones have their old row too, mostly with the key of the new row.
    """
    op = draw(st.sampled_from(["c", "r", "u", "u", "d", "d", "t", "m", "x"]))
    has_before = draw(st.booleans())
    has_after = op != "d"
    if alone:
        has_before = has_after == (draw(st.integers(0, 19)) == 0)
        has_after = not has_before
    if whole:
        has_before = op in ("u", "d") or draw(st.integers(0, 19)) == 0
        has_after = op != "d" or draw(st.integers(0, 19)) == 0
    before, after = draw(rows()) if has_before else None, draw(rows()) if has_after else None
    if whole and before and after and "id" in after and draw(st.integers(0, 4)):
        before["id"] = after["id"]
    table = draw(st.sampled_from(["t", "t", "other7"]))
    envelope = {
        "before": before,
        "after": after,
        "source": {
            "db": "shop",
            "schema": "public",
            "table": table,
            "lsn": 7,
        },
        "op": op,
        "ts_ms": draw(st.integers(0, 1 << 40)),
    }
    text = json.dumps(envelope, ensure_ascii=draw(st.booleans()), separators=(",", ":"))
    broken = draw(st.integers(0, 19)) if table == "t" else 19
    if broken == 0:
        return text[: draw(st.integers(0, len(text)))]
    return text * 2 if broken == 1 else text


_SOURCE_ALONE = '"source":{"db":"shop","schema":"public","table":"t"},'
_SOURCE = ',"source":{"db":"shop","schema":"public","table":"t"},"op":"%s"}'
_CREATED = '{"before":null,"after":%s' + _SOURCE % "c"
_DELETED = '{"before":%s,"after":null' + _SOURCE % "d"
_TURNED = '{"after":%s,"before":%s' + _SOURCE % "u"
_DEEP = "[" * 100_000 + "]" * 100_000
_UPDATED, _DELETED_WITH = ('{"before":%s,"after":%s' + _SOURCE % op for op in "ud")

_UNSTABLE = re.compile(r"at character \d+|number \S+")
"""Parts of reasons that may differ: the leading blank shifts places, 1.50 may be shown as 1.5."""


def batch_of(texts: list[str]) -> pa.RecordBatch:
    size = len(texts)
    columns = {
        "topic": pa.array([TOPIC] * size),
        "partition": pa.array([0] * size, pa.int32()),
        "offset": pa.array(range(size), pa.int64()),
        "timestamp": pa.array([0] * size, pa.timestamp("us", "UTC")),
        "key": pa.array([b'{"id":%d}' % (i % 4) for i in range(size)], pa.binary()),
        "value": pa.array([t.encode("utf-8", "surrogatepass") for t in texts], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def exactly(batch: pa.RecordBatch, target: DecodeTarget) -> Decoded:
    """Decode on the exact path: a blank in front of every text keeps Arrow's parser away from it."""
    values = pa.array([b" " + v for v in batch.column("value").to_pylist()], pa.binary())
    spaced = batch.set_column(batch.schema.get_field_index("value"), "value", values)
    return DebeziumJsonDecoder().decode(spaced, {SOURCE: target})


def comparable(decoded: Decoded) -> Mapping[str, Any]:
    return {
        "rows": [(c.source, [repr(r) for r in _plain(c.rows)]) for c in decoded.changes],
        "quarantine": [(q.offset, _UNSTABLE.sub("", q.reason)) for q in decoded.quarantine],
        "observations": {(o.source, o.columns) for o in decoded.observations},
        "refusals": decoded.refusals,
        "counts": replace(decoded.counts, exact=0),
    }


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    for index, f in enumerate(table.schema):
        if pa.types.is_temporal(f.type):
            table = table.set_column(index, f.name, table.column(index).cast(_INTEGERS[f.type.bit_width]))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


_INTEGERS = {32: pa.int32(), 64: pa.int64()}


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.lists(envelopes(), min_size=1, max_size=10)
    | st.lists(envelopes(), min_size=18, max_size=40)
    | st.lists(envelopes(alone=True), min_size=18, max_size=40)
    | st.lists(envelopes(whole=True), min_size=18, max_size=40),
    st.booleans(),
)
@example(["{}"] * 20, True)
@example([_CREATED % '{"id":1,"r":{"x":1},"after":null'] * 20, True)
@example([_CREATED % '{"id":1},"more":{"id":2}'] * 20, True)
@example([_DELETED % '{"id":1},"after":{"id":2}'] * 20, True)
@example([_DELETED % '{"id":1,"s":"}"}'] * 10 + [_CREATED % "{}"] * 10, True)
@example([_CREATED % '{"id":1'] * 20, True)
@example(['{"after":{"id":1},' + _SOURCE_ALONE + '"op":"u","before":{"id":2,"s":"x"}}'] * 20, True)
@example(['{"before":null,' + _SOURCE_ALONE + '"op":"c","after":{"id":1}}'] * 20, True)
@example(['{"after":null,' + _SOURCE_ALONE + '"op":"d","before":{"id":7}}'] * 20, True)
@example(['{"before":null,"after":{"id":1},' + _SOURCE_ALONE + '"op":"c","after":{"id":2}}'] * 20, True)
@example([_UPDATED % ('{"id":1,"s":"old"}', '{"id":1,"s":"new"}')] * 20, False)
@example([_UPDATED % ('{"id":1,"s":"old"}', '{"id":2,"s":"new"}')] * 20, False)
@example([_UPDATED % ('{"id":1,"s":"old"}', '{"id":1,"s":"__debezium_unavailable_value"}')] * 20, False)
@example([_UPDATED % ('{"id":1,"new":7}', '{"id":1,"new":null}')] * 20, False)
@example([_UPDATED % ('{"id":1,"new":7}', '{"id":2,"new":"x"}')] * 20, False)
@example([_UPDATED % ('{"id":1,"r":{"after":{"x":1}}}', '{"id":1,"r":{"after":{"x":2}}}')] * 20, False)
@example([_UPDATED % ('{"id":1,"s":oops}', '{"id":1}')] * 20, False)
@example([_UPDATED % ('{"id":1},"after":{"id":2}', '{"id":1}')] * 20, False)
@example([_UPDATED % ('{"s":"x"}', '{"id":1}')] * 20, False)
@example([_DELETED_WITH % ('{"id":1,"s":"old"}', '{"id":1,"s":"new"}')] * 20, False)
@example([_DELETED_WITH % ('{"id":1,"s":"old"}', '{"id":2,"s":"new"}')] * 20, True)
@example([_UPDATED % (f'{{"id":{i},"s":"old {i}"}}', f'{{"id":{i // 2},"s":"new"}}') for i in range(20)], False)
@example([_UPDATED % (f'{{"id":1,"deep":{_DEEP}}}', '{"id":1}')] * 20, True)
@example([_TURNED % ('{"id":1,"s":"__debezium_unavailable_value"}', '{"id":1,"s":"old"}')] * 20, False)
def test_both_paths_decode_alike(texts: list[str], wants_old_rows: bool) -> None:
    batch, target = batch_of(texts), replace(TARGET, emit_update_before=wants_old_rows)

    fast = comparable(DebeziumJsonDecoder().decode(batch, {SOURCE: target}))
    exact = comparable(exactly(batch, target))

    assert fast == exact


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(envelopes(), min_size=1, max_size=12))
def test_a_batch_decodes_like_its_records(texts: list[str]) -> None:
    """What a record gives does not depend on its neighbours (but for decimals that only neighbours can tell)."""
    columns = tuple((n, t) for n, t in TARGET.columns if n != "n" and n != "wide")
    target = replace(TARGET, columns=columns, ignores_new=True)
    batch = batch_of(texts)
    decoder = DebeziumJsonDecoder()

    whole = decoder.decode(batch, {SOURCE: target})
    parts = [decoder.decode(batch.slice(i, 1), {SOURCE: target}) for i in range(batch.num_rows)]

    assert [repr(r) for c in whole.changes for r in _with_unavailable(c.rows)] == [
        repr(r) for p in parts for c in p.changes for r in _with_unavailable(c.rows)
    ]
    assert [(q.offset, q.reason) for q in whole.quarantine] == [
        (q.offset, q.reason) for p in parts for q in p.quarantine
    ]


def _with_unavailable(table: pa.Table) -> list[dict[str, Any]]:
    return [{**row, "_UNAVAILABLE": row.get("_UNAVAILABLE") or []} for row in _plain(table)]
