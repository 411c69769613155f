"""Debezium's envelopes of one writer schema as columns: operations, names of the source table, times, row images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.avro.columns import OptionalRecords, Walk, arrow_form
from sources.avro.connect_schema import connect_struct
from sources.avro.record_bytes import Mask, Places, RecordBytes
from sources.avro.writer_schema import AvroKind, Node
from sources.debezium_json.envelope_schema import NAME_FIELDS
from sources.debezium_json.envelopes import NAMES
from sources.debezium_json.event_sorting import RowImages
from sources.debezium_json.source_times import UNITS
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.position_kinds import FIELDS
from sources.values.cells import with_plain_fields
from sources.values.connect_types import struct_columns

_SIDES = ("before", "after")
_LAST_MS, _LARGEST = 10**15, (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EnvelopeSchema:
    """A writer schema of envelopes, which may be null, the record in it, and the columns of its rows."""

    node: Node
    record: Node
    row: EmbeddedSchema
    has_cells: bool = False
    """Values stand in cells (``values.cells``): only envelopes that are read one by one have them plain."""


@lru_cache(maxsize=1024)
def envelope_schema(schema: Node) -> EnvelopeSchema | None:
    """The envelopes of a schema; None for another kind of schema.

    Raises MalformedRecord for columns that no table can have.
    """
    envelope = _record_of(schema)
    if envelope is None:
        return None
    fields = {f.name: f.node for f in envelope.fields}
    rows = [row for side in _SIDES if side in fields and (row := _record_of(fields[side])) is not None]
    op = None if "op" not in fields else fields["op"].value
    if op is None or op.kind not in (AvroKind.STRING, AvroKind.ENUM) or not rows:
        return None
    try:
        structs = [connect_struct(row) for row in rows]
        plain = [with_plain_fields(struct) for struct in structs]
        columns, *others = map(struct_columns, plain)
    except (ArithmeticError, RecursionError) as error:
        raise MalformedRecord(f"it is not usable: {error}") from error
    if any(columns != other for other in others) or len({arrow_form(row) for row in rows}) > 1:
        raise MalformedRecord("before and after have different columns: give both the same type")
    return EnvelopeSchema(schema, envelope, EmbeddedSchema(columns), has_cells=plain != structs)


def _record_of(node: Node) -> Node | None:
    value = node.value
    return value if value is not None and value.kind is AvroKind.RECORD and not value.is_opaque else None


@dataclass(frozen=True, slots=True)
class EnvelopeColumns:
    """Envelopes as columns; ``good`` marks those that are not doubtful.

    ``table`` has ``op`` and ``source`` with the fields that name tables; ``times_ms`` are int64, NULL if unknown.
    """

    table: pa.Table
    images: RowImages
    times_ms: pa.Array | None
    sources: pa.StructArray | None
    """The fields of source positions that the schema has."""
    good: Mask


def read_envelopes(schema: EnvelopeSchema, values: pa.Array, skipped: Places) -> EnvelopeColumns:
    """The envelopes of a binary array without NULLs, each after a prefix of this length."""
    records = RecordBytes.of(values, skipped)
    walk, count = Walk(records), len(values)
    at, lanes = records.starts.copy(), np.arange(count)
    sides: dict[str, OptionalRecords] = {}
    names: Mapping[str, pa.Array] = {}
    op = pa.nulls(count, pa.string())
    if schema.node is not schema.record:
        branches = records.branches(at, lanes, len(schema.node.parts))
        records.suspect(lanes, branches != schema.node.parts.index(schema.record))
        at = at + 1
    for field in schema.record.fields:
        match field.name:
            case "before" | "after" if _record_of(field.node) is not None:
                sides[field.name], at = walk.read_optional(field.node, at, lanes)
            case "source" if _record_of(field.node) is not None:
                wanted = {*NAME_FIELDS, *FIELDS}
                names, at = walk.read_fields(field.node, wanted, at, lanes)
            case "op":
                op, at = walk.read(field.node, at, lanes)
            case _:
                at = walk.skip(field.node, at, lanes)
    columns = [names[n] if n in names and pa.types.is_string(names[n].type) else pa.nulls(count, pa.string())
               for n in NAME_FIELDS]  # fmt: skip
    table = pa.table({"op": op, "source": pa.StructArray.from_arrays(columns, fields=list(NAMES))})
    form = next(arrow_form(f.node) for f in schema.record.fields if f.name in _SIDES and _record_of(f.node))
    nothing = OptionalRecords(np.zeros(count, np.bool_), pa.nulls(0, form))
    images = _row_images(*(sides.get(side, nothing) for side in _SIDES))
    return EnvelopeColumns(table, images, _times(names), _sources(names), ~records.doubt & (at == records.ends))


def _row_images(before: OptionalRecords, after: OptionalRecords) -> RowImages:
    count = len(before.valid)
    if not before.valid.any() and after.valid.all():
        return RowImages(pa.nulls(count, after.records.type), after.records, after.records)
    if not after.valid.any() and before.valid.all():
        return RowImages(before.records, pa.nulls(count, before.records.type), before.records)
    if (before.valid ^ after.valid).all():
        both = pa.concat_arrays([before.records, after.records])
        order = np.where(before.valid, before.places, after.places + len(before.records))
        alone = both.take(pa.array(order))
        parts, fields = alone.flatten(), list(alone.type)
        if not parts:
            return RowImages(_spread(before), _spread(after))
        masks = (pa.array(after.valid), pa.array(before.valid))
        left, right = (pa.StructArray.from_arrays(parts, fields=fields, mask=mask) for mask in masks)
        return RowImages(left, right, alone)
    return RowImages(_spread(before), _spread(after))


def _spread(side: OptionalRecords) -> pa.StructArray:
    """One entry per lane; NULL without a record."""
    if side.valid.all():
        return side.records
    return side.records.take(pa.array(side.places, mask=~side.valid))


def _sources(names: Mapping[str, pa.Array]) -> pa.StructArray | None:
    found = {name: names[name] for name in FIELDS if name in names}
    return pa.StructArray.from_arrays([*found.values()], names=[*found]) if found else None


def _times(names: Mapping[str, pa.Array]) -> pa.Array | None:
    found: pa.Array | None = None
    for name, per_ms in UNITS:
        column = names.get(name)
        if column is None or not pa.types.is_integer(column.type):
            continue
        usable = pc.and_(pc.greater_equal(column, 0), pc.less(column, min(_LAST_MS * per_ms, _LARGEST)))
        times = pc.divide(pc.if_else(usable, column, pa.scalar(None, column.type)), per_ms)
        found = times if found is None else pc.coalesce(found, times)
    return found
