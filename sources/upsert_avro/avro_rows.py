"""The Avro values of a batch as rows, by the schema that wrote them: columns at once, doubtful records one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.columns import Walk
from sources.avro.framing import NULL, Frames
from sources.avro.record_bytes import Mask, RecordBytes
from sources.avro.writer_schema import AvroKind, Node
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.json_changes.taking import taken
from sources.upsert_json.row_decoding import Positions, RowGroup
from sources.values.connect_types import struct_columns

_NO_RECORD = "the schema of the value is not a record, so it has no columns"


class AvroSchemas(Protocol):
    """The schemas of the values of one batch."""

    @property
    def frames(self) -> Frames: ...

    def schema(self, code: int) -> Node:
        """The writer schema of a code. Raises MalformedRecord."""
        ...

    def row(self, schema: Node) -> EmbeddedSchema:
        """The columns of the rows that a schema writes. Raises MalformedRecord."""
        ...

    def no_schema(self, code: int, data: bytes) -> str:
        """Why a value names no schema."""
        ...


class RowGrouping(Protocol):
    """Makes a group of the rows of one topic partition and one schema."""

    def group(
        self,
        schema: EmbeddedSchema,
        columns: tuple[Positions, pa.StructArray],
        objects: tuple[Positions, Sequence[Mapping[str, Any]]],
    ) -> RowGroup:
        """Of positions with columns, and positions with objects."""
        ...


@dataclass(frozen=True, slots=True)
class AvroRows:
    """See ``sources.upsert_json.row_decoding.RowReading``."""

    schemas: AvroSchemas
    grouping: Callable[[str], RowGrouping]
    """By topic."""
    outcome: Outcome

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        """The rows by writer schema, and the positions of values that are null."""
        frames = self.schemas.frames
        codes = frames.codes[positions]
        for position in positions[codes < NULL].tolist():
            data = self.outcome.cell("value", position)
            self.outcome.quarantine(position, self.schemas.no_schema(int(frames.codes[position]), data))
        groups: list[RowGroup] = []
        nulls = [positions[codes == NULL]]
        for code in np.unique(codes[codes > NULL]).tolist():
            members = positions[codes == code]
            try:
                schema = self.schemas.schema(code)
                row = self.schemas.row(schema)
            except MalformedRecord as error:
                for position in members.tolist():
                    self.outcome.quarantine(position, str(error))
                continue
            group, null = self._group(topic, schema, row, members)
            groups.append(group)
            nulls.append(null)
        return groups, np.concatenate(nulls)

    def _group(self, topic: str, schema: Node, row: EmbeddedSchema, positions: Positions) -> tuple[RowGroup, Positions]:
        valid, columns, good = self._read(schema, positions)
        nulls = [positions[good & ~valid]]
        exact, objects = [], []
        for position in positions[~good].tolist():
            value = self.outcome.parsed("value", position)
            if isinstance(value, MalformedRecord):
                self.outcome.quarantine(position, str(value))
            elif value is None:
                nulls.append(np.array([position], np.int64))
            else:
                exact.append(position)
                objects.append(value)
        self.outcome.count(exact=int((~good).sum()))
        found = (positions[good & valid], taken(columns, np.flatnonzero(good[valid])))
        return self.grouping(topic).group(row, found, (np.array(exact, np.int64), objects)), np.concatenate(nulls)

    def _read(self, schema: Node, positions: Positions) -> tuple[Mask, pa.StructArray, Mask]:
        """Which values have a record, these records, and which of the values are not in doubt."""
        record = schema.value
        assert record is not None
        if record.is_opaque:
            nothing = np.zeros(len(positions), np.bool_)
            return nothing, pa.array([], pa.struct([])), nothing
        values = self.outcome.values_at(positions)
        data = RecordBytes.of(
            values if pa.types.is_binary(values.type) else values.cast(pa.binary()),
            self.schemas.frames.skipped[positions],
        )
        found, at = Walk(data).read_optional(schema, data.starts.copy(), np.arange(len(positions)))
        return found.valid, found.records, ~data.doubt & (at == data.ends)


def row_schema(schema: Node, struct_of: Callable[[Node], Mapping[str, Any]]) -> EmbeddedSchema:
    """The columns of the rows that a schema writes; ``struct_of`` makes a Kafka Connect struct of their record.

    Raises MalformedRecord if it writes no record, or one that is not usable.
    """
    record = schema.value
    if record is None or record.kind is not AvroKind.RECORD:
        raise MalformedRecord(_NO_RECORD)
    try:
        return EmbeddedSchema(struct_columns(struct_of(record)))
    except (ArithmeticError, RecursionError) as error:
        raise MalformedRecord(f"the schema of the value is not usable: {error}") from error
