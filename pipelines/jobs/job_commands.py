"""`tidemark table compact | sort | analyze | rescale | ...`: jobs that change a table, without Spark.

Names and parameters of the commands; ``table_jobs`` has the code and is imported on a call.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.inspect.table_arguments import TablePath, table_command
from pipelines.inspect.table_commands import Columns, table_app

__all__ = ["table_app"]

_WORK = "pipelines.jobs.table_jobs"

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


@table_command(table_app, _WORK)
def compact(
    path: TablePath,
    full: Annotated[
        bool, typer.Option("--full", help="Merge all files of each bucket, not only those that the strategy picks.")
    ] = False,
    partition: Partitions = None,
    dry_run: DryRun = False,
) -> None:
    """Compact the table.

    Pipelines may write at the same time.
    """


@table_command(table_app, _WORK)
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
) -> None:
    """Sort the rows of a table without primary key and buckets.

    Rewrites each partition in the order of the columns, so that readers skip more files. Pipelines may write at the
    same time; the next sort includes their rows.
    """


@table_command(table_app, _WORK)
def analyze(path: TablePath, columns: Columns = None) -> None:
    """Store statistics of the columns for the planners of engines.

    Reads all rows of the newest snapshot and publishes their statistics in a new snapshot.
    """


@table_command(table_app, _WORK)
def rescale(
    path: TablePath,
    buckets: Annotated[
        int,
        typer.Option("--buckets", help="The new number of buckets; -1: dynamic, -2: postponed.", show_default=False),
    ],
    partition: Partitions = None,
    dry_run: DryRun = False,
) -> None:
    """Change the number of buckets of the table.

    Rewrites all rows in one snapshot; readers continue meanwhile. Partitions that --partition excludes keep their
    number, and refuse new rows until you rescale them too. A change from or to dynamic buckets rewrites all
    partitions.
    """


@table_command(table_app, _WORK, "drop-partition")
def drop_partition(path: TablePath, partition: Partitions = None, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Drop partitions with all their rows.

    Older snapshots still have them. The changelog does not record the drop.
    """


@table_command(table_app, _WORK)
def truncate(path: TablePath, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove all rows of the table.

    Older snapshots still have them. The changelog does not record the removal. Pipelines continue with their next
    records.
    """
