"""Executor side: write the buckets that one task owns and return commit messages, never data.

A task receives whole buckets: every blob of a bucket of one batch arrives in the same task. It restores the order of
arrival, fills values that the source left out, and hands the rows to the engine's bucket writer.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from paimon_table.bucket_writer import BucketWriter, WriterEnvironment
from paimon_table.data_file import BucketId, CommitMessage
from paimon_table.errors import ConfigError, CorruptFile, MalformedRecord
from paimon_table.step_times import take_seconds
from sinks import faults
from sinks.arrived_rows import ArrivedRows
from sinks.blob import REPORT, Blob, from_record_batch
from sinks.spool import loaded
from sinks.target import Target

RESULT_DDL = "data binary"
_RESULT_SCHEMA = pa.schema([("data", pa.binary())])


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What writing one bucket brought: the message to commit, and where the time went (seconds per named step)."""

    target: int
    message: CommitMessage
    row_count: int
    seconds: dict[str, float]
    unknown_count: int = 0
    """Values that the source left out and nobody knows; NULL was written."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The write side of one batch as a picklable function from Arrow batches of blobs to pickled results."""

    batch_id: int
    targets: tuple[Target, ...]
    lookup_root: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in self.results(blob for batch in batches for blob in from_record_batch(batch)):
            yield _result_batch(result)

    def results(self, blobs: Iterable[Blob]) -> Iterator[bytes]:
        """Write the buckets of the blobs; the pickled results, after the reports that came with the blobs."""
        started = time.perf_counter()
        arrived: defaultdict[int, defaultdict[BucketId, list[Blob]]] = defaultdict(lambda: defaultdict(list))
        for blob in loaded(blobs):
            if blob.target == REPORT:
                yield bytes(blob.data)
            else:
                arrived[blob.target][blob.bucket].append(blob)
        faults.reached("after-decode", self.batch_id)
        yield pickle.dumps({"shuffle": time.perf_counter() - started})
        for target, buckets in arrived.items():
            rows = ArrivedRows(self.targets[target], buckets, self.open_writer)
            for bucket in buckets:
                write = partial(self.write_bucket, target, bucket, rows)
                yield self.answer(target, bucket, write)
                faults.reached("between-data-files", self.batch_id)

    def answer(self, target_index: int, bucket: BucketId, work: Callable[[], BucketResult]) -> bytes:
        """The pickled result of ``work``, or the error that it would end with again: Spark need not retry that."""
        try:
            return pickle.dumps(work())
        except (ConfigError, CorruptFile, MalformedRecord) as error:
            place = f"table {self.targets[target_index].identifier}, bucket {bucket.bucket}"
            return pickle.dumps(type(error)(f"{place}: {error}"))

    def write_bucket(self, target_index: int, bucket: BucketId, arrived: ArrivedRows) -> BucketResult:
        """Merge the changes of one bucket into its files."""
        take_seconds()
        started = time.perf_counter()
        writer = self.open_writer(self.targets[target_index], bucket)
        filled = arrived.filled(bucket)
        writer.write(filled.rows)
        message = writer.prepare_commit(full_compact=self.targets[target_index].compacts_fully)
        return BucketResult(target_index, message, filled.rows.num_rows, _steps(started), filled.unknown_count)

    def compact_bucket(self, target_index: int, bucket: BucketId) -> BucketResult:
        """Compact what is stored: level-0 files that an interrupted run left, everything where that is due."""
        take_seconds()
        started = time.perf_counter()
        target = self.targets[target_index]
        message = self.open_writer(target, bucket).compact_only(full_compact=target.compacts_fully)
        return BucketResult(target_index, message, 0, _steps(started))

    def open_writer(self, target: Target, bucket: BucketId) -> BucketWriter:
        environment = WriterEnvironment(
            lookup_dir=self.lookup_root,
            new_uuid=lambda: str(uuid.uuid4()),
            clock_ms=lambda: time.time_ns() // 1_000_000,
        )
        deletion_files = target.deletion_files.get(bucket, ())
        return BucketWriter(
            target.context,
            bucket,
            target.files.get(bucket, ()),
            environment,
            deletion_files,
            target.partition_buckets.get(bucket.partition),
        )


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Compaction without new rows, of (target, bucket) pairs given as pickled requests in a ``data`` column."""

    write: WriteTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for request in batch.column("data").to_pylist():
                target, bucket = pickle.loads(request)
                compact = partial(self.write.compact_bucket, target, bucket)
                yield _result_batch(self.write.answer(target, bucket, compact))


def _steps(started: float) -> dict[str, float]:
    """Seconds since ``started`` per step: what the engine measured, the rest is merging (with reading and sorting)."""
    steps = take_seconds()
    return {"merge": time.perf_counter() - started - sum(steps.values()), **steps}


def _result_batch(result: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], schema=_RESULT_SCHEMA)
