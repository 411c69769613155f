"""Executor side: the decode step of one batch, from Spark's Arrow batches of Kafka records to blobs."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import LaneSplit
from paimon_table.errors import BrokenInvariant
from paimon_table.row_kind import VALUE_KIND, RowKind
from pipelines.batch.decode_report import (
    DecodeReport,
    RecordAt,
    add_seconds,
    kind_of_reason,
    note_gaps,
    note_read,
)
from pipelines.batch.event_times import EventTimeColumns
from sinks.exchange.blob import Blob, result_blob, to_record_batch
from sinks.exchange.router import Origin, route
from sinks.exchange.slots import slot_keys
from sinks.exchange.spool import Spool
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE, Routing
from sinks.quarantine import Quarantine
from sinks.write.bucket_task import SlotWriter, WriteTask
from sinks.write.deletes import without_sequence_of_deletes
from sinks.write.gap_filling import has_gaps
from sources.change_columns import OFFSET_COLUMN
from sources.changes import ChangeBatch, DecodeCounts, QuarantineRow, SourceTable, in_arrival_order
from sources.decode_target import Decoder, Goal, TopicFormats, decoder_under
from sources.dumps.dump_records import without_malformed
from sources.past_columns import decode_by_age
from sources.position_kinds import POSITION
from sources.record_look import record_look
from sources.record_rows import rows_at

_HELD_BYTES = 64 << 20
"""Bytes of decoded rows that a writing task keeps in memory until it has all rows."""

_RECORDS_PER_TABLE = 1000
"""Each table has a fixed cost in each decoded batch, which is small compared with the cost of this many records."""

GATHERED_BYTES = 32 << 20
"""The size of batches into which smaller ones are combined for decoding."""


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """The records of a step that the quarantine and the tables already have."""

    open: Mapping[tuple[str, int], np.ndarray] = field(default_factory=dict)
    """Per (topic, partition) offsets of open records of the quarantine."""
    stored: frozenset[int] = frozenset()
    """The targets that already have the step and skip its rows."""


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """The decode side of one batch as a picklable function over Spark's Arrow batches.

    ``routes`` gives the target of every known source table; None means that the rules skip it. A source table that is
    missing in it is reported as an observation, and its rows wait for the next run of the batch.
    """

    batch_id: int
    decoder: Decoder
    routes: Mapping[SourceTable, int | None]
    decode_targets: Mapping[SourceTable, Goal]
    targets: tuple[Routing, ...]
    slots: int
    quarantine: Quarantine | None
    """None: the first bad record stops the pipeline, and the driver reports it."""
    spool: Spool | None = None
    """Directory for large blobs; None: they go through the shuffle."""
    notes_gaps: bool = False
    """Whether the reports list missing offsets."""
    paused_topics: frozenset[str] = frozenset()
    """Topics that feed only paused tables, which will meet the bad records without a source table later."""
    read_again: ReadAgain = field(default_factory=ReadAgain)
    formats: TopicFormats = field(default_factory=TopicFormats)
    event_times: EventTimeColumns = field(default_factory=EventTimeColumns)
    write: str = ""
    """Under which name the spool has the write task, where this task writes its rows itself."""

    @property
    def schema_ids(self) -> tuple[int, ...]:
        """The schema versions of the targets."""
        return tuple(target.schema.id for target in self.targets)

    @property
    def floors(self) -> tuple[Mapping[tuple[str, int], int], ...]:
        """The offsets up to which each target has all rows."""
        return tuple(target.floors for target in self.targets)

    @property
    def lanes(self) -> tuple[LaneSplit, ...]:
        """How the rows of each target are shared among the write tasks."""
        return tuple(target.lanes for target in self.targets)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.spool is None or not self.write:
            for blobs in self.decoded(batches):
                yield to_record_batch(blobs if self.spool is None else self.spool.put(blobs))
            return
        task: WriteTask | None = self.spool.given(self.write)
        if task is None:
            raise BrokenInvariant("a decode task has no plan for writing its rows; please report")
        for result in SlotWriter(task, _held(self.decoded(batches), self.spool)).append():
            yield to_record_batch([result_blob(result, slot_keys(self.slots)[0])])

    def decoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Blob]]:
        """The blobs of each of the batches, and the report at the end."""
        report = DecodeReport()
        asked_at = time.perf_counter()
        for batch in gathered(batches, _RECORDS_PER_TABLE * len(self.routes)):
            add_seconds(report, "read", time.perf_counter() - asked_at)
            if batch.num_rows:
                blobs = list(self._blobs(batch, report))
                if blobs:
                    yield blobs
            asked_at = time.perf_counter()
        yield [result_blob(pickle.dumps(report), slot_keys(self.slots)[0])]

    def _blobs(self, batch: pa.RecordBatch, report: DecodeReport) -> Iterator[Blob]:
        started = time.perf_counter()
        report.record_count += batch.num_rows
        if self.notes_gaps:
            note_gaps(batch, report)
        note_read(batch, report)
        batch, malformed = without_malformed(batch)
        decoded = decode_by_age(decoder_under(self.decoder, self.formats), batch, self.decode_targets)
        decoded_at = time.perf_counter()
        report.observations.extend(decoded.observations)
        for row in decoded.newest:
            place = row.source, row.partition
            report.newest[place] = row.after(report.newest.get(place))
        for first in decoded.control:
            report.control.setdefault((first.topic, first.kind), first)
        report.looks.extend(decoded.looks)
        for source, count in decoded.skipped:
            report.skipped[source] += count
        report.refusals.extend(decoded.refusals)
        report.truncations.extend(decoded.truncations)
        bad = self._bad((*malformed, *decoded.quarantine))
        taken = [
            self._taken(change, index)
            for change in decoded.changes
            if (index := self.routes[change.source]) is not None
        ]
        report.counts += _counted(decoded.counts, len(malformed), bad, taken)
        self._to_quarantine(bad.new, report)
        arrived: dict[tuple[int, Origin], list[pa.Table]] = {}
        for one in taken:
            kept = self._counted_rows(one, batch, report)
            if kept.num_rows:
                arrived.setdefault((one.index, Origin(one.change.source.topic, one.change.partition)), []).append(kept)
        for (index, origin), parts in arrived.items():  # source tables of one topic may share keys
            yield from route(in_arrival_order(parts), index, self.targets[index], origin, self.slots)
        routed_at = time.perf_counter()
        add_seconds(report, "decode", decoded_at - started)
        add_seconds(report, "route", routed_at - decoded_at)

    def _counted_rows(self, taken: _Taken, batch: pa.RecordBatch, report: DecodeReport) -> pa.Table:
        """The rows of a change for the write tasks, counted in the report."""
        change, index, kept = taken.change, taken.index, taken.rows
        report.taken[change.source] += taken.record_count
        report.events[index] += taken.record_count - taken.stored - taken.truncated
        self._note_good(batch, change, index, report)
        report.moved_count += _moved_count(kept)
        table, newest_ms = self.targets[index], self.event_times.newest_ms(index, kept) if kept.num_rows else None
        if newest_ms is not None:
            at = index, change.source.topic, change.partition
            report.event_times_ms[at] = max(newest_ms, report.event_times_ms.get(at, newest_ms))
        versions = [name for name in table.options.sequence_fields if name != POSITION]
        return without_sequence_of_deletes(kept, versions, table.schema.primary_keys)

    def _bad(self, rows: Sequence[QuarantineRow]) -> _Bad:
        """The new bad records, and the bad records that belong to no table."""
        new, stored, waiting = list[QuarantineRow](), 0, 0
        has_stored = bool(self.read_again.stored) or any(target.floors for target in self.targets)
        for row in rows:
            if has_stored and self._is_dealt_with(row):
                stored += 1
            elif row.source is None and row.topic in self.paused_topics:
                waiting += 1
            else:
                new.append(row)
        return _Bad(tuple(new), stored, waiting)

    def _taken(self, change: ChangeBatch, index: int) -> _Taken:
        """Split the records of a change: records that the table has, records that a TRUNCATE removed, and the rest."""
        place, rows, target = (change.source.topic, change.partition), change.rows, self.targets[index]
        stored, cut = _records_below(target.floors.get(place), rows), target.cuts.get(place)
        truncated = max(0, _records_below(cut, rows) - stored)
        if cut is not None and truncated:
            rows = rows.filter(pc.greater_equal(rows.column(OFFSET_COLUMN), cut))
        return _Taken(change, index, _record_count(change.rows), stored, truncated, rows)

    def _is_dealt_with(self, row: QuarantineRow) -> bool:
        """Whether an earlier run, or an earlier checkpoint, has handled a record that is bad now.

        If its table has passed the record or has the step, the record is in the quarantine, was fixed and applied
        since, or was good then. A record that names no source table was quarantined when the stream passed it,
        whichever table shows that.
        """
        topic, place = row.topic, (row.topic, row.partition)
        fed = [self.routes.get(row.source)] if row.source else [i for s, i in self.routes.items() if s.topic == topic]
        known = [index for index in fed if index is not None]
        if any(row.offset < self.targets[index].floors.get(place, 0) for index in known):
            return True
        return bool(known) and all(index in self.read_again.stored for index in known)

    def _note_good(self, batch: pa.RecordBatch, change: ChangeBatch, index: int, report: DecodeReport) -> None:
        """Record which records a table gets that may be open in the quarantine."""
        topic, partition = change.source.topic, change.partition
        held = self.read_again.open.get((topic, partition))
        if held is None or index in self.read_again.stored:
            return
        offsets = np.unique(np.asarray(change.rows.column(OFFSET_COLUMN)))
        offsets = offsets[offsets >= self.targets[index].floors.get((topic, partition), 0)]
        found = offsets[np.isin(offsets, held)]
        if len(found):
            report.good.setdefault(index, []).extend(map(_place, rows_at(batch, change.source, partition, found)))

    def _to_quarantine(self, bad: Sequence[QuarantineRow], report: DecodeReport) -> None:
        if not bad:
            return
        report.first_quarantined = report.first_quarantined or bad[0]
        for row in bad:
            if (row.topic, row.source) not in report.bad_places:
                report.bad_places[row.topic, row.source] = row.partition, row.offset
                report.bad_looks[row.topic, row.source] = record_look(row.value)
        report.bad_kinds.update((row.topic, row.source, kind_of_reason(row.reason)) for row in bad)
        if self.quarantine is not None and self.quarantine.takes_bad:
            name = self.quarantine.add(self.batch_id, report.stretch_count, bad)
            report.bad_files.append((name, list(map(_place, bad))))
        report.stretch_count += 1


@dataclass(frozen=True, slots=True)
class _Bad:
    """The bad records of a batch by their outcome."""

    new: tuple[QuarantineRow, ...]
    """The records that go to quarantine."""
    stored: int
    """The number of these that a table, or the quarantine, handled before."""
    waiting: int
    """The number of these without a source table, which paused tables meet again."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """The records of a change by their outcome."""

    change: ChangeBatch
    index: int
    """The index of the target."""
    record_count: int
    stored: int
    """How many of the records the table already has."""
    truncated: int
    """How many of the other records the newest TRUNCATE of the batch has removed."""
    rows: pa.Table
    """The rows without the ``truncated`` records."""


def gathered(batches: Iterable[pa.RecordBatch], wanted: int) -> Iterator[pa.RecordBatch]:
    """The batches, with small ones combined to about ``wanted`` records, in at most ``GATHERED_BYTES``."""
    held, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        if held and size + batch.nbytes > GATHERED_BYTES:
            yield _joined(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= wanted:
            yield _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _held(decoded: Iterable[list[Blob]], spool: Spool) -> list[Blob]:
    """All blobs: the first ones in memory, and the blobs that do not fit in files."""
    held, size = list[Blob](), 0
    for blobs in decoded:
        size += sum(len(blob.data) for blob in blobs)
        held += blobs if size <= _HELD_BYTES else spool.put(blobs)
    return held


def _counted(decoded: DecodeCounts, malformed: int, bad: _Bad, taken: Sequence[_Taken]) -> DecodeCounts:
    """Count each record under its outcome."""
    stored, truncated = sum(one.stored for one in taken), sum(one.truncated for one in taken)
    return decoded + DecodeCounts(
        with_rows=-stored - truncated,
        quarantined=malformed - bad.stored - bad.waiting,
        already_stored=bad.stored + stored,
        truncates=truncated,
        tables_behind=bad.waiting,
    )


def _place(row: QuarantineRow) -> RecordAt:
    return row.topic, row.partition, row.offset, row.timestamp_ms


def _moved_count(rows: pa.Table) -> int:
    """Rows that need values of a row whose key changed."""
    if OTHER_KEY not in rows.column_names or UNAVAILABLE not in rows.column_names:
        return 0
    moved = pc.and_(pc.not_equal(rows.column(VALUE_KIND), RowKind.DELETE), pc.is_valid(rows.column(OTHER_KEY)))
    count: int | None = pc.sum(pc.and_(moved, has_gaps(rows.column(UNAVAILABLE)))).as_py()
    return count or 0


def _records_below(floor: int | None, rows: pa.Table) -> int:
    """The number of records below the offset ``floor`` that the rows come from. The rows are in order of offsets."""
    if floor is None or rows.num_rows == 0 or rows.column(OFFSET_COLUMN)[0].as_py() >= floor:
        return 0
    offsets = np.asarray(rows.column(OFFSET_COLUMN))
    return len(np.unique(offsets[offsets < floor]))


def _record_count(rows: pa.Table) -> int:
    """The number of records that the rows come from. The rows are in order of offsets."""
    offsets = np.asarray(rows.column(OFFSET_COLUMN))
    return int(np.count_nonzero(np.diff(offsets))) + 1 if len(offsets) else 0
