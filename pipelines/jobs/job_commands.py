"""`tidemark table compact | sort | analyze | rescale | ...`: jobs that change a table, without Spark.

Names and parameters of the commands; ``table_jobs`` does the work and is imported on a call.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.inspect.table_arguments import Config, Storage, TablePath
from pipelines.inspect.table_commands import Columns, table_app

__all__ = ["table_app"]

Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="COLUMN=VALUE,...",
        help="Only the partitions with these values; repeatable. NULL is a value; quote a value that contains commas.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]


@table_app.command()
def compact(
    path: TablePath,
    full: Annotated[
        bool, typer.Option("--full", help="Merge all files of each bucket, not only those that the strategy picks.")
    ] = False,
    partition: Partitions = None,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Compact the table.

    Pipelines may write at the same time.
    """
    from pipelines.jobs import table_jobs

    table_jobs.compact(path, full, partition, dry_run, option)


@table_app.command()
def sort(
    path: TablePath,
    columns: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="A,B,...", help="Columns to sort by; by default those of option clustering.columns."
        ),
    ] = None,
    partition: Partitions = None,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Sort the rows of a table without primary key and buckets.

    Rewrites each partition in the order of the columns, so that readers skip more files. Pipelines may write at the
    same time; the next sort includes their rows.
    """
    from pipelines.jobs import table_jobs

    table_jobs.sort(path, columns, partition, dry_run, option)


@table_app.command()
def analyze(path: TablePath, columns: Columns = None, _config: Config = None, option: Storage = None) -> None:
    """Store statistics of the columns for the planners of engines.

    Reads all rows of the newest snapshot and publishes their statistics in a new snapshot.
    """
    from pipelines.jobs import table_jobs

    table_jobs.analyze(path, columns, option)


@table_app.command()
def rescale(
    path: TablePath,
    buckets: Annotated[
        int,
        typer.Option(
            "--buckets", help="The new number of buckets; -1: dynamic ones, -2: postponed.", show_default=False
        ),
    ],
    partition: Partitions = None,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Change the number of buckets of the table.

    Rewrites all rows in one snapshot; readers continue meanwhile. Partitions that --partition leaves out keep their
    number, and take no rows before you rescale them as well. A change from or to dynamic buckets rewrites all
    partitions.
    """
    from pipelines.jobs import table_jobs

    table_jobs.rescale(path, buckets, partition, dry_run, option)


@table_app.command("drop-partition")
def drop_partition(
    path: TablePath,
    partition: Partitions = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Drop partitions with all their rows.

    Older snapshots still have them. The changelog does not record the drop.
    """
    from pipelines.jobs import table_jobs

    table_jobs.drop_partition(path, partition, yes, dry_run, option)


@table_app.command()
def truncate(
    path: TablePath, yes: Yes = False, dry_run: DryRun = False, _config: Config = None, option: Storage = None
) -> None:
    """Remove all rows of the table.

    Older snapshots still have them. The changelog does not record the removal. Pipelines continue with their next
    records.
    """
    from pipelines.jobs import table_jobs

    table_jobs.truncate(path, yes, dry_run, option)
