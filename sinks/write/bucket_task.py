"""Executor side: writes the lanes that one task owns and returns commit messages, never data.

A write task receives whole lanes: every blob of a lane of one batch arrives in the same task. It restores the order of
arrival, fills values that the source left out, and gives the rows to the engine. The engine assigns buckets and writes
all rows to level 0 first, so that the driver can publish them. Compactions with the changelog follow.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from paimon_table import (
    KEPT_BYTES,
    BucketAssigner,
    BucketId,
    BucketState,
    CommitMessage,
    Lane,
    Writer,
    WriterEnvironment,
    open_assigner,
    open_writer,
)
from paimon_table.errors import MachineFailure, Outage, TidemarkError
from paimon_table.side_by_side import is_store, side_by_side, waits_at_once
from paimon_table.step_times import take_seconds
from paimon_table.storage.outages import is_of_machine, passes, storage_failure
from paimon_table.storage.private_directory import SharedDirectory
from sinks import faults
from sinks.exchange.blob import REPORT, Blob, from_record_batch
from sinks.exchange.spool import loaded
from sinks.exchange.target import Target
from sinks.write.arrived_rows import ArrivedRows
from sinks.write.departed import to_text
from sinks.write.unsent import Unsent

RESULT_DDL = "data binary"


@dataclass(frozen=True, slots=True)
class _InParallel:
    """What a task writes in parallel."""

    piece_bytes: int
    """A table with at most this many bytes of rows in one task, or of stored rows in one bucket."""
    all_bytes: int
    """The most bytes of all pieces; memory use is a few times as high."""


_ON_DISK = _InParallel(2 << 20, 16 << 20)
_IN_A_STORE = _InParallel(16 << 20, 64 << 20)
"""Larger pieces wait for a store too."""

_RESULT_SCHEMA = pa.schema([("data", pa.binary())])


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing one lane or compacting one bucket: the messages to commit, and the time of each step."""

    target: int
    messages: tuple[CommitMessage, ...]
    """One for each bucket."""
    row_count: int
    seconds: dict[str, float]
    """Seconds by name of the step."""
    unsent: Unsent = field(default_factory=dict)
    """The values that the source did not send and that no row gives for certain."""
    due: tuple[BucketId, ...] = ()
    """The buckets to compact once the messages are committed."""
    departed: str | None = None
    """The rows that moved to a key of a later batch, as the text of ``sinks.write.departed``."""


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a write task waited for its blobs."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """An error that stops a task from writing a lane or compacting a bucket, and would stop a retry too."""

    error: TidemarkError
    target: int


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The write side of one batch, picklable; ``SlotWriter`` is its share of one task."""

    batch_id: int
    targets: tuple[Target, ...]
    lookup_root: str | SharedDirectory
    """The directory of lookup files, or a function that returns it on the machine of the task."""
    in_place: bool = False
    """Whether any task may write any row, so that decode tasks write their own rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Append only, in one Spark job with the decode tasks; passes their reports through."""
        slot = SlotWriter(self, (blob for batch in batches for blob in from_record_batch(batch)))
        for result in slot.append():
            yield _result_batch(result)

    def answer(self, target_index: int, number: int, work: Callable[[], WriteResult]) -> bytes:
        """The pickled result of ``work``. For an error that concerns the table alone, a ``Failed``: the driver decides.

        Any other error is a bug, or a fault of the machine, and ends the job.
        """
        place = f"table {self.targets[target_index].identifier}, bucket {number}"
        try:
            return pickle.dumps(work())
        except Outage:
            raise
        except MachineFailure as error:
            raise error.told(f"{place}: {error}") from error
        except TidemarkError as error:
            return pickle.dumps(Failed(error.told(f"{place}: {error}"), target_index))
        except OSError as error:
            if passes(error):
                raise
            if is_of_machine(error):
                raise OSError(error.errno, f"{place}: {error.strerror}", error.filename) from error
            return pickle.dumps(Failed(storage_failure(error, f"{place}: storage does not answer"), target_index))

    def compact(self, target_index: int, bucket: BucketId, writer: Writer | None = None) -> bytes:
        """The pickled result of ``compact_bucket``; ``writer`` is the one that appended the rows, if it still
        exists."""
        result = self.answer(target_index, bucket.bucket, partial(self.compact_bucket, target_index, bucket, writer))
        faults.reached("between-compactions", self.batch_id)
        return result

    def compact_bucket(self, target_index: int, bucket: BucketId, writer: Writer | None = None) -> WriteResult:
        """Compact the existing files: level 0 by the strategy, all levels if a full compaction is due."""
        take_seconds()
        started = time.perf_counter()
        target = self.targets[target_index]
        writer = writer or self.open_writer(target, bucket)
        message = writer.compact_only(full_compact=target.compacts_fully)
        return WriteResult(target_index, (message,), 0, _steps(started))

    def environment(self) -> WriterEnvironment:
        """The facts about the task's machine that writers need."""
        root = self.lookup_root
        return WriterEnvironment(root if isinstance(root, str) else root.path())

    def open_writer(self, target: Target, bucket: BucketId) -> Writer:
        return open_writer(target.context, bucket, target.live.of(bucket), self.environment())


