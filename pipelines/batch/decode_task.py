"""Executor side: the decode step of one batch, from Spark's Arrow batches of Kafka records to blobs."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import LaneSplit
from paimon_table.row_kind import VALUE_KIND, RowKind
from pipelines.batch.event_times import EventTimeColumns
from sinks.exchange.blob import Blob, report_blob, to_record_batch
from sinks.exchange.router import Origin, route
from sinks.exchange.slots import slot_keys
from sinks.exchange.spool import Spool
from sinks.exchange.target import OTHER_KEY, Routing
from sinks.quarantine import Quarantine
from sinks.write.deletes import without_sequence_of_deletes
from sources.changes import (
    OFFSET_COLUMN,
    ChangeBatch,
    ControlRecord,
    DecodeCounts,
    Decoder,
    Goal,
    NewestRow,
    Observation,
    QuarantineRow,
    Refusal,
    SourceTable,
    TopicFormats,
    TopicLook,
    Truncation,
    decoder_under,
)
from sources.dumps.dump_records import without_malformed
from sources.past_columns import decode_by_age
from sources.position_kinds import POSITION
from sources.positions import ReadOffsets
from sources.record_look import record_look
from sources.record_rows import rows_at

BadKind: TypeAlias = tuple[str, SourceTable | None, str]
"""Topic of bad records, the source table that they name, and the kind of reason."""

RecordAt: TypeAlias = tuple[str, int, int, int | None]
"""Topic, partition, offset and time (ms) of a record."""


@dataclass(slots=True)
class DecodeReport:
    """What one decode task saw; travels to the driver beside the blobs."""

    read: dict[tuple[str, int], ReadOffsets] = field(default_factory=dict)
    """What was read, per (topic, partition)."""
    newest_s: dict[tuple[str, int], float] = field(default_factory=dict)
    """The newest time of those records, where they have one."""
    event_times_ms: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """Per target, topic and partition the newest event time, where the target's watermark follows it."""
    events: Counter[int] = field(default_factory=Counter)
    """Records that gave rows, per target."""
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    """The first offset read of each; noted with the gaps."""
    gaps: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """Offsets (begin, end) between those that were read; only noted if the task is told to."""
    record_count: int = 0
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    moved_count: int = 0
    """Rows that need values from a row under another key, which may be in another bucket."""
    stretch_count: int = 0
    """How often records went to quarantine."""
    bad_files: list[tuple[str, list[RecordAt]]] = field(default_factory=list)
    """The files that went to quarantine, by name, and whose records they are."""
    good: dict[int, list[RecordAt]] = field(default_factory=dict)
    """Per target the records that come into it and that may be open in the quarantine."""
    first_quarantined: QuarantineRow | None = None
    bad_kinds: Counter[BadKind] = field(default_factory=Counter)
    """Bad records by where they come from and what is wrong with them."""
    bad_places: dict[tuple[str, SourceTable | None], tuple[int, int]] = field(default_factory=dict)
    """Partition and offset of the first bad record of each."""
    bad_looks: dict[tuple[str, SourceTable | None], str] = field(default_factory=dict)
    """What it looks like."""
    taken: Counter[SourceTable] = field(default_factory=Counter)
    """Records that gave rows."""
    observations: list[Observation] = field(default_factory=list)
    newest: dict[tuple[SourceTable, int], NewestRow] = field(default_factory=dict)
    """Per source table and partition."""
    control: dict[tuple[str, str], ControlRecord] = field(default_factory=dict)
    """The first control record of each topic and kind."""
    looks: list[TopicLook] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    truncations: list[Truncation] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """Next offset after the records read, per (topic, partition)."""
        return {place: read.end for place, read in self.read.items()}


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What the quarantine and the tables have of the records of a step before it runs."""

    open: Mapping[tuple[str, int], np.ndarray] = field(default_factory=dict)
    """Per (topic, partition) offsets of open records of the quarantine."""
    stored: frozenset[int] = frozenset()
    """The targets that have the step: they take nothing of it any more."""


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """The decode side of one batch as a picklable function over Spark's Arrow batches.

    ``routes`` gives the target of every known source table; None stands for a table that the rules skip. A source table
    that is missing there is reported as an observation and its rows are left for the next run of the batch.
    """

    batch_id: int
    decoder: Decoder
    routes: Mapping[SourceTable, int | None]
    decode_targets: Mapping[SourceTable, Goal]
    targets: tuple[Routing, ...]
    slots: int
    quarantine: Quarantine | None
    """None, or one that takes no bad record: one stops the pipeline, the driver reports the first."""
    spool: Spool | None = None
    """Where large blobs go; None: through the shuffle."""
    notes_gaps: bool = False
    """Whether the reports say which offsets were not there."""
    passed_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics whose bad records without a source table others meet, and as what they count (in ``DecodeCounts``)."""
    read_again: ReadAgain = field(default_factory=ReadAgain)
    formats: TopicFormats = field(default_factory=TopicFormats)
    event_times: EventTimeColumns = field(default_factory=EventTimeColumns)

    @property
    def schema_ids(self) -> tuple[int, ...]:
        """The schema versions of the targets."""
        return tuple(target.schema.id for target in self.targets)

    @property
    def floors(self) -> tuple[Mapping[tuple[str, int], int], ...]:
        """Up to which offsets each target has all rows."""
        return tuple(target.floors for target in self.targets)

    @property
    def lanes(self) -> tuple[LaneSplit, ...]:
        """How the rows of each target are shared among the write tasks."""
        return tuple(target.lanes for target in self.targets)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = DecodeReport()
        asked_at = time.perf_counter()
        for batch in batches:
            _add(report.seconds, "read", time.perf_counter() - asked_at)
            if batch.num_rows:
                blobs = list(self._blobs(batch, report))
                if blobs:
                    yield to_record_batch(blobs if self.spool is None else self.spool.put(blobs))
            asked_at = time.perf_counter()
        yield to_record_batch([report_blob(report, slot_keys(self.slots)[0])])

    def _blobs(self, batch: pa.RecordBatch, report: DecodeReport) -> Iterator[Blob]:
        started = time.perf_counter()
        report.record_count += batch.num_rows
        if self.notes_gaps:
            _note_gaps(batch, report)
        _note_read(batch, report)
        batch, malformed = without_malformed(batch)
        decoded = decode_by_age(decoder_under(self.decoder, self.formats), batch, self.decode_targets)
        decoded_at = time.perf_counter()
        report.observations.extend(decoded.observations)
        for row in decoded.newest:
            known = report.newest.get((row.source, row.partition))
            if known is None or known.offset < row.offset:
                report.newest[row.source, row.partition] = row
        for first in decoded.control:
            report.control.setdefault((first.topic, first.kind), first)
        report.looks.extend(decoded.looks)
        report.refusals.extend(decoded.refusals)
        report.truncations.extend(decoded.truncations)
        report.counts += decoded.counts + DecodeCounts(quarantined=len(malformed))
        bad = (*malformed, *decoded.quarantine)
        if bad and (self.read_again.stored or any(target.floors for target in self.targets)):
            new = tuple(row for row in bad if not self._is_told_before(row))
            before = len(bad) - len(new)
            report.counts += DecodeCounts(quarantined=-before, already_stored=before)
            bad = new
        if self.passed_topics:
            passed = Counter(self.passed_topics[row.topic] for row in bad if self._is_passed(row))
            report.counts += DecodeCounts(quarantined=-passed.total(), **passed)
            bad = tuple(row for row in bad if not self._is_passed(row))
        self._to_quarantine(bad, report)
        for change in decoded.changes:
            index = self.routes[change.source]
            if index is None:
                continue
            origin = Origin(change.source.topic, change.partition)
            stored_before = _records_below(
                self.targets[index].floors.get((origin.topic, origin.partition)), change.rows
            )
            report.counts += DecodeCounts(with_rows=-stored_before, already_stored=stored_before)
            taken = _record_count(change.rows)
            report.taken[change.source] += taken
            report.events[index] += taken - stored_before
            self._note_good(batch, change, index, report)
            table = self.targets[index]
            kept = self._behind_truncate(change, index, stored_before, report)
            report.moved_count += _moved_count(kept)
            if not kept.num_rows:
                continue
            newest_ms = self.event_times.newest_ms(index, kept)
            if newest_ms is not None:
                at = index, origin.topic, origin.partition
                report.event_times_ms[at] = max(newest_ms, report.event_times_ms.get(at, newest_ms))
            versions = [name for name in table.options.sequence_fields if name != POSITION]
            rows = without_sequence_of_deletes(kept, versions, table.schema.primary_keys)
            yield from route(rows, index, self.targets[index], origin, self.slots)
        routed_at = time.perf_counter()
        _add(report.seconds, "decode", decoded_at - started)
        _add(report.seconds, "route", routed_at - decoded_at)

    def _behind_truncate(self, change: ChangeBatch, index: int, stored_before: int, report: DecodeReport) -> pa.Table:
        """The rows without those that the newest TRUNCATE of the batch has taken away."""
        cut = self.targets[index].cuts.get((change.source.topic, change.partition))
        gone = max(0, _records_below(cut, change.rows) - stored_before)
        if cut is None or not gone:
            return change.rows
        report.counts += DecodeCounts(with_rows=-gone, truncates=gone)
        report.events[index] -= gone
        return change.rows.filter(pc.greater_equal(change.rows.column(OFFSET_COLUMN), cut))

    def _is_told_before(self, row: QuarantineRow) -> bool:
        """Whether an earlier run, or an earlier checkpoint, has dealt with a record that is bad now.

        Its table has passed it, or has the step: then the record is in the quarantine, was mended and applied since, or
        was good then. One that names no source table was put aside when the stream passed it, whatever table tells of
        that.
        """
        topic, place = row.topic, (row.topic, row.partition)
        fed = [self.routes.get(row.source)] if row.source else [i for s, i in self.routes.items() if s.topic == topic]
        known = [index for index in fed if index is not None]
        if any(row.offset < self.targets[index].floors.get(place, 0) for index in known):
            return True
        return bool(known) and all(index in self.read_again.stored for index in known)

    def _is_passed(self, row: QuarantineRow) -> bool:
        return row.source is None and row.topic in self.passed_topics

    def _note_good(self, batch: pa.RecordBatch, change: ChangeBatch, index: int, report: DecodeReport) -> None:
        """Note records that come into a table and that may be open in the quarantine."""
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


