"""The values stored of each event besides the row: see ``event_columns`` and ``source_positions``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.row_kind import RowKind
from paimon_table.types import arrow_type
from sources.event_columns import EVENT_COLUMNS, PLACE_COLUMNS
from sources.json_changes.row_conversion import ConvertedRows
from sources.places_of_change import UNKNOWN_PLACE, PlaceOfChange
from sources.source_positions import SourcePositions, source_positions

_READS = frozenset({"r", "bootstrap-insert", "load", "INIT"})
"""The words of the sources for rows that a snapshot has read."""

_KINDS = pa.array([kind.short for kind in RowKind])


class EventLog:
    """Operations, times and source positions of the events of one topic partition, by the numbers of their records."""

    def __init__(self, topic: str, partition: int, offsets: pa.Array, op_names: Sequence[str | None]) -> None:
        """``offsets`` cover the whole batch; ``op_names`` has the source's word for each code, if any."""
        self._topic = topic
        self._partition = partition
        self._offsets = offsets
        self._op_names = pa.array(op_names, pa.string())
        self._reads = np.array([name in _READS for name in op_names], np.bool_)
        self._ops = np.zeros(len(offsets), np.int8)
        self._times = np.zeros(len(offsets), np.int64)
        self._has_time = np.zeros(len(offsets), np.bool_)
        self._kinds = np.full(len(offsets), -1, np.int8)
        self._text_of = np.full(len(offsets), -1, np.int64)
        self._texts: list[pa.Array] = []
        self._places: dict[int, PlaceOfChange] = {}

    def note(self, positions: npt.NDArray[np.int64], ops: npt.NDArray[np.int8], times_ms: pa.Array) -> None:
        """Events with their operations and times (int64, NULL if unknown)."""
        self._ops[positions] = ops
        self._times[positions] = np.asarray(times_ms.fill_null(0))
        self._has_time[positions] = np.asarray(times_ms.is_valid())

    def note_positions(
        self,
        positions: npt.NDArray[np.int64],
        fields: Mapping[str, pa.Array],
        is_snapshot: npt.NDArray[np.bool_],
        kind: int | None,
    ) -> None:
        """Events with the fields of their ``source``, as ``source_positions`` takes them."""
        found = source_positions(fields, is_snapshot, self._offsets.take(pa.array(positions)), kind)
        self._kinds[positions] = found.kinds
        self._text_of[positions] = np.arange(len(positions)) + sum(map(len, self._texts))
        self._texts.append(found.texts)

    def source_positions(self, positions: npt.NDArray[np.int64]) -> SourcePositions:
        """Of records by position."""
        texts = pa.concat_arrays(self._texts) if self._texts else pa.nulls(0, pa.string())
        index = self._text_of[positions]
        return SourcePositions(self._kinds[positions], texts.take(pa.array(index, mask=index < 0)))

    def times(self, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Of records by position, in milliseconds; NULL if the event has none."""
        return pa.array(self._times[positions], pa.int64(), mask=~self._has_time[positions])

    def note_places(self, positions: npt.NDArray[np.int64], places: Iterable[PlaceOfChange]) -> None:
        """Positions of events in the log of their source."""
        self._places.update(zip(positions.tolist(), places, strict=True))

    def with_places(self, rows: ConvertedRows) -> ConvertedRows:
        """The rows, followed by the columns of places."""
        found = [self._places.get(position, UNKNOWN_PLACE) for position in rows.positions.tolist()]
        columns = zip(*found, strict=True) if found else iter([()] * len(PLACE_COLUMNS))
        told = [pa.array(column, arrow_type(t)) for column, (_, t) in zip(columns, PLACE_COLUMNS, strict=True)]
        return replace(rows, columns=[*rows.columns, *told])

    def are_reads(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether records, by position, are rows that a snapshot read, and not changes."""
        found: npt.NDArray[np.bool_] = self._reads[self._ops[positions]]
        return found

    def with_event_columns(self, rows: ConvertedRows, kinds: npt.NDArray[np.int8]) -> ConvertedRows:
        """The rows, followed by the event columns; ``kinds`` are the row kinds in the source."""
        positions, count = rows.positions, len(rows.positions)
        times = self.times(positions)
        columns = [
            _KINDS.take(pa.array(kinds)),
            self._op_names.take(pa.array(self._ops[positions])),
            times.cast(arrow_type(dict(EVENT_COLUMNS)["event_time"])),
            pa.repeat(pa.scalar(self._topic), count),
            pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            self._offsets.take(pa.array(positions)),
        ]
        return replace(rows, columns=[*rows.columns, *columns])
