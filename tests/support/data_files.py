"""Data files of one bucket on local disk: a table context, rows as the engine holds them, one file written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from paimon_table.data_files.key_value_file import (
    FileNames,
    KeyValueFileWriter,
)
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.option_parsing import options_of
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.types import arrow_type, parse_type
from tests.support.drawn_values import VALUES

NOW_MS = 1_700_000_000_000


def context(
    directory: Path,
    columns: dict[str, str],
    primary_keys: tuple[str, ...] = ("id",),
    partition_keys: tuple[str, ...] = (),
    **options: str,
) -> TableContext:
    typed = [(name, parse_type(text)) for name, text in columns.items()]
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    schema = create_schema(typed, primary_keys, partition_keys, named)
    return TableContext(LocalFileIO(), TablePaths(str(directory)), schema, options_of(schema), {0: schema})


def table(ctx: TableContext, columns: list[list[Any]], kinds: list[int] | None = None, first: int = 0) -> pa.Table:
    """Rows as the engine holds them, with sequence numbers from ``first``."""
    count = len(columns[0])
    arrays = [pa.array(v, arrow_type(f.type)) for v, f in zip(columns, ctx.schema.fields, strict=True)]
    system = [pa.array(range(first, first + count), pa.int64()), pa.array(kinds or [0] * count, pa.int8())]
    return pa.table([*system, *arrays], names=["_SEQUENCE_NUMBER", "_VALUE_KIND", *ctx.schema.column_names])


def write(ctx: TableContext, rows: pa.Table, prefix: str = "data-", level: int = 0) -> DataFileMeta:
    names = FileNames("0a1b", 3)
    return write_key_value_file(ctx, bucket_dir(ctx), rows, level, FileSource.APPEND, prefix, names, lambda: NOW_MS)


def bucket_dir(ctx: TableContext) -> str:
    return f"{ctx.paths.root}/bucket-0"


ALL_TYPES = {
    "id": "BIGINT", "bool": "BOOLEAN", "tiny": "TINYINT", "small": "SMALLINT", "int": "INT", "float": "FLOAT",
    "double": "DOUBLE", "char": "CHAR(3)", "varchar": "VARCHAR(9)", "text": "STRING", "binary": "BINARY(2)",
    "bytes": "BYTES", "dec9": "DECIMAL(9, 2)", "dec18": "DECIMAL(18, 0)", "dec38": "DECIMAL(38, 10)", "date": "DATE",
    "time": "TIME(3)", "ts3": "TIMESTAMP(3)", "ts6": "TIMESTAMP(6)", "ts9": "TIMESTAMP(9)",
    "ltz3": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "ltz6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "ltz9": "TIMESTAMP(9) WITH LOCAL TIME ZONE", "array": "ARRAY<STRING>", "map": "MAP<STRING, INT>",
    "bag": "MULTISET<STRING>", "row": "ROW<x INT, y ARRAY<ROW<z INT, w DECIMAL(20, 1)>>>",
}  # fmt: skip


def read_schema(ctx: TableContext) -> pa.Schema:
    system = [pa.field("_SEQUENCE_NUMBER", pa.int64(), False), pa.field("_VALUE_KIND", pa.int8(), False)]
    return pa.schema([*system, *ctx.schema.arrow_schema])


NESTED_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "ARRAY<STRING>": st.lists(st.none() | st.text(max_size=3), max_size=3),
    "MAP<STRING, INT>": st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9), max_size=3).map(
        lambda d: list(d.items())
    ),
    "MULTISET<STRING>": st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=3).map(
        lambda d: list(d.items())
    ),
    "ROW<x INT, y ARRAY<ROW<z INT NOT NULL>>>": st.fixed_dictionaries(
        {
            "x": st.none() | st.integers(0, 9),
            "y": st.none() | st.lists(st.none() | st.fixed_dictionaries({"z": st.integers(0, 9)}), max_size=2),
        }
    ),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": st.integers(-(2**63) + 1, 2**63 - 1),
}

COLUMN_VALUES = VALUES | NESTED_VALUES


def wide_rows(ctx: TableContext, count: int, first: int = 0) -> pa.Table:
    noise = np.random.default_rng(first).bytes(50 * count).hex()
    return table(ctx, [list(range(first, first + count)), [noise[100 * i : 100 * i + 100] for i in range(count)]])


def write_key_value_file(
    ctx: TableContext,
    directory: str,
    rows: pa.Table,
    level: int,
    source: FileSource,
    prefix: str,
    names: FileNames,
    clock_ms: Callable[[], int],
) -> DataFileMeta:
    """Write sorted rows, at least one, into one file of any size; durable after ``FileIO.sync``."""
    with KeyValueFileWriter(ctx, directory, level, source, prefix, names, clock_ms, rolls=False) as writer:
        writer.write(rows)
        (file,) = writer.close()
        return file


def write_rolling(
    ctx: TableContext,
    directory: str,
    rows: pa.Table,
    level: int,
    source: FileSource,
    prefix: str,
    names: FileNames,
    clock_ms: Callable[[], int],
) -> tuple[DataFileMeta, ...]:
    """Write sorted rows into files of about ``target-file-size``; no rows give no files."""
    with KeyValueFileWriter(ctx, directory, level, source, prefix, names, clock_ms) as writer:
        writer.write(rows)
        return writer.close()
