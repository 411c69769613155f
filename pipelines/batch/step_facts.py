"""The facts of a step: before its first commit, its bad records; after it, the open records that tables have now.

Every step does the same: a batch of the stream, a slice of a catch-up, a replay or a rebuild, a slice of a retry. Tasks
write bad records into files, which do not count as facts yet. ``seal`` makes them facts in one write, before the step
commits. A step that is killed before ``seal``, or refused for too many bad records, has noted nothing. A step that runs
again seals the same facts for the same places.

If a table has passed a record, the step notes nothing about the record. If an open record comes into a table, ``seal``
names it too, and ``applied`` notes the snapshot once the table is committed. If the process is killed in between, the
next process finds the commit by the seal (``facts.settle``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from paimon_table import Catalog, Snapshot
from paimon_table.side_by_side import all_done, waits_at_once
from pipelines.bad_records.facts import OpenOffsets, TableJudge, evidence_of, facts_of, found_commit, settle
from pipelines.bad_records.log import Applied, Place, QuarantineLog, Sealed, stretches
from pipelines.batch.decode_report import DecodeReport, RecordAt
from pipelines.batch.decode_task import ReadAgain
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.storage import catalog_of
from pipelines.tables.table_failure import blaming
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.table_sink import TableSink
from sinks.quarantine import Quarantine


@dataclass(slots=True)
class StepFacts:
    """The facts of one run of a step; on the driver. Without a quarantine there are none."""

    batch: BatchRun
    tables: PipelineTables
    quarantine: Quarantine | None
    """For the tasks of this run."""
    log: QuarantineLog | None
    rebuild: str
    topic_ids: Mapping[str, str]
    read_again: ReadAgain
    sealed: Sealed | None = None

    def seal(self, reports: Sequence[DecodeReport]) -> None:
        """Make the findings of the tasks facts, durably, if they have read a bad record or one that was bad."""
        log, quarantine = self.log, self.quarantine
        if log is None or quarantine is None:
            return
        ids = self.topic_ids
        bad = {name: stretches(_placed(of, ids)) for report in reports for name, of in report.bad_files}
        good = self._good(log, reports)
        if bad or good:
            self.sealed = Sealed(
                step=quarantine.step(self.batch.id),
                user=self.tables.commit_user,
                number=self.batch.id,
                since_ms=self.batch.started_ms,
                rebuild=self.rebuild,
                bad=bad,
                good={table: stretches(places) for table, places in good.items()},
            )
            log.append(self.sealed)
            faults.reached("bad-records-sealed", self.batch.id)

    def discard(self, reports: Iterable[DecodeReport]) -> None:
        """Remove the files of tasks that were not sealed."""
        if self.quarantine is not None and self.sealed is None:
            directory = self.quarantine.directory(self.batch.id)
            self.quarantine.io.delete_all([f"{directory}/{name}" for report in reports for name, _ in report.bad_files])

    def applied(self, snapshots: Mapping[str, Sequence[Snapshot]]) -> None:
        """Note which records tables have, once the step is committed; ``snapshots`` are the step's snapshots."""
        if self.log is None or self.sealed is None or self.rebuild:
            return
        for table, places in self.sealed.good.items():
            of_table, published = self.tables.sinks[table].table, snapshots.get(table)
            snapshot = published[0] if published else found_commit(of_table, self.sealed)
            if snapshot is not None:
                evidence = evidence_of(table, of_table, snapshot)
                self.log.append(Applied(by=self.sealed.step, evidence=evidence, places=places))

    def _good(self, log: QuarantineLog, reports: Sequence[DecodeReport]) -> Mapping[str, set[Place]]:
        """By table the records that come into it and that are open."""
        if not any(report.good for report in reports):
            return {}
        names, found = tuple(self.tables.sinks), defaultdict[str, set[Place]](set)
        log.refresh()
        facts = facts_of(log, TableJudge(catalog_of(self.tables.config)))
        for report in reports:
            for index, records in report.good.items():
                for topic, partition, offset, ts in records:
                    at = facts.at(Place(topic, "", partition, offset, ts), self.topic_ids)
                    if at is not None:
                        found[names[index]].add(facts.place(at))
        return found


