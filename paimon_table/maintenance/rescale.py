"""Changing the number of buckets of a table that holds rows.

The order of durable steps: new files, one OVERWRITE snapshot that puts them in place of the old ones, then the option
``bucket``. A crash before the snapshot leaves unreferenced files. A crash after it leaves partitions with the new
number under the old option, which refuse writers. The same call then sets only the option. Readers never see anything
but all rows.

For dynamic buckets the option comes before the snapshot, and both after the files. Readers of Paimon skip buckets by
the number of buckets in each file, also -1, unless the option says that buckets are dynamic. So files of dynamic
buckets are never there under an option with a number, while the other way round is harmless.

Rows that others commit at the same time are not lost: the snapshot is published only if the partitions are unchanged;
changed ones are read again. What compactions have not brought into the changelog yet, or not shown to readers, is
compacted before.
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
"""Snapshot property: the snapshot has the rows of the snapshot before it, in other buckets."""


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
    """Give the chosen partitions, by default all, ``bucket_count`` buckets, and new partitions as well.

    -1 makes them dynamic, and their files of key hashes; both ways all partitions are chosen.
    -2 lets rows wait in postponed buckets from now on, in all partitions; they keep the buckets that they have. The
    other way, rows that wait get buckets, in partitions that are not chosen too.

    Raises CommitConflict if other writers keep committing to the partitions. No row is lost. The option is unchanged,
    unless a partition has the new number already, or that number is -1, which is set first. Interruptions other than by
    ``job.progress`` may leave unreferenced files.
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
        # Writers that do not know of the new number yet may start partitions with the old one, or let rows wait.
        table = _with_option(table, bucket_count, job)
    raise CommitConflict(
        f"{table.paths.root}: another job keeps changing its option 'bucket'; find and stop that job, then rescale the"
        " table again"
    )


def _with_option(table: Table, bucket_count: int, job: Job) -> Table:
    return table.evolve([SetOption(BUCKET, str(bucket_count))], job.environment.clock_ms(), rows_fit=True)


def _all(_partition: bytes) -> bool:
    return True


@dataclass(slots=True)
class _Rewritten:
    """The new files of one partition, and their sources."""

    content: PartitionContent
    messages: tuple[CommitMessage, ...]


def _replace_stale(table: Table, bucket_count: int, job: Job, chosen: Chosen, done: Rescaled) -> None:
    """One snapshot for all partitions that need it; partitions that others change are rewritten again."""
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
    # The option comes first there: readers must not search keys by hash among rows without dynamic buckets.
    is_set = bucket_count == DYNAMIC and table.refreshed().options.bucket == DYNAMIC
    option = ", but its option 'bucket' is -1 already, which keeps writers out until it is done" if is_set else ""
    raise CommitConflict(
        f"{table.paths.root}: other writers committed during each of the {ATTEMPTS} attempts to rescale it; no row was "
        f"moved{option}: stop the pipelines that write it, rescale it, and start them again: they "
        "continue"
    )


def _settled(
    table: Table, commit: TableCommit, bucket_count: int, job: Job, chosen: Chosen, done: Rescaled
) -> TableState:
    """The newest state, once compactions have brought all rows of stale partitions to those who wait for them.

    Postponed rows of all partitions get buckets, chosen or not: no writer may write to fixed ones after them.
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
        f"{table.paths.root}: other writers are faster than the compaction that must precede a rescale; stop "
        "the pipelines that write it until the rescale is done"
    )


def _rewrite(
    table: Table,
    state: TableState,
    bucket_count: int,
    job: Job,
    stale: Mapping[bytes, int],
    ready: dict[bytes, _Rewritten],
) -> None:
    """Make the new files of the partitions; those that are done are in ``ready``, also after an exception."""
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
    """Publish the finished partitions; False if others have changed them. If the outcome is unknown, nothing stays
    ready."""
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
