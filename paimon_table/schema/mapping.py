"""Converts rows of an older schema to rows of the current one.

Implements Paimon's schema evolution on read. Columns and fields of rows are found by field id, so renamed ones keep
their values. Columns that the file lacks are NULL; values of another type are cast. It supports casts that cannot lose
a value, and casts between numbers, where whole numbers wrap around and digits are rounded as in Paimon.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.rows.nested_arrays import list_array, map_array, struct_array
from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataField, DataType, Root, arrow_type

_FLOATS = frozenset({Root.FLOAT, Root.DOUBLE})
_WHOLE = frozenset(INTEGERS)
_WIDEST_DECIMAL256 = 76
_TEXT_LENGTH = 20
"""The length of the longest number or date as text."""


def conform_column(column: pa.ChunkedArray, written: DataField, wanted: DataField) -> pa.ChunkedArray:
    """The values of a file's column in the Arrow type of the current column with the same field id.

    ``written`` is the column in the schema of the file. The file's Arrow type may be another one that represents it,
    such as timestamps without a zone for instants. Raises UnsupportedFeature for a cast that is not supported.
    """
    try:
        column = _cast(column, arrow_type(written.type))
        if written.type.with_nullable(True) == wanted.type.with_nullable(True):
            return column
        chunks = [_conform(chunk, written.type, wanted.type) for chunk in column.chunks]
        return pa.chunked_array(chunks, arrow_type(wanted.type))
    except (_NoCast, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedFeature(
            f"column {wanted.name!r} was written as {written.type} and cannot be read as {wanted.type} ({error}). "
            "Compact the table with the engine that changed the type, or change it to a wider one",
            column=wanted.name,
        ) from error


class _NoCast(Exception):
    """There is no supported cast between two types."""


def _cast(values: Any, target: pa.DataType) -> Any:
    if values.type == target:
        return values
    if pa.types.is_nested(target):
        return pa.chunked_array([_rebuild(chunk, target) for chunk in values.chunks], target)
    return values.cast(target, safe=False)


def _rebuild(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Nested values with the field names, nullability and leaf types of ``target``; children match by position."""
    if values.type == target:
        return values
    if pa.types.is_struct(target):
        children = [_rebuild(values.field(i), target.field(i).type) for i in range(target.num_fields)]
        return struct_array(values, children, target)
    if pa.types.is_map(target):
        keys, items = _rebuild(values.keys, target.key_type), _rebuild(values.items, target.item_type)
        return map_array(values, keys, items, target)
    if pa.types.is_list(target):
        return list_array(values, _rebuild(values.values, target.value_type), target)
    return values.cast(target, safe=False)


def _conform(values: pa.Array, written: DataType, wanted: DataType) -> pa.Array:
    target = arrow_type(wanted)
    if written.root is not wanted.root or not written.is_nested:
        return values if written.with_nullable(True) == wanted.with_nullable(True) else _atomic(values, written, wanted)
    if written.root is Root.ROW:
        by_id = {f.id: (position, f) for position, f in enumerate(written.fields)}
        children = []
        for f in wanted.fields:
            found = by_id.get(f.id)
            if found is None:
                children.append(pa.nulls(len(values), arrow_type(f.type)))
            else:
                children.append(_conform(values.field(found[0]), found[1].type, f.type))
        return struct_array(values, children, target)
    if written.root is Root.ARRAY:
        return list_array(values, _conform_known(values.values, written.element, wanted.element), target)
    if written.root is Root.MAP:
        keys = _conform_known(values.keys, written.key, wanted.key)
        return map_array(values, keys, _conform_known(values.items, written.value, wanted.value), target)
    return map_array(values, _conform_known(values.keys, written.element, wanted.element), values.items, target)


def _conform_known(values: pa.Array, written: DataType | None, wanted: DataType | None) -> pa.Array:
    assert written is not None and wanted is not None
    return _conform(values, written, wanted)


# ---------------------------------------------------------------- atomic values


def _atomic(values: pa.Array, written: DataType, wanted: DataType) -> pa.Array:
    target = arrow_type(wanted)
    source, sink = written.root, wanted.root
    if source in _WHOLE and sink is Root.DECIMAL:
        return values.cast(pa.decimal256(_WIDEST_DECIMAL256, wanted.scale or 0)).cast(target)
    if source is sink is Root.DECIMAL:
        return _rescaled(values, written, wanted)
    if source in _WHOLE | {Root.BOOLEAN, Root.DATE} and sink in CHARACTERS and _room(wanted) >= _TEXT_LENGTH:
        return values.cast(target)
    if (source in _WHOLE and sink in _WHOLE | _FLOATS) or (source in _FLOATS and sink in _FLOATS):
        return values.cast(target, safe=False)
    same_kind = source is sink or any({source, sink} <= kind for kind in (CHARACTERS, BINARIES))
    if same_kind and sink is not Root.CHAR and sink is not Root.BINARY and _room(written) <= _room(wanted):
        return values.cast(target)
    raise _NoCast("no supported cast")


def _rescaled(values: pa.Array, written: DataType, wanted: DataType) -> pa.Array:
    """A decimal with fewer digits after the point, rounded half up as in Paimon; refuses values with too many digits
    before it."""
    if (wanted.scale or 0) < (written.scale or 0):
        values = pc.round(values, wanted.scale or 0, "half_towards_infinity")
    return values.cast(arrow_type(wanted))


def _room(t: DataType) -> int:
    """The capacity of a text, binary, time or timestamp type; comparable between types of one kind."""
    return t.precision or 0 if t.root in TIMESTAMPS | {Root.TIME} else t.length or 0