def step_facts(settings: TaskSettings, batch: BatchRun, tables: PipelineTables, *, is_first: bool) -> StepFacts:
    """The facts of one run of a step; ``is_first``: this process has not run the step before.

    Asks the storage whether tables have the step already, if an earlier run, in this process or an earlier one, may
    have committed it.
    """
    quarantine, log = settings.quarantine, settings.log
    if quarantine is None:
        return StepFacts(batch, tables, None, None, "", {}, ReadAgain({}, _stored(batch, tables, asks=not is_first)))
    log = log or QuarantineLog(quarantine.io, quarantine.root)
    step = quarantine.step(batch.id)
    before = log.last_sealed(step)
    log.remove_unsealed(step)
    if before is not None and before.good:
        settle(log, TableJudge(catalog_of(tables.config)))
    offsets = {} if settings.reads_again is None else settings.reads_again(is_first)
    stored = _stored(batch, tables, asks=bool(offsets) or not is_first or before is not None)
    of_run = replace(quarantine, run=uuid4().hex[:8])
    return StepFacts(batch, tables, of_run, log, settings.rebuild, settings.topic_ids(), ReadAgain(offsets, stored))


def _stored(batch: BatchRun, tables: PipelineTables, *, asks: bool) -> frozenset[int]:
    """The targets that have the step, by its number. For other targets the floors show what they have (E3)."""

    def is_stored(name: str, sink: TableSink) -> bool:
        with blaming(name):
            return sink.is_appended(batch.id, batch.started_ms)

    looks: dict[int, Callable[[], bool]] = {}
    for index, (name, sink) in enumerate(tables.sinks.items()):
        may_be_there = (asks or sink.found_batch >= batch.id) and not sink.drops_by_offset
        if may_be_there and not tables.is_paused(name):
            looks[index] = partial(is_stored, name, sink)
    found = all_done(looks.values(), waits_at_once(tables.config.catalog.address))
    return frozenset(index for index, look in zip(looks, found, strict=True) if look.result())


def _placed(records: Iterable[RecordAt], ids: Mapping[str, str]) -> Iterable[Place]:
    return (Place(topic, ids.get(topic, ""), partition, offset, ts) for topic, partition, offset, ts in records)


@dataclass(frozen=True, slots=True)
class AllOpen:
    """The open records, for steps that may read any open record again: slices of tables and of replays."""

    log: QuarantineLog
    catalog: Catalog
    topic_ids: Callable[[], Mapping[str, str]] = dict

    def __call__(self, _is_first: bool) -> OpenOffsets:
        self.log.refresh()
        return facts_of(self.log, TableJudge(self.catalog)).offsets(self.topic_ids())


class AheadOfStream:
    """The open records that the stream has still to read: of an earlier checkpoint, or of a batch that runs again.

    Searched for at the first batch and when a batch runs again; usually there are none. For dump files all open
    records count, because their order is unknown.
    """

    def __init__(self, opened: AllOpen, checkpoint: Checkpoint, *, reads_kafka: bool) -> None:
        self._opened = opened
        self._checkpoint = checkpoint
        self._reads_kafka = reads_kafka
        self._left: OpenOffsets | None = None

    def __call__(self, is_first: bool) -> OpenOffsets:
        places = self._opened(is_first) if self._left is None or not is_first else self._left
        ends = self._checkpoint.kafka_positions() if places and self._reads_kafka else None
        if ends is not None:
            ahead = {place: offsets[offsets >= ends.get(place, 0)] for place, offsets in places.items()}
            places = {place: offsets for place, offsets in ahead.items() if len(offsets)}
        self._left = places
        return places
