"""Rows on stdout as a table for people, as JSON lines or as CSV for programs.

Values in JSON: integers and floats are numbers, NaN and infinities text. Decimals are text with all their digits and
without exponent. Dates, times and timestamps are ISO text; a local-zoned timestamp ends in Z. Bytes are base64, arrays
lists, rows objects. Maps are objects if their keys are text, else lists of ``{"key": ..., "value": ...}``. CSV holds
the same texts; NULL is empty, empty text is ``""``, nested values are JSON. Characters that a terminal would act on,
such as control characters in names and values, are escaped, except in CSV, which has no escapes.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, Any

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.report.output import RowFormat, checked_stdout
from pipelines.report.safe_text import json_line, shown


def write_rows(tables: Iterable[pa.Table], output: RowFormat, stream: IO[str] | None = None) -> int:
    """Print all rows of tables that have the same columns; returns how many. Streams for JSON and CSV."""
    out = stream or checked_stdout()
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
        case RowFormat.VERTICAL:
            return _write_vertical(parts, out)


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
        return _moment_texts(array, 64, t.unit)
    if pa.types.is_date32(t):
        return _moment_texts(array, 32, "days")
    if pa.types.is_decimal(t):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if pa.types.is_time(t):
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


_DAYS_TO_YEAR_30000 = 10_237_747
_PER_DAY = {"days": 1, **{unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}}


def _moment_texts(array: pa.Array, bits: int, unit: str) -> list[str | None]:
    """ISO text; far years and the ends of the range (PostgreSQL's infinity) have none."""
    last = (1 << bits - 1) - 1
    bound = min(_DAYS_TO_YEAR_30000 * _PER_DAY[unit], last)
    numbers = array.cast(pa.int32() if bits == 32 else pa.int64()).to_pylist()
    texts: list[str | None] = []
    for number, text in zip(numbers, array.cast(pa.string()).to_pylist(), strict=True):
        if number is None or abs(number) < bound:
            texts.append(None if text is None else text.replace(" ", "T"))
        elif number in (last, ~last):
            texts.append("infinity" if number > 0 else "-infinity")
        else:
            texts.append(f"{number} {unit} since 1970")
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
            out.write(json_line(record) + "\n")
            count += 1
    return count


def cell_text(value: Any) -> str:
    """A plain value as text of a cell; the caller distinguishes NULL."""
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
    rows = pa.concat_tables(tables)
    names = rows.column_names
    cells = [[_cell(value) for value in row] for row in _rows(rows)]
    kept = len(names)
    if out.isatty():
        kept = _fitting(names, cells, Console(file=out).width)
    elif any(len(cell) > _LONGEST_CELL for row in cells for cell in row):
        for row in cells:
            for cell in row:
                cell.truncate(_LONGEST_CELL, overflow="ellipsis")
    table = rich_table([(f.name, is_number(f.type)) for f in list(first.schema)[:kept]])
    for row in cells:
        table.add_row(*row[:kept])
    print_table(table, out)
    if kept < len(names):
        hidden = f"+{len(names) - kept} columns: {', '.join(map(shown, names[kept:]))}"
        out.write(f"{hidden}\n--columns chooses some, --format vertical shows all\n")
    return int(rows.num_rows)


_LONGEST_CELL = 100
"""Characters of a cell if the output is not a terminal; json and csv have the whole texts."""

_WIDEST_TEXT = 40
_GAP = 2


def _fitting(names: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> int:
    """How many columns fit the terminal with no number broken over lines; cuts texts that are too long for that."""
    for row in cells:
        for cell in row:
            cell.truncate(max(_WIDEST_TEXT, 1), overflow="ellipsis")
    used, kept = 0, 0
    for number, name in enumerate(names):
        used += max([cell_len(shown(name)), *(row[number].cell_len for row in cells)]) + (_GAP if number else 0)
        if used > width and kept:
            break
        kept += 1
    return kept


def _write_vertical(tables: Iterable[pa.Table], out: IO[str]) -> int:
    """Every row as lines of a name and a value, for tables with many columns."""
    count = 0
    for table in tables:
        names = [shown(name) for name in table.column_names]
        width = max(map(cell_len, names), default=0)
        for row in _rows(table):
            count += 1
            out.write(f"-- row {count}\n")
            for name, value in zip(names, row, strict=True):
                padding = " " * (width - cell_len(name))
                out.write(f"{name}{padding}  {'NULL' if value is None else shown(cell_text(value))}\n")
    return count


def add_rows(table: Table, rows: pa.Table) -> int:
    """Add all rows to a table for people; returns how many."""
    for row in _rows(rows):
        table.add_row(*(_cell(value) for value in row))
    return int(rows.num_rows)


def is_number(t: pa.DataType) -> bool:
    """Whether values of the type are right-aligned."""
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _cell(value: Any) -> Text:
    return Text("NULL", style="dim") if value is None else Text(shown(cell_text(value)))


def rich_table(columns: Sequence[tuple[str, bool]]) -> Table:
    """An empty table in the common style of all output; columns are (name, is a number)."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, is_number in columns:
        table.add_column(Text(shown(name)), justify="right" if is_number else "left", overflow="fold")
    return table


def print_table(table: Table, out: IO[str] | None = None) -> None:
    """Print at the terminal's width, or on lines as wide as needed if the output is not a terminal.

    Without style if NO_COLOR is set.
    """
    stream = out or checked_stdout()
    if stream.isatty():
        plain = bool(os.environ.get("NO_COLOR"))
        Console(file=stream, highlight=False, color_system=None if plain else "auto").print(table)
        return
    console = Console(file=io.StringIO(), highlight=False, width=max(80, _natural_width(table)))
    with console.capture() as capture:
        console.print(table)
    stream.write("\n".join(line.rstrip() for line in capture.get().split("\n")))


def _natural_width(table: Table) -> int:
    wide = Console(width=100_000, file=None)
    return wide.measure(table).maximum
