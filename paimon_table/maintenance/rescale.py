"""Changes the number of buckets of a table that has rows.

The order of durable steps: new files, one OVERWRITE snapshot that replaces the old ones, then the option ``bucket``. A
crash before the snapshot leaves unreferenced files. A crash after it leaves partitions with the new number under the
old option, which refuse writers. A repeated call then sets only the option. Readers always see all rows.

For dynamic buckets the option is set before the snapshot, and both after the files. Unless the option makes buckets
dynamic, Paimon's readers skip buckets by the number of buckets in each file, even -1. So files of dynamic buckets must
not exist under an option with a number; the reverse is harmless.

Concurrent commits of others are not lost: the snapshot is published only if the partitions are unchanged; changed ones
are read again. Rows that are not yet in the changelog, or not yet visible to readers, are compacted first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_table.commit.commit import TableCommit
from paimon_table.commit.overwrite import PartitionContent, contents_of
from paimon_table.data_files.key_value_file import FileNames
from paimon_table.errors import CommitConflict
from paimon_table.maintenance.compaction import Chosen, compact_pending, compacting, unseen
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.maintenance.redistribution import Redistribution, rows_to_read
from paimon_table.maintenance.rescale_rules import check_rescale, stale_partitions
from paimon_table.metadata.bucket_id import DYNAMIC, POSTPONED
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_state import BucketState, TableState
from paimon_table.options.names import BUCKET
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption

RESCALE_PROPERTY = "tidemark.rescale"
"""Snapshot property: the snapshot has the same rows as the previous one, in other buckets."""


@dataclass(slots=True)
class Rescaled:
    """The result of a rescale."""

    rewritten: set[bytes] = field(default_factory=set)
    """Partitions."""
    row_count: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    snapshot_ids: list[int] = field(default_factory=list)
    """The snapshots that the rescale published, including snapshots of compactions."""
    left: Mapping[bytes, int] = field(default_factory=dict)
    """Partitions that keep another bucket count, with this count: they take no writes until they are rescaled too."""
    option_before: int = 0


def rescale(table: Table, bucket_count: int, job: Job, chosen: Chosen | None = None) -> Rescaled:
    """Give the chosen partitions, by default all, and new partitions ``bucket_count`` buckets.

    -1 makes buckets dynamic, with index files of key hashes; to and from -1 all partitions must be chosen. -2 makes new
    rows wait in postponed buckets, in all partitions, which keep their buckets. From -2, waiting rows of all partitions
    get buckets, even of those not chosen.

    Raises CommitConflict if other writers keep committing to the partitions. No row is lost. The option stays
    unchanged, unless a partition already has the new number, or the number is -1, which is set first. Interruptions
    other than by ``job.progress`` may leave unreferenced files.
    """
    check_rescale(table, bucket_count, is_partial=chosen is not None)
    done = Rescaled(option_before=table.options.bucket)
    if bucket_count == POSTPONED:
        table.evolve([SetOption(BUCKET, str(POSTPONED))], job.environment.clock_ms())
        return done
    for _ in range(ATTEMPTS):
        table = table.refreshed()
        _replace_stale(table, bucket_count, job, chosen or _all, done)
        if table.options.bucket == bucket_count:
            state = table.state()
            done.left = {p: number for p, number in state.total_buckets.items() if number != bucket_count}
            return done
        # Writers that have not loaded the new number may create partitions with the old one, or let rows wait.
        table = _with_option(table, bucket_count, job)
    raise CommitConflict(
        f"{table.paths.root}: another job keeps changing the option 'bucket'; find and stop that job, then rescale the "
        "table again"
    )


def _with_option(table: Table, bucket_count: int, job: Job) -> Table:
    return table.evolve([SetOption(BUCKET, str(bucket_count))], job.environment.clock_ms(), rows_fit=True)


def _all(_partition: bytes) -> bool:
    return True


@dataclass(slots=True)
class _Rewritten:
    """The new files of one partition, and their source files."""

    content: PartitionContent
    messages: tuple[CommitMessage, ...]


def _replace_stale(table: Table, bucket_count: int, job: Job, chosen: Chosen, done: Rescaled) -> None:
    """Replace all stale partitions in one snapshot; rewrites partitions again if others change them."""
    commit = job.commit_to(table)
    ready: dict[bytes, _Rewritten] = {}
    try:
        for _ in range(ATTEMPTS):
            state = _settled(table, commit, bucket_count, job, chosen, done)
            stale = stale_partitions(state, bucket_count, chosen)
            _drop_outdated(table, ready, state, stale)
            _rewrite(table, state, bucket_count, job, {p: n for p, n in stale.items() if p not in ready}, ready)
            if ready and bucket_count == DYNAMIC:
                _with_option(table, bucket_count, job)
            if _is_published(commit, ready, job, done):
                return
    except BaseException:
        _remove(table, ready)
        raise
    _remove(table, ready)
    # For -1 the option is set first: readers must not search keys by hash in rows without dynamic buckets.
    is_set = bucket_count == DYNAMIC and table.refreshed().options.bucket == DYNAMIC
    option = ", but the option 'bucket' is already -1, so writers must wait until the rescale is done" if is_set else ""
    raise CommitConflict(
        f"{table.paths.root}: other writers committed during each of the {ATTEMPTS} attempts to rescale it; no row was "
        f"moved{option}. Stop the pipelines that write it, rescale it, then start them again"
    )


def _settled(
    table: Table, commit: TableCommit, bucket_count: int, job: Job, chosen: Chosen, done: Rescaled
) -> TableState:
    """The newest state, after compactions have made all rows of stale partitions visible to readers.

    Postponed rows of all partitions get buckets, because no writer may write to fixed buckets while rows wait.
    """
    for _ in range(ATTEMPTS):
        state = commit.refresh()
        if any(bucket.bucket == POSTPONED for bucket in state.files):
            given = compact_postponed(table, job, _all, new_count=bucket_count)
            done.snapshot_ids += given.snapshot_ids
            continue
        stale = stale_partitions(state, bucket_count, chosen)
        if not any(bucket.partition in stale for bucket in unseen(table, state)):
            return state
        done.snapshot_ids += compact_pending(table, job, stale.__contains__).snapshot_ids
    raise CommitConflict(
        f"{table.paths.root}: other writers are faster than the compaction before the rescale: stop the pipelines that "
        "write the table until the rescale is done"
    )


def _rewrite(
    table: Table,
    state: TableState,
    bucket_count: int,
    job: Job,
    stale: Mapping[bytes, int],
    ready: dict[bytes, _Rewritten],
) -> None:
    """Write the new files of the partitions; ``ready`` has the finished ones, even after an exception."""
    live = state.live_files()
    held: dict[bytes, dict[int, BucketState]] = {partition: {} for partition in stale}
    for bucket in live.files:
        if bucket.partition in held:
            held[bucket.partition][bucket.bucket] = live.of(bucket)
    row_count = sum(rows_to_read(held[p], number, bucket_count, table.options) for p, number in stale.items())
    job.progress.begin("rewrite", row_count)
    ctx, names = compacting(table.context), FileNames(job.environment.new_uuid())
    contents = contents_of(state, stale)
    for partition, number in stale.items():
        work = Redistribution(ctx, partition, bucket_count, job.environment, names, job.progress.advance)
        ready[partition] = _Rewritten(contents[partition], work.run(held[partition], number))


def _is_published(commit: TableCommit, ready: dict[bytes, _Rewritten], job: Job, done: Rescaled) -> bool:
    """Publish the finished partitions; False if others have changed them. After an unknown outcome, ``ready`` is
    empty."""
    if not ready:
        return True
    before, rewritten = commit.state, dict(ready)
    messages = [message for one in rewritten.values() for message in one.messages]
    read = {partition: one.content for partition, one in rewritten.items()}
    ready.clear()
    try:
        started_ms = job.environment.clock_ms()
        properties = {RESCALE_PROPERTY: "true"}
        result = commit.replace(next(job.identifiers), messages, properties, read, started_ms=started_ms)
    except CommitConflict:
        ready |= rewritten
        return False
    old = [f for bucket, files in before.files.items() if bucket.partition in read for f in files]
    new = [file for message in messages for file in message.new_files]
    done.rewritten |= set(read)
    done.row_count += sum(file.row_count for file in new)
    done.files_before += len(old)
    done.files_after += len(new)
    done.bytes_before += sum(file.file_size_bytes for file in old)
    done.bytes_after += sum(file.file_size_bytes for file in new)
    done.snapshot_ids += [] if result.overwrite is None else [result.overwrite.id]
    return True


def _drop_outdated(table: Table, ready: dict[bytes, _Rewritten], state: TableState, stale: Mapping[bytes, int]) -> None:
    present = contents_of(state, ready)
    outdated = [p for p, one in ready.items() if p not in stale or one.content != present[p]]
    _remove(table, {partition: ready.pop(partition) for partition in outdated})


def _remove(table: Table, ready: Mapping[bytes, _Rewritten]) -> None:
    for one in ready.values():
        # Unreferenced: they were never published, or the attempt was refused.
        table.context.remove_unpublished(one.messages)