class _Opened:
    """The state that the lanes of one table share in a task; the first lane creates it."""

    def __init__(self) -> None:
        self._made: tuple[ArrivedRows, BucketAssigner] | None = None

    def of(
        self, target: Target, lanes: Mapping[Lane, list[Blob]], environment: WriterEnvironment
    ) -> tuple[ArrivedRows, BucketAssigner]:
        if self._made is None:
            assigner = open_assigner(target.context, target.live, environment)
            self._made = ArrivedRows(target, lanes, assigner, environment), assigner
        return self._made


@dataclass(frozen=True, slots=True)
class _Due:
    """A bucket to compact, and the writer that appended to it, if there is one."""

    target: int
    bucket: BucketId
    stored_bytes: int
    """The size of its files."""
    writer: Writer | None = None
    compacted_bytes: int = 0
    """Size of the files that the compaction takes first."""


class SlotWriter:
    """The lanes of one write task: ``append``, then ``compact``; both give pickled results."""

    def __init__(self, task: WriteTask, blobs: Iterable[Blob]) -> None:
        self._task = task
        self._blobs = blobs
        self._due: list[_Due] = []
        self._kept_bytes = 0
        self._row_counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    def append(self) -> Iterator[bytes]:
        """Write the rows of the blobs to level 0. The results follow the reports among the blobs.

        Tables with few rows are written in parallel, each by one thread.
        """
        started = time.perf_counter()
        arrived: defaultdict[int, defaultdict[Lane, list[Blob]]] = defaultdict(lambda: defaultdict(list))
        sizes: Counter[int] = Counter()
        for blob in loaded(self._blobs):
            if blob.target == REPORT:
                yield bytes(blob.data)
            elif not self._task.targets[blob.target].is_appended:
                arrived[blob.target][blob.lane].append(blob)
                sizes[blob.target] += len(blob.data)
        faults.reached("after-decode", self._task.batch_id)
        yield pickle.dumps(Waited(time.perf_counter() - started))
        environment = self._task.environment()
        small = [index for index in arrived if sizes[index] <= _in_parallel(self._task).piece_bytes]
        with side_by_side(_at_once(self._task, [sizes[index] for index in small])) as start:
            begun = [start(partial(self._append_small, index, arrived[index], environment)) for index in small]
            for appended in begun:
                yield from appended.result()
        for index, lanes in arrived.items():
            if index not in small:
                yield from self._append_table(index, lanes, environment)

    def _append_small(
        self, target_index: int, lanes: Mapping[Lane, list[Blob]], environment: WriterEnvironment
    ) -> list[bytes]:
        return list(self._append_table(target_index, lanes, environment))

    def _append_table(
        self, target_index: int, lanes: Mapping[Lane, list[Blob]], environment: WriterEnvironment
    ) -> Iterator[bytes]:
        opened = _Opened()
        for lane in lanes:
            work = partial(self._append_lane, target_index, lane, lanes, opened, environment)
            yield self._task.answer(target_index, lane.number, work)
            faults.reached("between-data-files", self._task.batch_id)

    def _append_lane(
        self,
        target_index: int,
        lane: Lane,
        lanes: Mapping[Lane, list[Blob]],
        opened: _Opened,
        environment: WriterEnvironment,
    ) -> WriteResult:
        take_seconds()
        started = time.perf_counter()
        target = self._task.targets[target_index]
        arrived, assigner = opened.of(target, lanes, environment)
        filled = arrived.filled(lane)
        messages, due = [], []
        for bucket, rows in assigner.assign(lane, filled.rows):
            noted = assigner.prepare_append(bucket)
            message, is_due = self._append_bucket(target_index, bucket, rows)
            messages.append(replace(message, append_index=noted))
            if is_due:
                due.append(bucket)
        for bucket, change in assigner.prepare_others(lane):
            total = target.context.options.bucket
            messages.append(CommitMessage(bucket=bucket, total_buckets=total, append_index=change))
            target.context.io.sync()
        assigner.appended(messages)
        row_count = filled.rows.num_rows
        departed = None if filled.departed is None else to_text(filled.departed, target.context.schema)
        steps = _steps(started)
        return WriteResult(target_index, tuple(messages), row_count, steps, filled.unsent, tuple(due), departed)

    def _append_bucket(self, target_index: int, bucket: BucketId, rows: pa.Table) -> tuple[CommitMessage, bool]:
        """The message, and whether to compact the bucket."""
        target = self._task.targets[target_index]
        state = target.live.of(bucket)
        writer = open_writer(target.context, bucket, state, self._task.environment())
        writer.write(rows)
        message = writer.prepare_append()
        due_bytes = writer.bytes_to_compact(target.compacts_fully)
        with self._lock:
            self._row_counts[target_index] += rows.num_rows
            if due_bytes:
                self._keep(_Due(target_index, bucket, _size_bytes(state) + rows.nbytes, writer, due_bytes), writer)
        return message, due_bytes > 0

    def _keep(self, due: _Due, writer: Writer) -> None:
        if self._kept_bytes + writer.kept_bytes > KEPT_BYTES:
            writer.release_memory()
        self._kept_bytes += writer.kept_bytes
        self._due.append(due)

    def leave_large(self, most_bytes: float) -> list[tuple[int, BucketId]]:
        """The due (target index, bucket) pairs whose compaction takes more bytes; ``compact`` then leaves them out."""
        large = [(each.target, each.bucket) for each in self._due if each.compacted_bytes > most_bytes]
        self._due = [each for each in self._due if each.compacted_bytes <= most_bytes]
        return large

    def compact(self) -> Iterator[bytes]:
        """Run the compactions that the appended rows made due. Commit their messages after those of the rows.

        Tables with few new rows come first, so that their compactions finish before the compaction of a hot bucket.
        """
        due, self._due = self._due, []
        due.sort(key=lambda each: self._row_counts[each.target])
        return _compacted(self._task, due)


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Compaction of committed files, as a picklable function from (target index, bucket) pairs to pickled results."""

    write: WriteTask

    def __call__(self, buckets: Iterable[tuple[int, BucketId]]) -> Iterator[bytes]:
        targets = self.write.targets
        due = [_Due(index, bucket, _size_bytes(targets[index].live.of(bucket))) for index, bucket in buckets]
        yield from _compacted(self.write, due)


def _compacted(task: WriteTask, due: list[_Due]) -> Iterator[bytes]:
    """The results of compactions, each when it is done: small buckets in parallel, the others in their order.

    Empties ``due``, so that each compaction frees the rows of its writer.
    """
    most_bytes = _in_parallel(task).piece_bytes
    small = [each for each in due if each.stored_bytes <= most_bytes]
    large = [each for each in due if each.stored_bytes > most_bytes]
    due.clear()
    with side_by_side(_at_once(task, [each.stored_bytes for each in small])) as start:
        begun = [start(partial(task.compact, each.target, each.bucket, each.writer)) for each in small]
        small.clear()
        for compacted in begun:
            yield compacted.result()
    while large:
        each = large.pop(0)
        yield task.compact(each.target, each.bucket, each.writer)


def _at_once(task: WriteTask, sizes: Sequence[int]) -> int:
    """How many pieces of work of these sizes may run in parallel, whichever pieces coincide."""
    if faults.is_wanted() or len(sizes) < 2:
        return 1
    fitting = _in_parallel(task).all_bytes // max(1, *sizes)
    return min(len(sizes), fitting, waits_at_once(_root(task)))


def _in_parallel(task: WriteTask) -> _InParallel:
    return _IN_A_STORE if is_store(_root(task)) else _ON_DISK


def _root(task: WriteTask) -> str:
    return task.targets[0].context.paths.root


def _size_bytes(state: BucketState) -> int:
    return sum(file.file_size_bytes for file in state.files)


def _steps(started: float) -> dict[str, float]:
    """Seconds since ``started`` per step, as the engine measured them; the rest is merging, reading and sorting."""
    steps = take_seconds()
    return {"merge": time.perf_counter() - started - sum(steps.values()), **steps}


def _result_batch(result: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], schema=_RESULT_SCHEMA)
