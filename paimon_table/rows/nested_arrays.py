"""Rebuilds Arrow arrays of nested types with other leaves.

It keeps whole children, even if the parent is a slice, so offsets and validity of the parent stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from paimon_table.types import DataType, Root

Leaf = Callable[[pa.Array, DataType], pa.Array]
"""Converts an array of a type that is not nested into another one of the same length, with NULLs at the same places."""


def column_with_leaves(column: pa.ChunkedArray, t: DataType, leaf: Leaf) -> pa.ChunkedArray:
    """``with_leaves`` for every chunk; a column without chunks gets an empty one."""
    chunks = column.chunks or [pa.array([], column.type)]
    return pa.chunked_array([with_leaves(chunk, t, leaf) for chunk in chunks])


def any_leaf(column: pa.ChunkedArray, t: DataType, test: Callable[[pa.Array, DataType], bool]) -> bool:
    """Whether ``test`` is true for the values of a column, or for nested values of an atomic type."""
    found = False

    def look(values: pa.Array, leaf: DataType) -> pa.Array:
        nonlocal found
        found = found or test(values, leaf)
        return values

    column_with_leaves(column, t, look)
    return found


def with_leaves(values: pa.Array, t: DataType, leaf: Leaf) -> pa.Array:
    """``values`` of type ``t`` with every leaf array replaced; names and nullability of the children stay."""
    source = values.type
    match t.root, t.element, t.key, t.value:
        case Root.ROW, _, _, _:
            children = [with_leaves(values.field(i), f.type, leaf) for i, f in enumerate(t.fields)]
            fields = [source.field(i).with_type(child.type) for i, child in enumerate(children)]
            return struct_array(values, children, pa.struct(fields))
        case Root.ARRAY, DataType() as element, _, _:
            elements = with_leaves(values.values, element, leaf)
            return list_array(values, elements, pa.list_(source.value_field.with_type(elements.type)))
        case Root.MULTISET, DataType() as key, _, _:
            counts = with_leaves(values.items, DataType(Root.INT, nullable=False), leaf)
            return _map(values, with_leaves(values.keys, key, leaf), counts)
        case Root.MAP, _, DataType() as key, DataType() as value:
            return _map(values, with_leaves(values.keys, key, leaf), with_leaves(values.items, value, leaf))
        case _:
            return leaf(values, t)


def _map(values: pa.Array, keys: pa.Array, items: pa.Array) -> pa.Array:
    source = values.type
    target = pa.map_(source.key_field.with_type(keys.type), source.item_field.with_type(items.type))
    return map_array(values, keys, items, target)


def struct_array(values: pa.Array, children: list[pa.Array], target: pa.DataType) -> pa.Array:
    """Rows with the validity of ``values``."""
    fields = [target.field(i) for i in range(target.num_fields)]
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def list_array(values: pa.Array, elements: pa.Array, target: pa.DataType) -> pa.Array:
    """Lists with the offsets and validity of ``values``, which may be a map."""
    return pa.Array.from_buffers(target, len(values), values.buffers()[:2], offset=values.offset, children=[elements])


def map_array(values: pa.Array, keys: pa.Array, items: pa.Array, target: pa.DataType) -> pa.Array:
    """Maps with the offsets and validity of ``values``."""
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return list_array(values, entries, target)
