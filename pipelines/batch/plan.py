"""The plan of one batch: everything that its tasks need, as one picklable value made on the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from paimon_table import BucketId
from paimon_table.side_by_side import all_done, waits_at_once
from paimon_table.storage.private_directory import SharedDirectory
from paimon_table.surroundings import now_ms
from pipelines.bad_records.facts import OpenOffsets
from pipelines.bad_records.log import QuarantineLog
from pipelines.batch.decode_task import DecodeTask, ReadAgain
from pipelines.batch.event_times import EventTimeColumns
from pipelines.tables.table_failure import blaming
from pipelines.tables.tables import PipelineTables
from sinks.commit.table_sink import TableSink
from sinks.exchange.spool import Spool
from sinks.exchange.target import Target
from sinks.quarantine import Quarantine
from sinks.write.bucket_task import WriteTask
from sources.changes import SourceTable
from sources.decode_target import Decoder, TopicFormats


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The settings that are the same for every batch of a pipeline."""

    decoder: Decoder
    slots: int
    """Number of write tasks; a bucket belongs to exactly one."""
    lookup_root: str | SharedDirectory
    """Directory on the executors' local disks for lookup files."""
    quarantine: Quarantine | None
    spool: Spool | None = None
    """Directory in which large blobs wait for their write task; None: they are in Spark's shuffle."""
    notes_gaps: bool = False
    """Whether decode tasks report missing offsets."""
    log: QuarantineLog | None = None
    """The facts about bad records; None: those next to the directory of ``quarantine``, read again for each step."""
    reads_again: Callable[[bool], OpenOffsets] | None = None
    """Returns the open records that the next step may read again; the argument: whether it is the first run."""
    topic_ids: Callable[[], Mapping[str, str]] = dict
    """Returns the topics that are read, by name with their ids."""
    rebuild: str = ""
    """The rebuild that the steps belong to."""
    read_again: ReadAgain = field(default_factory=ReadAgain)
    """Of the step that runs."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One micro-batch: Spark's number, and the time (ms) at which Spark first planned it; None when unknown."""

    id: int
    started_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The tasks of one batch, and the target tables in the order of their indices."""

    batch: BatchRun
    identifiers: tuple[str, ...]
    decode: DecodeTask
    write: WriteTask
    pending: Mapping[int, tuple[BucketId, ...]]
    """Per target index: buckets that this batch must compact even if no rows arrive for them."""
    routes: Mapping[SourceTable, str | None]

    def compactions_without_rows(self, written: Collection[tuple[int, BucketId]]) -> list[tuple[int, BucketId]]:
        """The pending (target index, bucket) pairs except those that were ``written``, and therefore already compacted.

        If several tasks write one bucket, no task compacts it.
        """
        due = [(index, bucket) for index, buckets in self.pending.items() for bucket in buckets]
        shared = {index for index, target in enumerate(self.decode.targets) if target.options.is_unaware}
        return [one for one in due if one not in written or one[0] in shared]


def plan_batch(tables: PipelineTables, batch: BatchRun, settings: TaskSettings) -> BatchPlan:
    """Plan ``batch`` against the newest state of every known table."""
    planned = _planned_tables(tables, batch)
    in_place = writes_in_place(tables)
    write = WriteTask(batch.id, tuple(target for target, _ in planned), settings.lookup_root, in_place)
    pending = {index: buckets for index, (_, buckets) in enumerate(planned) if buckets}
    if tables.truncates.any:
        write, pending = _behind_truncates(tables, write, pending)
    return BatchPlan(
        batch,
        tuple(tables.sinks),
        plan_decode(tables, batch, replace(settings, slots=1) if in_place else settings),
        write,
        pending,
        dict(tables.routes),
    )


def writes_in_place(tables: PipelineTables) -> bool:
    """Whether decode tasks write the rows that they decode: any task may write rows of any table."""
    return bool(tables.sinks) and all(sink.table.options.is_unaware for sink in tables.sinks.values())


def _behind_truncates(
    tables: PipelineTables, write: WriteTask, pending: Mapping[int, tuple[BucketId, ...]]
) -> tuple[WriteTask, dict[int, tuple[BucketId, ...]]]:
    """The write side after tables with a truncated source are emptied, and the buckets to compact."""
    targets, environment, due = [], write.environment(), dict(pending)
    for index, (sink, target) in enumerate(zip(tables.sinks.values(), write.targets, strict=True)):
        with blaming(sink.identifier):
            targets.append(tables.truncates.planned(sink, target, environment))
        emptied = tables.truncates.due(sink.identifier)
        if emptied:
            due[index] = tuple(dict.fromkeys((*due.get(index, ()), *emptied)))
    return replace(write, targets=tuple(targets)), due


def plan_decode(tables: PipelineTables, batch: BatchRun, settings: TaskSettings) -> DecodeTask:
    """The decode side of ``batch`` with the known tables; sends no request to the storage."""
    paused = tables.paused
    index_of = {name: None if name in paused else i for i, name in enumerate(tables.sinks)}
    return DecodeTask(
        batch.id,
        settings.decoder,
        {source: None if name is None else index_of.get(name) for source, name in tables.routes.items()},
        tables.decode_targets(),
        tuple(tables.truncates.routed(name, sink.routing()) for name, sink in tables.sinks.items()),
        settings.slots,
        settings.quarantine,
        settings.spool,
        settings.notes_gaps,
        tables.paused_topics,
        settings.read_again,
        TopicFormats(tables.formats, tables.earlier_formats),
        EventTimeColumns(tables.event_time_columns, now_ms()),
    )


def plan_write(tables: PipelineTables, batch: BatchRun, settings: TaskSettings) -> WriteTask:
    """The write side of ``batch`` against the newest state of its tables."""
    targets = tuple(target for target, _ in _planned_tables(tables, batch))
    return WriteTask(batch.id, targets, settings.lookup_root)


def _planned_tables(tables: PipelineTables, batch: BatchRun) -> list[tuple[Target, tuple[BucketId, ...]]]:
    """Every table at its newest state, and the buckets to compact even if no rows arrive for them."""
    paused = tables.paused
    looks = [partial(_planned, tables, sink, batch, is_paused=name in paused) for name, sink in tables.sinks.items()]
    return [look.result() for look in all_done(looks, waits_at_once(tables.config.catalog.address))]


def _planned(
    tables: PipelineTables, sink: TableSink, batch: BatchRun, *, is_paused: bool
) -> tuple[Target, tuple[BucketId, ...]]:
    if is_paused:
        return sink.idle_target(), ()
    with blaming(sink.identifier):
        sink.refresh()
        target = tables.with_history(sink.target(batch.id, batch.started_ms))
        return target, sink.pending_compactions(batch.id, batch.started_ms)
