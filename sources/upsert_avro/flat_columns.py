"""Rows of one schema without envelope as columns: the metadata fields apart from the fields of the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.debezium_json.texts import ParsedRecords
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.upsert_json.metadata import FlatRows
from sources.upsert_json.row_decoding import Positions, RowGroup
from sources.upsert_json.row_sorting import RowSorter, field_text

_TELLING = frozenset({"event_count", "databaseName", "aggregate_type"})
"""Fields of transaction records, schema changes and notifications: each of these records has one of them."""
_ALONE = ({"ts_ms", "ts_us", "ts_ns"}, {"id", "type", "data"}, {"resolved"}, {"__crdb__"})
"""The only fields of heartbeats, signals and resolved messages."""


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """Sorts the rows of one topic partition; see ``avro_rows.RowGrouping``."""

    sorter: RowSorter
    shape: FlatRows
    outcome: Outcome

    def group(
        self,
        schema: EmbeddedSchema,
        columns: tuple[Positions, pa.StructArray],
        objects: tuple[Positions, Sequence[Mapping[str, Any]]],
    ) -> RowGroup:
        """See ``avro_rows.RowGrouping``."""
        positions, rows = columns
        if len(positions):
            names = rows.type.names
            if _may_be_no_row(rows.type) or all(map(self.shape.is_metadata, names)):
                self._sort_one_by_one(positions)
            else:
                self._sort_columns(positions, dict(zip(names, rows.flatten(), strict=True)))
        if len(objects[0]):
            self.sorter.sort_values(self._records(objects[0]), objects[1])
        return RowGroup(self.sorter.events, schema, self.shape)

    def _sort_one_by_one(self, positions: Positions) -> None:
        """Rows that may be control records, or have no column: each must be checked."""
        values = [self.outcome.parsed("value", position) for position in positions.tolist()]
        kept = [index for index, value in enumerate(values) if not isinstance(value, MalformedRecord)]
        for index in sorted({*range(len(values))} - {*kept}):
            self.outcome.quarantine(int(positions[index]), str(values[index]))
        self.sorter.sort_values(self._records(positions[kept]), [values[index] for index in kept])

    def _sort_columns(self, positions: Positions, columns: Mapping[str, pa.Array]) -> None:
        fields = {name: _scalars(column) for name, column in columns.items() if name in self.shape.metadata.roles}
        of_row = {name: column for name, column in columns.items() if not self.shape.is_metadata(name)}
        rows = pa.StructArray.from_arrays([*of_row.values()], names=[*of_row])
        self.sorter.sort_columns(self._records(positions), fields, rows, self._sources(columns, len(positions)))

    def _records(self, positions: Positions) -> ParsedRecords:
        return ParsedRecords(self.outcome, self.outcome.values_at(positions), positions, self.shape)

    def _sources(self, columns: Mapping[str, pa.Array], count: int) -> pa.StructArray:
        """The fields of ``source`` in the rows' metadata; of several for one, the first that is present counts."""
        found: dict[str, pa.Array] = {}
        for field, names in self.shape.source_names.items():
            parts = [columns[name] for name in names if name in columns and _is_word(columns[name].type)]
            if len({part.type for part in parts}) > 1:
                parts = [part.cast(pa.string()) for part in parts]
            if parts:
                found[field] = pc.coalesce(*parts)
        return pa.StructArray.from_arrays([*found.values(), pa.nulls(count)], names=[*found, ""])


def _may_be_no_row(kind: pa.StructType) -> bool:
    """Whether values with these fields may be control records or envelopes."""
    names = {*kind.names}
    if not _TELLING.isdisjoint(names) or any(names <= alone for alone in _ALONE):
        return True
    return "source" in names and pa.types.is_nested(kind.field("source").type)


def _is_word(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def _scalars(column: pa.Array) -> pa.Array:
    """A metadata field as text or whole number."""
    if _is_word(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return column
    return pa.array([field_text(value) for value in column.to_pylist()], pa.string())
