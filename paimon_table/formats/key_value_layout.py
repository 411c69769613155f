"""The Arrow schema of a data file, with the field ids that Paimon gives to the columns of Parquet and ORC files.

Implements the column order of primary-key data files: key copies, sequence number, row kind, then all table columns.
Files of tables without primary key have the table columns alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_table.known_values import once_for_each
from paimon_table.row_kind import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField, DataType, Root, arrow_type

KEY_FIELD_ID_START = 1_073_741_823
"""Added to a column's id for the copy of a key column."""

SEQUENCE_NUMBER_ID = 2_147_483_646
VALUE_KIND_ID = 2_147_483_645

SYSTEM_FIELDS = (
    DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, DataType(Root.BIGINT, nullable=False)),
    DataField(VALUE_KIND_ID, VALUE_KIND, DataType(Root.TINYINT, nullable=False)),
)
"""Columns of every file of a table with a primary key, in addition to the key columns and the table's own columns."""

PARQUET_ID = b"PARQUET:field_id"
"""Key of the metadata of Arrow fields that Arrow writes as the field id of a Parquet column."""

_NESTED_ID_START = 536_870_911
_NESTED_IDS_PER_COLUMN = 1024


@once_for_each
def key_value_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns of the data and changelog files written under one table schema."""
    if not schema.primary_keys:
        return schema.fields
    keys = (replace(f, id=f.id + KEY_FIELD_ID_START, name=KEY_PREFIX + f.name) for f in schema.key_fields)
    return (*keys, *SYSTEM_FIELDS, *schema.fields)


@once_for_each
def key_value_schema(schema: TableSchema) -> pa.Schema:
    """The Arrow form of ``key_value_fields`` with their ids as Parquet files have them."""
    return schema_with_ids(key_value_fields(schema), PARQUET_ID)


def schema_with_ids(fields: Sequence[DataField], id_key: bytes) -> pa.Schema:
    """The Arrow schema of fields, with their ids in the metadata of every field, under ``id_key``."""
    return pa.schema([_field(f, id_key) for f in fields])


def _field(f: DataField, id_key: bytes) -> pa.Field:
    return pa.field(f.name, _type_with_ids(f.type, f.id, 0, id_key), f.type.nullable, {id_key: str(f.id).encode()})


def _type_with_ids(t: DataType, column_id: int, depth: int, id_key: bytes) -> pa.DataType:
    """The Arrow type of ``t`` with ids of nested fields; ``depth`` counts the arrays and maps around it."""
    inner = depth + 1
    above = _NESTED_ID_START + column_id * _NESTED_IDS_PER_COLUMN + inner
    below = _NESTED_ID_START - column_id * _NESTED_IDS_PER_COLUMN - inner

    def nested(name: str, part: DataType, field_id: int) -> pa.Field:
        part_type = _type_with_ids(part, column_id, inner, id_key)
        return pa.field(name, part_type, part.nullable, {id_key: str(field_id).encode()})

    match t.root, t.element, t.key, t.value:
        case Root.ARRAY, DataType() as element, _, _:
            return pa.list_(nested("element", element, above))
        case Root.MULTISET, DataType() as element, _, _:
            counts = nested("value", DataType(Root.INT, nullable=False), above)
            return pa.map_(nested("key", element.with_nullable(False), below), counts)
        case Root.MAP, _, DataType() as key, DataType() as value:
            return pa.map_(nested("key", key.with_nullable(False), below), nested("value", value, above))
        case Root.ROW, _, _, _:
            return pa.struct([_field(f, id_key) for f in t.fields])
        case _:
            return arrow_type(t)
