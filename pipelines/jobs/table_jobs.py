"""The code of `tidemark table analyze` and other jobs of one table; ``job_commands`` has the arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from paimon_table import DYNAMIC, POSTPONED, BucketId, DataFileMeta, Table
from paimon_table.errors import ConfigError
from paimon_table.maintenance.analysis import analyze as analyze_table
from paimon_table.maintenance.compaction import Chosen, would_compact
from paimon_table.maintenance.compaction import compact as compact_table
from paimon_table.maintenance.partitions import PartitionFacts, drop_partitions, partition_facts
from paimon_table.maintenance.partitions import truncate as truncate_table
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.maintenance.rescale import Rescaled
from paimon_table.maintenance.rescale import rescale as rescale_table
from paimon_table.maintenance.rescale_rules import check_rescale
from paimon_table.maintenance.sorting import checked_columns
from paimon_table.maintenance.sorting import sort as sort_table
from pipelines.inspect.table_views import Options, open_table
from pipelines.jobs.consent import confirm
from pipelines.jobs.job_progress import new_job, watched
from pipelines.jobs.partition_spec import named_partitions, told_partition
from pipelines.report.say import say
from sinks.commit.pipeline_mark import marking_pipelines
from sources.wording import counted, first_of

_LISTED = 20

Specs = Sequence[str] | None
"""Partitions as named on the command line; None or an empty list: all partitions."""


def compact(path: str, full: bool, specs: Specs, dry_run: bool, storage: Options) -> None:
    """Compact the buckets of the partitions."""
    table = open_table(path, storage, for_reading=False)
    chosen = _chosen(table, specs)
    if dry_run:
        tell_due(table, would_compact(table, new_job(), chosen, fully=full))
        return
    with watched() as progress:
        job = new_job(progress)
        given = compact_postponed(table, job, chosen, fully=full)
        done = compact_table(table, job, chosen, fully=full)
    if given.snapshot_ids:
        say(
            f"postponed rows got their buckets: {_sizes(given.files_before, given.bytes_before)} -> "
            f"{_sizes(given.files_after, given.bytes_after)}, {_snapshots(given.snapshot_ids)}"
        )
    if not done.snapshot_ids:
        say("nothing else to compact" if given.snapshot_ids else "nothing to compact")
        return
    say(
        f"compacted {counted(done.buckets, 'bucket')}: {_sizes(done.files_before, done.bytes_before)} -> "
        f"{_sizes(done.files_after, done.bytes_after)}, {_snapshots(done.snapshot_ids)}"
    )


def compact_fully(table: Table) -> str:
    """Give postponed rows their buckets and merge all files of each bucket; the result in words.

    Shows no progress. Pipelines may write at the same time.
    """
    given = compact_postponed(table, new_job(), lambda _: True, fully=True)
    done = compact_table(table.refreshed(), new_job(), lambda _: True, fully=True)
    if not done.snapshot_ids and not given.snapshot_ids:
        return "nothing to compact"
    before, after = given.files_before + done.files_before, given.files_after + done.files_after
    return f"compacted: {counted(before, 'file')} -> {counted(after, 'file')}"


def sort(path: str, columns: str | None, specs: Specs, dry_run: bool, storage: Options) -> None:
    """Sort the rows of the partitions."""
    table = open_table(path, storage, for_reading=False)
    by = checked_columns(table, _names(columns) or ())
    chosen = _chosen(table, specs)
    if not table.options.clusters_in_order and not columns and len(by) > 1:
        say(f"Tidemark sorts rows by {', '.join(by)}, in this order, not along a curve", err=True)
    if dry_run:
        due = {b: files for b, files in table.state().files.items() if files and chosen(b.partition)}
        _tell_sorted(f"would sort by {', '.join(by)}", len(due), [file for files in due.values() for file in files])
        return
    with watched() as progress:
        done = sort_table(table, new_job(progress), by, chosen)
    if not done.snapshot_ids:
        say("nothing to sort")
        return
    before, after = _sizes(done.files_before, done.bytes_before), _sizes(done.files_after, done.bytes_after)
    sorted_places = f"sorted {counted(done.buckets, 'partition')} by {', '.join(by)}"
    say(f"{sorted_places}: {before} -> {after}, {_snapshots(done.snapshot_ids)}")


def _tell_sorted(what: str, partitions: int, files: Sequence[DataFileMeta]) -> None:
    held = _sizes(len(files), sum(file.file_size_bytes for file in files))
    say(f"{what}: {counted(partitions, 'partition')}, {held}" if files else "nothing to sort")


def _names(columns: str | None) -> list[str] | None:
    return None if columns is None else [name for part in columns.split(",") if (name := part.strip())]


def analyze(path: str, columns: str | None, storage: Options) -> None:
    """Publish statistics of the newest snapshot."""
    table = open_table(path, storage, for_reading=False)
    names = _names(columns)
    with watched() as progress:
        done = analyze_table(table, new_job(progress), names)
    if done is None:
        say("the table has no snapshot yet, so there is nothing to analyze")
        return
    rows, read = counted(done.row_count, "row"), counted(len(done.columns), "column")
    say(f"analyzed {rows} of {done.size_bytes:,} bytes, {read}, {_snapshots([done.snapshot_id])}")


def rescale(path: str, buckets: int, specs: Specs, dry_run: bool, storage: Options) -> None:
    """Give partitions another number of buckets, and the table for new ones."""
    table = open_table(path, storage, for_reading=False)
    check_rescale(table, buckets, is_partial=bool(specs))
    facts = partition_facts(table.context, table.state())
    chosen = named_partitions(table.context, facts, specs) if specs else facts
    stale = {p: fact for p, fact in chosen.items() if buckets != POSTPONED and fact.bucket_count != buckets}
    pipelines = marking_pipelines(table.io, table.paths)
    if dry_run:
        _tell_rescale_plan(table, buckets, stale)
        return
    if stale and pipelines:
        note = f"written by pipeline {', '.join(pipelines)}: it may keep running, and waits for the new number. If"
        say(f"{note} it commits so often that the rescale cannot finish, stop it first", err=True)
    is_chosen: Chosen | None = frozenset(chosen).__contains__ if specs else None
    with watched() as progress:
        done = rescale_table(table, buckets, new_job(progress), is_chosen)
    _tell_rescaled(table, buckets, done)


def drop_partition(path: str, specs: Specs, yes: bool, dry_run: bool, storage: Options) -> None:
    """Drop partitions, once that is confirmed."""
    if not specs:
        raise ConfigError("--partition is missing: name the partitions to drop, such as --partition dt=2024-01-01")
    table = open_table(path, storage, for_reading=False)
    chosen = named_partitions(table.context, partition_facts(table.context, table.state()), specs)
    _tell_partitions(table, "would drop" if dry_run else "dropping", chosen)
    if dry_run:
        return
    confirm("Drop them?", yes, done="dropped")
    done = drop_partitions(table, chosen, new_job())
    if done.snapshot_id is None:
        say("they are already gone")
        return
    say(
        f"dropped {counted(len(done.partitions), 'partition')} with {_held(done.partitions)}, "
        f"{_snapshots([done.snapshot_id])}; older snapshots still have them"
    )


def truncate(path: str, yes: bool, dry_run: bool, storage: Options) -> None:
    """Take all rows out of the table, once that is confirmed."""
    table = open_table(path, storage, for_reading=False)
    state = table.state()
    if not state.files and not state.index:
        say("the table is already empty")
        return
    _tell_partitions(table, "would empty" if dry_run else "emptying", partition_facts(table.context, state))
    if dry_run:
        return
    pipelines = marking_pipelines(table.io, table.paths)
    if pipelines:
        say(
            f"written by pipeline {', '.join(pipelines)}: it does not reread the removed rows, and writes only new "
            "records into the empty table",
            err=True,
        )
    confirm("Empty the table?", yes, done="removed")
    done = truncate_table(table, new_job())
    if done.snapshot_id is None:
        say("the table is already empty")
        return
    say(
        f"emptied the table of {_held(done.partitions)}, {_snapshots([done.snapshot_id])}; older snapshots still have "
        "them"
    )


def _held(partitions: Mapping[bytes, PartitionFacts]) -> str:
    facts = partitions.values()
    rows, files = sum(fact.row_count for fact in facts), sum(len(fact.files) for fact in facts)
    return f"{counted(rows, 'stored row')} in {counted(files, 'file')}"


def _chosen(table: Table, specs: Specs) -> Chosen:
    if not specs:
        return lambda _: True
    return frozenset(named_partitions(table.context, partition_facts(table.context, table.state()), specs)).__contains__


def tell_due(table: Table, due: Mapping[BucketId, Sequence[DataFileMeta]], name: str = "") -> None:
    """Say what would be compacted, of the table ``name`` where there are several."""
    of_table = f"{name}: " if name else ""
    if not due:
        say(f"{of_table}nothing to compact")
        return

    def told(bucket: BucketId, files: Sequence[DataFileMeta]) -> str:
        partition = table.context.partition_path(bucket.partition)
        place = f"{partition}, " if partition else ""
        number = "rows without a bucket" if bucket.bucket == POSTPONED else f"bucket {bucket.bucket}"
        level0 = sum(file.level == 0 for file in files)
        held = _sizes(len(files), sum(file.file_size_bytes for file in files))
        return f"  {place}{number}: {held}, {level0:,} of them on level 0"

    lines = [told(bucket, files) for bucket, files in due.items()]
    say("\n".join([f"{of_table}would compact {counted(len(due), 'bucket')}:", *first_of(lines, _LISTED, "buckets")]))


def _tell_rescale_plan(table: Table, buckets: int, stale: Mapping[bytes, PartitionFacts]) -> None:
    if stale:
        _tell_partitions(table, f"would rewrite into {_buckets(buckets)}", stale)
    elif table.options.bucket != buckets:
        say(f"would set 'bucket' to {buckets}; no file needs rewriting")
    else:
        say(f"nothing to do: the table already has {_buckets(buckets)}")


def _tell_partitions(table: Table, what: str, partitions: Mapping[bytes, PartitionFacts]) -> None:
    def told(partition: bytes, facts: PartitionFacts) -> str:
        has_buckets = facts.bucket_count != POSTPONED and not table.options.is_unaware
        buckets = f"{_buckets(facts.bucket_count)}, " if has_buckets else ""
        rows = f"{counted(facts.row_count, 'stored row')} in {_sizes(len(facts.files), facts.size_bytes)}"
        name = told_partition(table.context, partition, facts) if facts.directory else "the table"
        return f"  {name}: {buckets}{rows}"

    lines = [told(partition, facts) for partition, facts in partitions.items()]
    say("\n".join([f"{what}:", *first_of(lines, _LISTED, "partitions")]))


def _tell_rescaled(table: Table, buckets: int, done: Rescaled) -> None:
    if not done.snapshot_ids and done.option_before == buckets and not done.left:
        say(f"nothing to do: the table already has {_buckets(buckets)}")
        return
    what = f" in {counted(len(done.rewritten), 'partition')}" if table.schema.partition_keys else ""
    if done.rewritten:
        say(
            f"rescaled to {_buckets(buckets)}{what}: {counted(done.row_count, 'row')}, "
            f"{_sizes(done.files_before, done.bytes_before)} -> {_sizes(done.files_after, done.bytes_after)}, "
            f"{_snapshots(done.snapshot_ids)}"
        )
    if done.option_before != buckets:
        say(
            f"'bucket' is now {buckets}; it was {done.option_before}. A pipeline whose file still states"
            f" {done.option_before} uses the new number and warns at each start: change the file"
        )
    if done.left:
        names = sorted(f"{table.context.partition_path(p)} ({n})" for p, n in done.left.items())
        say(
            f"{counted(len(names), 'partition')} with another number refuse writes until you rescale them too: "
            f"{', '.join(first_of(names, 5))}",
            err=True,
        )


def _buckets(count: int) -> str:
    return {DYNAMIC: "dynamic buckets", POSTPONED: "postponed buckets"}.get(count) or counted(count, "bucket")


def _snapshots(ids: Collection[int]) -> str:
    return f"snapshot{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def _sizes(files: int, size_bytes: int) -> str:
    return f"{counted(files, 'file')} of {size_bytes:,} bytes"
