"""A tiny consumer of decoded changes for tests: decodes a capture as the pipeline would and replays it by key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.row_kind import RowKind
from paimon_table.schema.type_widening import common_type
from paimon_table.types import DataType, Root
from sources.changes import Decoded, Observation, SourceTable
from sources.column_forms import ColumnForms
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import Decoder, DecodeTarget
from sources.dumps.dump_records import record_batches_from_dump
from sources.values.iso_time import parse_date, parse_time, parse_timestamp

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
Row = dict[str, Any]


@dataclass
class Replay:
    """The knowledge of a pipeline after a capture."""

    targets: dict[SourceTable, DecodeTarget | None] = field(default_factory=dict)
    tables: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=dict)
    bags: dict[str, list[Row]] = field(default_factory=dict)
    decoded: list[Decoded] = field(default_factory=list)

    def types(self, table: str) -> dict[str, DataType]:
        return next(dict(t.columns) for s, t in self.targets.items() if s.table == table and t is not None)


def replay_capture(
    name: str,
    declared: Mapping[str, Mapping[str, DataType]] | None = None,
    rows: int = 10_000,
    decoder: Decoder | None = None,
) -> Replay:
    """Decode a capture in batches of this many records, evolving targets like the driver does, and apply the
    changes."""
    return replay_batches(record_batches_from_dump(str(CAPTURES / f"{name}.jsonl.gz")), declared, rows, decoder)


def replay_batches(
    batches: Iterable[pa.RecordBatch],
    declared: Mapping[str, Mapping[str, DataType]] | None = None,
    rows: int = 10_000,
    decoder: Decoder | None = None,
) -> Replay:
    """``replay_capture`` of records that are not in a file."""
    replay = Replay()
    decoder = decoder or DebeziumJsonDecoder()
    for whole in batches:
        for start in range(0, whole.num_rows, rows):
            batch = whole.slice(start, rows)
            decoded = decoder.decode(batch, replay.targets)
            while decoded.observations:
                for observation in decoded.observations:
                    types = (declared or {}).get(observation.source.table, {})
                    evolve(replay.targets, _with_types(observation, types), frozenset(types))
                decoded = decoder.decode(batch, replay.targets)
            replay.decoded.append(decoded)
            apply(replay, decoded)
    return replay


def _with_types(observation: Observation, types: Mapping[str, DataType]) -> Observation:
    """The observation with the user's column types in place of the observed ones."""
    columns = tuple(replace(c, type=types.get(c.name, c.type)) for c in observation.columns)
    return replace(observation, columns=columns)


def evolve(
    targets: dict[SourceTable, DecodeTarget | None], observation: Observation, declared: frozenset[str] = frozenset()
) -> None:
    """Create or widen the target as observed; a type without a common one is an error."""
    old = targets.get(observation.source)
    columns = {} if old is None else dict(old.columns)
    for column in observation.columns:
        if column.type is None:
            continue
        known = columns.get(column.name)
        wider = column.type if known is None else common_type(known, column.type)
        assert wider is not None, f"{column.name}: {known} -> {column.type}"
        columns[column.name] = wider
    keys = observation.key_columns or () if old is None else old.primary_key
    told = {column.name: column.form for column in observation.columns if column.form is not None}
    forms = (ColumnForms() if old is None else old.forms).learnt(told, columns)
    targets[observation.source] = DecodeTarget(tuple(columns.items()), keys, declared=declared, forms=forms)


def apply(replay: Replay, decoded: Decoded) -> None:
    """Apply changes in offset order, with truncates between them."""
    truncated: dict[str, list[int]] = {}
    for refusal in decoded.refusals:
        truncated.setdefault(refusal.source.table, []).append(refusal.offset)
    for change in decoded.changes:
        target = replay.targets[change.source]
        assert target is not None
        name = change.source.table
        table = replay.tables.setdefault(name, {})
        bag = replay.bags.setdefault(name, [])
        clears = sorted(truncated.pop(name, []))
        for row in plain_rows(change.rows):
            while clears and clears[0] < row["_OFFSET"]:
                clears.pop(0)
                table.clear()
            kind, hidden = row.pop("_VALUE_KIND"), row.pop("_UNAVAILABLE", None)
            row.pop("_OFFSET")
            row.pop("_OTHER_KEY", None)
            bag.append({"kind": RowKind(kind).short, **row})
            key = tuple(row[k] for k in target.primary_key)
            if kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
                table.pop(key, None)
                continue
            for position in hidden or ():
                column = target.columns[position][0]
                row[column] = table.get(key, {}).get(column)
            table[key] = row
        if clears:
            table.clear()
    for name in truncated:
        replay.tables.get(name, {}).clear()


