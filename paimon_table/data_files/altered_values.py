"""Values that a file format alters, and why they cannot be keys.

Rows are compared first as they are in memory, later as they come back from files, so an altered key becomes two keys.
CHAR keys would often be altered, so this type is refused for ORC files. A key within the last second before 1970 is
refused as a value. The metadata of such files describes the original values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord, UnsupportedFeature
from paimon_table.formats.known_formats import all_settings
from paimon_table.formats.registry import FORMATS
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.options.file_settings import FileSettings, format_of
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.nested_arrays import any_leaf
from paimon_table.schema.table_schema import TableSchema
from paimon_table.timestamps import UNITS_PER_SECOND
from paimon_table.types import TIMESTAMPS, DataField, DataType, Root

_ORC = "orc"
"""The only format that alters values."""

_BLANK_OR_LESS = re.compile("[\x00- ]")


def has_altered_values(rows: pa.Table, schema: TableSchema, format_name: str) -> bool:
    """Whether a file of the format would alter these rows."""
    altered = FORMATS[format_name].altered
    return any(any_leaf(rows.column(f.name), f.type, lambda values, t: _any(altered(values, t))) for f in schema.fields)


def _any(mask: pa.Array | None) -> bool:
    return mask is not None and bool(pc.any(mask).as_py())


def may_alter(file_name: str, t: DataType) -> bool:
    """Whether values of an atomic type in the file may differ from its metadata."""
    return may_alter_type(t) and format_of(file_name) == _ORC


def may_alter_type(t: DataType) -> bool:
    """Whether some file format alters values of an atomic type."""
    return t.root is Root.CHAR or t.root in TIMESTAMPS


def bounds_given_back(low: pa.Scalar, high: pa.Scalar, t: DataType) -> tuple[pa.Scalar, pa.Scalar]:
    """The bounds of values between ``low`` and ``high`` after a file may have altered them."""
    if t.root is Root.CHAR:
        # Without its blanks a text sorts before texts that continue with a character below the blank.
        return pa.scalar(_BLANK_OR_LESS.split(low.as_py(), maxsplit=1)[0], low.type), high
    second = UNITS_PER_SECOND[high.type.unit]
    if low.value < 0 and high.value > -second:
        return low, pa.scalar(max(high.value, second - 1), pa.int64()).cast(high.type)
    return low, high


# ---------------------------------------------------------------- keys of type CHAR


def check_key_files(schema: TableSchema, table: str, files: Iterable[DataFileMeta]) -> None:
    """Refuse to add rows to files that have lost the trailing blanks of a key. Raises UnsupportedFeature."""
    chars = _key_fields(schema, (Root.CHAR,))
    if not chars:
        return
    for file in files:
        if format_of(file.file_name) == _ORC:
            raise UnsupportedFeature(
                f"{table}: {file.file_name} has key column {chars[0].name!r} of type {chars[0].type} without trailing "
                "blanks, so one key would become several rows. Write into a new table with VARCHAR or STRING"
            )


def _key_fields(schema: TableSchema, roots: Iterable[Root]) -> list[DataField]:
    return [f for f in schema.key_fields if f.type.root in roots]


# ---------------------------------------------------------------- values of keys

KeyProblems = Callable[[pa.Array], Mapping[int, str]]
"""Returns the positions of values that cannot be keys, and the reason for each."""


def key_problems(schema: TableSchema, options: TableOptions) -> dict[str, KeyProblems]:
    """For each key column that a file of the table may alter: a function that finds such values."""
    orc = next((settings for settings in all_settings(options, schema.fields) if settings.format == _ORC), None)
    if orc is None:
        return {}
    return {f.name: partial(_problems, f, orc) for f in _key_fields(schema, TIMESTAMPS)}


def check_keys(rows: pa.Table, schema: TableSchema, settings: FileSettings, directory: str) -> None:
    """Raises MalformedRecord for rows whose keys a file would alter."""
    if settings.format != _ORC:
        return
    for f in _key_fields(schema, (*TIMESTAMPS, Root.CHAR)):
        for chunk in rows.column(f.name).chunks:
            for problem in _problems(f, settings, chunk).values():
                raise MalformedRecord(f"rows for {directory}, key column {f.name!r}: {problem}")


def _problems(f: DataField, settings: FileSettings, values: pa.Array) -> dict[int, str]:
    mask = FORMATS[settings.format].altered(values, f.type)
    if mask is None or not _any(mask):
        return {}
    found = pc.indices_nonzero(mask).to_pylist()
    return {
        position: (
            f"the key {values[position].as_py()} changes when an ORC file stores it; set "
            f"option {settings.format_option!r} to parquet or avro"
        )
        for position in found
    }
