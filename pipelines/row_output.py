"""Rows on stdout as a table for people, as JSON lines or as CSV for programs.

Values in JSON: integers and floats as numbers, NaN and infinities as text, decimals as text with all their digits,
dates, times and timestamps as ISO text (a local-zoned timestamp ends in Z), bytes as base64, arrays as lists, rows as
objects, maps as objects when their keys are text and else as lists of ``{"key": ..., "value": ...}``. CSV holds the
same texts; NULL is empty, empty text is ``""``, nested values are JSON.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from typing import IO, Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text


class RowFormat(StrEnum):
    """Form of the output."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def write_rows(tables: Iterable[pa.Table], output: RowFormat, stream: IO[str] | None = None) -> int:
    """Print all rows of tables that have the same columns; returns how many. Streams for JSON and CSV."""
    out = stream or sys.stdout
    iterator = iter(tables)
    first = next(iterator, None)
    if first is None:
        return 0
    parts = chain([first], iterator)
    match output:
        case RowFormat.JSON:
            return _write_json(parts, out)
        case RowFormat.CSV:
            return _write_csv(first.column_names, parts, out)
        case RowFormat.TABLE:
            return _write_table(first, parts, out)


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Print inside this block: when the reader of the pipe has seen enough, the process ends with exit code 0."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows as dicts of values that JSON has."""
    names = table.column_names
    for row in _rows(table):
        yield dict(zip(names, row, strict=True))


def plain_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column in the JSON form of the module docstring."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain_values(chunk)]
    t = array.type
    if pa.types.is_timestamp(t):
        return _timestamp_texts(array)
    if pa.types.is_date(t) or pa.types.is_time(t) or pa.types.is_decimal(t):
        texts: list[str | None] = array.cast(pa.string()).to_pylist()
        return [None if text is None else text.replace(" ", "T") for text in texts]
    if pa.types.is_floating(t):
        return [_float_value(value) for value in array.to_pylist()]
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    if pa.types.is_struct(t):
        children = [plain_values(child) for child in array.flatten()]
        names = [t.field(i).name for i in range(t.num_fields)]
        rows = zip(*children, strict=True) if children else [()] * len(array)
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_map(t):
        return _map_values(array)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return _cut(plain_values(array.values), array)
    return list(array.to_pylist())


_SECONDS_TO_YEAR_30000 = 884_541_340_800
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _timestamp_texts(array: pa.Array) -> list[str | None]:
    """ISO text; the ends of the range, which stand for PostgreSQL's infinity, and far years have no such text."""
    bound = _SECONDS_TO_YEAR_30000 * _UNITS_PER_SECOND[array.type.unit]
    texts: list[str | None] = []
    for number, text in zip(array.cast(pa.int64()).to_pylist(), array.cast(pa.string()).to_pylist(), strict=True):
        if number is None or abs(number) < bound:
            texts.append(None if text is None else text.replace(" ", "T"))
        elif number in ((1 << 63) - 1, -(1 << 63)):
            texts.append("infinity" if number > 0 else "-infinity")
        else:
            texts.append(f"{number} {array.type.unit} since 1970")
    return texts


def _float_value(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _map_values(array: pa.MapArray) -> list[Any]:
    keys, items = _cut(plain_values(array.keys), array), _cut(plain_values(array.items), array)
    if pa.types.is_string(array.type.key_type):
        return [None if k is None else dict(zip(k, v, strict=True)) for k, v in zip(keys, items, strict=True)]
    return [
        None if k is None else [{"key": a, "value": b} for a, b in zip(k, v, strict=True)]
        for k, v in zip(keys, items, strict=True)
    ]


def _cut(values: list[Any], array: pa.ListArray | pa.MapArray) -> list[Any]:
    """Cut the values of all lists at the offsets of one array."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [values[offsets[i] : offsets[i + 1]] if valid[i] else None for i in range(len(array))]


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [plain_values(column) for column in batch.columns]
        yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows


def _write_json(tables: Iterable[pa.Table], out: IO[str]) -> int:
    count = 0
    for table in tables:
        for record in records(table):
            out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def cell_text(value: Any) -> str:
    """A plain value as text of a cell; NULL is told apart by the caller."""
    match value:
        case bool():
            return "true" if value else "false"
        case list() | dict():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case _:
            return str(value)


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = cell_text(value)
    if text and not any(c in text for c in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _write_csv(names: Sequence[str], tables: Iterable[pa.Table], out: IO[str]) -> int:
    out.write(",".join(map(_csv_field, names)) + "\n")
    count = 0
    for table in tables:
        for row in _rows(table):
            out.write(",".join(map(_csv_field, row)) + "\n")
            count += 1
    return count


def _write_table(first: pa.Table, tables: Iterable[pa.Table], out: IO[str]) -> int:
    shown = rich_table([(f.name, is_number(f.type)) for f in first.schema])
    count = 0
    for table in tables:
        count += add_rows(shown, table)
    print_table(shown, out)
    return count


def add_rows(shown: Table, rows: pa.Table) -> int:
    """Add all rows to a table for people; returns how many."""
    for row in _rows(rows):
        shown.add_row(*(_cell(value) for value in row))
    return int(rows.num_rows)


def is_number(t: pa.DataType) -> bool:
    """Whether values of the type stand at the right side of their column."""
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _cell(value: Any) -> Text:
    return Text("NULL", style="dim") if value is None else Text(cell_text(value))


def rich_table(columns: Sequence[tuple[str, bool]], title: str | None = None) -> Table:
    """An empty table in the one look that all output has; columns as (name, is a number)."""
    table = Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0)
    )
    for name, is_number in columns:
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    return table


def print_table(table: Table, out: IO[str] | None = None) -> None:
    """Print on the terminal's width, or on as wide lines as needed where the output is no terminal."""
    stream = out or sys.stdout
    console = Console(file=stream, highlight=False)
    if not stream.isatty():
        console = Console(file=stream, highlight=False, width=max(80, _natural_width(table)))
    console.print(table)


def _natural_width(table: Table) -> int:
    wide = Console(width=100_000, file=None)
    return wide.measure(table).maximum