def plain_rows(rows: pa.Table) -> list[Row]:
    """Rows as Python values; dates and timestamps as integers, which Python's classes cannot all hold."""
    columns = {}
    for f, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_timestamp(f.type):
            column = column.cast(pa.int64())
        elif pa.types.is_date32(f.type) or pa.types.is_time32(f.type):
            column = column.cast(pa.int32())
        columns[f.name] = column.to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


# ---------------------------------------------------------------- final content


def assert_final(replay: Replay, scenario: str, table: str, key: Iterable[str], without: Iterable[str] = ()) -> None:
    types = {name: t for name, t in replay.types(table).items() if name not in set(without)}
    expected = {tuple(row[k] for k in key): row for row in final_rows(scenario, table, types)}
    actual = {k: {n: row.get(n) for n in next(iter(expected.values()))} for k, row in replay.tables[table].items()}
    assert actual.keys() == expected.keys()
    for k, row in expected.items():
        assert same(actual[k]) == same(row)


def same(row: Row) -> Row:
    """NaN made comparable."""
    return {n: "NaN" if isinstance(v, float) and math.isnan(v) else v for n, v in row.items()}


def assert_nothing_lost(replay: Replay) -> None:
    assert [row for decoded in replay.decoded for row in decoded.quarantine] == []


def final_rows(scenario: str, table: str, types: Mapping[str, DataType]) -> list[Row]:
    """The rows of ``SCENARIO.TABLE.final.csv`` as plain values of the given types; columns without a type stay away."""
    text = (CAPTURES / f"{scenario}.{table}.final.csv").read_text(encoding="utf-8")
    header, *records = _csv(text)
    return [
        {n: None if v is None else plain_value(v, types[n]) for n, v in zip(header, r, strict=True) if n in types}
        for r in records
    ]


def _csv(text: str) -> list[list[Any]]:
    """PostgreSQL's CSV: an empty field is NULL, a quoted empty one is the empty text."""
    records: list[list[Any]] = []
    record: list[Any] = []
    at = 0
    while at < len(text):
        value: str | None
        if text[at] == '"':
            end = at + 1
            while text[end] != '"' or text[end + 1 : end + 2] == '"':
                end += 2 if text[end] == '"' else 1
            value, at = text[at + 1 : end].replace('""', '"'), end + 1
        else:
            end = at
            while end < len(text) and text[end] not in ",\n":
                end += 1
            value, at = text[at:end] or None, end
        record.append(value)
        if text[at : at + 1] != ",":
            records.append(record)
            record = []
        elif text[at + 1 : at + 2] in ("\n", ""):
            records.append([*record, None])
            record, at = [], at + 1
        at += 1
    return records


def plain_value(text: str, t: DataType) -> Any:
    """PostgreSQL's text of a value in the form of ``plain_rows``."""
    match t.root:
        case Root.BOOLEAN:
            return text in ("t", "1")
        case Root.TINYINT | Root.SMALLINT | Root.INT | Root.BIGINT:
            return int(text)
        case Root.FLOAT:
            return pa.scalar(float(text), pa.float32()).as_py()
        case Root.DOUBLE:
            return float(text)
        case Root.DECIMAL:
            return Decimal(text.replace("$", "").replace(",", ""))
        case Root.VARBINARY:
            return bytes.fromhex(text.removeprefix("\\x"))
        case Root.DATE:
            return parse_date(text)
        case Root.TIME:
            return (parse_time(text) or 0) // 1_000_000
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            moment = parse_timestamp(text)
            assert moment is not None, text
            return moment[0] // (1_000_000 if (t.precision or 0) <= 3 else 1000)
        case Root.ARRAY:
            assert t.element is not None
            return [None if e is None else plain_value(e, t.element) for e in _array(text)]
        case _:
            return text


def _array(text: str) -> list[str | None]:
    """The elements of a one-dimensional PostgreSQL array literal."""
    elements: list[str | None] = []
    at = 1
    while at < len(text) - 1:
        if text[at] == '"':
            value, at = "", at + 1
            while text[at] != '"':
                at += text[at] == "\\"
                value, at = value + text[at], at + 1
            elements.append(value)
            at += 2
        else:
            end = min(p for p in (text.find(",", at), len(text) - 1) if p >= 0)
            elements.append(None if text[at:end] == "NULL" else text[at:end])
            at = end + 1
    return elements
