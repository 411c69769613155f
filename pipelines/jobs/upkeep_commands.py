"""`tidemark table remove-orphans | repair | remove-duplicates`: looking after the files of a table, without Spark.

Names and parameters of the commands; ``upkeep`` does the work and is imported on a call.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.inspect.table_arguments import TablePath, table_command
from pipelines.jobs.job_commands import DryRun, Yes, table_app

__all__ = ["table_app"]

_WORK = "pipelines.jobs.upkeep"


@table_command(table_app, _WORK, "remove-orphans")
def remove_orphans(
    path: TablePath,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="DURATION", help="Keep files that are younger than this, such as 36h."),
    ] = "1d",
    nobody_writes: Annotated[
        bool,
        typer.Option("--nobody-writes", help="Confirm that nothing writes to the table, to allow less than a day."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove files that no snapshot, changelog, tag or branch references.

    Killed writers leave such files. Files without a name of Paimon's stay.
    """


@table_command(table_app, _WORK)
def repair(
    path: TablePath,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also read all rows of the newest snapshot, with all checksums of their files."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """List damaged files of the table, and fix hint files.

    If damage remains, prints the remedies, and the exit code is 1.
    """


@table_command(table_app, _WORK, "remove-duplicates")
def remove_duplicates(
    path: TablePath,
    newest_by: Annotated[
        str | None,
        typer.Option(
            "--newest-by",
            metavar="COLUMN",
            help="Keep the row with the greatest value of this column; by default the row in the newest file.",
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """List keys with rows in several partitions, and keep one row of each.

    For tables whose rows move between partitions. Two concurrent jobs or an earlier fixed number of buckets cause
    such keys. Pipelines pause a table that has them. The changelog records the deletes. Stop the pipelines first.
    """
