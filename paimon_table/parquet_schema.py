"""The Arrow schema of a key-value file, with the field ids that Paimon gives to Parquet columns.

Implements the column order of primary-key data files: key copies, sequence number, row kind, then all table columns.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from paimon_table.data_file import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.schema import TableSchema
from paimon_table.types import DataField, DataType, Root, arrow_type

KEY_FIELD_ID_START = 1_073_741_823
"""Added to a column's id for the copy of a key column."""

SEQUENCE_NUMBER_ID = 2_147_483_646
VALUE_KIND_ID = 2_147_483_645

_NESTED_ID_START = 536_870_911
_NESTED_IDS_PER_COLUMN = 1024


def key_value_schema(schema: TableSchema) -> pa.Schema:
    """Schema of the data and changelog files written under one table schema."""
    keys = [replace(f, id=f.id + KEY_FIELD_ID_START, name=KEY_PREFIX + f.name) for f in schema.key_fields]
    system = [
        pa.field(SEQUENCE_NUMBER, pa.int64(), False, _field_id(SEQUENCE_NUMBER_ID)),
        pa.field(VALUE_KIND, pa.int8(), False, _field_id(VALUE_KIND_ID)),
    ]
    return pa.schema([*map(_parquet_field, keys), *system, *map(_parquet_field, schema.fields)])


def _parquet_field(f: DataField) -> pa.Field:
    return pa.field(f.name, _type_with_ids(f.type, f.id, 0), f.type.nullable, _field_id(f.id))


def _type_with_ids(t: DataType, column_id: int, depth: int) -> pa.DataType:
    """The Arrow type of ``t`` in which nested fields carry ids; ``depth`` counts the arrays and maps around it."""
    inner = depth + 1
    above = _NESTED_ID_START + column_id * _NESTED_IDS_PER_COLUMN + inner
    below = _NESTED_ID_START - column_id * _NESTED_IDS_PER_COLUMN - inner
    match t.root, t.element, t.key, t.value:
        case Root.ARRAY, DataType() as element, _, _:
            return pa.list_(_nested_field("element", element, column_id, inner, above))
        case Root.MULTISET, DataType() as element, _, _:
            counted = _nested_field("value", DataType(Root.INT, nullable=False), column_id, inner, above)
            return pa.map_(_nested_field("key", element.with_nullable(False), column_id, inner, below), counted)
        case Root.MAP, _, DataType() as key, DataType() as value:
            key_field = _nested_field("key", key.with_nullable(False), column_id, inner, below)
            return pa.map_(key_field, _nested_field("value", value, column_id, inner, above))
        case Root.ROW, _, _, _:
            return pa.struct([_parquet_field(f) for f in t.fields])
        case _:
            return arrow_type(t)


def _nested_field(name: str, t: DataType, column_id: int, depth: int, field_id: int) -> pa.Field:
    return pa.field(name, _type_with_ids(t, column_id, depth), t.nullable, _field_id(field_id))


def _field_id(number: int) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": str(number).encode()}