def _place(row: QuarantineRow) -> RecordAt:
    return row.topic, row.partition, row.offset, row.timestamp_ms


def _moved_count(rows: pa.Table) -> int:
    """Rows that need values of the row that a key change took away."""
    if OTHER_KEY not in rows.column_names:
        return 0
    deletes = pc.equal(rows.column(VALUE_KIND), RowKind.DELETE)
    count: int | None = pc.sum(pc.and_(pc.invert(deletes), pc.is_valid(rows.column(OTHER_KEY)))).as_py()
    return count or 0


_VALUES = re.compile(
    r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$)|\b(?:true|false)\b"""
    r"""|(?P<name>[^\W\d][\w./-]*|/[\w./-]+)|[-+]?\d[\d.:eETZ+-]*""",
    re.DOTALL,
)
"""Texts in quotes, whatever they hold and also without an end, truth values, numbers. Names and paths are no values:
the digits in them belong to a table, a topic or a file.
"""

_PLACE = re.compile(r"^byte \d+ of .*?: ")
"""Where a line of a dump stands: a long path would leave no room for what is wrong with it."""

_KIND_LENGTH = 80


def kind_of_reason(reason: str) -> str:
    """The reason of one record without values of it; alike for records of the same kind."""
    kind = _VALUES.sub(lambda found: found["name"] or "...", _PLACE.sub("byte ...: ", reason))
    return kind if len(kind) <= _KIND_LENGTH else kind[: _KIND_LENGTH - 3] + "..."


def _records_below(floor: int | None, rows: pa.Table) -> int:
    """Of how many records below the offset ``floor`` the rows are, which lie in order of offsets."""
    if floor is None or rows.num_rows == 0 or rows.column(OFFSET_COLUMN)[0].as_py() >= floor:
        return 0
    offsets = np.asarray(rows.column(OFFSET_COLUMN))
    return len(np.unique(offsets[offsets < floor]))


def _record_count(rows: pa.Table) -> int:
    """Of how many records the rows are, which lie in order of offsets."""
    offsets = np.asarray(rows.column(OFFSET_COLUMN))
    return int(np.count_nonzero(np.diff(offsets))) + 1 if len(offsets) else 0


def _note_gaps(batch: pa.RecordBatch, report: DecodeReport) -> None:
    """Before the ends are noted: those of the batch before count."""
    places = pa.table({name: batch.column(name) for name in ("topic", "partition")})
    distinct = places.group_by(["topic", "partition"], use_threads=False).aggregate([]).to_pylist()
    all_offsets = np.asarray(batch.column("offset"))
    for place in [(row["topic"], row["partition"]) for row in distinct]:
        offsets = all_offsets
        if len(distinct) > 1:
            is_of = pc.and_(pc.equal(batch.column("topic"), place[0]), pc.equal(batch.column("partition"), place[1]))
            offsets = all_offsets[np.asarray(is_of)]
        report.begins.setdefault(place, int(offsets[0]))
        before = report.read[place].end if place in report.read else offsets[0]
        follow = np.concatenate([[before - 1], offsets])
        at = np.flatnonzero(np.diff(follow) > 1)
        report.gaps.setdefault(place, []).extend(zip((follow[at] + 1).tolist(), follow[at + 1].tolist(), strict=True))


def _note_read(batch: pa.RecordBatch, report: DecodeReport) -> None:
    columns = {name: batch.column(name) for name in ("topic", "partition", "offset")}
    # As numbers: Kafka takes times that Python has no date for.
    columns["time_us"] = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    places = pa.table(columns).group_by(["topic", "partition"], use_threads=False)
    for row in places.aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count"), ("time_us", "max")]
    ).to_pylist():
        place = (row["topic"], row["partition"])
        read = ReadOffsets(row["offset_min"], row["offset_max"] + 1, row["offset_count"])
        report.read[place] = report.read[place] + read if place in report.read else read
        if row["time_us_max"] is not None:
            report.newest_s[place] = max(report.newest_s.get(place, -math.inf), row["time_us_max"] / 1e6)


def _add(totals: dict[str, float], name: str, value: float) -> None:
    totals[name] = totals.get(name, 0.0) + value
