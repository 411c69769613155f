"""Sorts a table without primary key and buckets, partition by partition, so that readers skip more files.

Implements Paimon's sort compaction with the strategy ``order``. New files replace all files of a partition: they have
the rows of the whole partition in the order of the columns. The snapshots are COMPACT: the rows are the same, so
streaming readers see no changes. Rows that arrive during the job stay in separate files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from paimon_table.errors import ConfigError
from paimon_table.maintenance.compaction import Chosen, compacting
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.shares import Compacted, Shares
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.nearest_name import did_you_mean
from paimon_table.options.names import CLUSTERING_COLUMNS
from paimon_table.table import Table
from paimon_table.write.append_writer import AppendWriter


def sort(table: Table, job: Job, columns: Sequence[str], chosen: Chosen) -> Compacted:
    """Sort the chosen partitions by the columns, by default the columns of the option ``clustering.columns``.

    Publishes one snapshot per gigabyte, or per larger partition. Needs space for a partition in the job's local
    directory. Raises ConfigError for tables and columns that cannot be sorted, and CommitConflict if others keep
    replacing the same files. Published results stay.
    """
    by = checked_columns(table, columns)
    commit = job.commit_to(table)
    ctx = compacting(table.context)

    def one(live: LiveFiles, bucket: BucketId, is_told: bool) -> Iterator[CommitMessage]:
        state = live.of(bucket)
        if not state.files:
            return
        writer = AppendWriter(ctx, bucket, state, job.environment)
        yield writer.sort(by, os.path.join(job.environment.lookup_dir, "sorting"))
        if is_told:
            job.progress.advance(sum(file.row_count for file in state.files))

    files = commit.refresh().files
    due = {bucket: of_bucket for bucket, of_bucket in files.items() if of_bucket and chosen(bucket.partition)}
    return Shares(ctx, commit, job, one, "try again later").run("sort", due)


def checked_columns(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to sort by; raises ConfigError if there are none, or if rows cannot be sorted by them."""
    root, schema = table.paths.root, table.schema
    if not table.options.is_unaware:
        kept = "its rows are in the order of the primary key" if schema.primary_keys else "its buckets keep their order"
        raise ConfigError(f"{root} cannot be sorted: {kept}; only tables without primary key and with bucket = -1 can")
    chosen = tuple(dict.fromkeys(columns)) or table.options.clustering_columns
    if not chosen:
        raise ConfigError(
            f"no columns to sort {root} by; name them, or set the option 'clustering.columns'",
            option=CLUSTERING_COLUMNS,
        )
    for name in chosen:
        if not schema.has_column(name):
            raise ConfigError(f"{root} has no column {name!r}; {did_you_mean(name, schema.column_names)}", column=name)
        if schema.field(name).type.is_nested:
            raise ConfigError(f"{root} cannot be sorted by {name!r}, which is nested; leave it out", column=name)
    return chosen
