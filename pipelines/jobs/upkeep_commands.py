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
        typer.Option(
            "--nobody-writes", help="State that nothing writes to the table now, which allows less than a day."
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove files that no snapshot, changelog, tag or branch refers to.

    Killed writers leave such files. Files with names that are not Paimon's stay.
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

    If damage remains, says what you can do, and exits with 1.
    """


@table_command(table_app, _WORK, "remove-duplicates")
def remove_duplicates(
    path: TablePath,
    newest_by: Annotated[
        str | None,
        typer.Option(
            "--newest-by",
            metavar="COLUMN",
            help="Keep the row with the greatest value of this column; by default the row in the youngest file.",
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """List keys with rows in several partitions, and keep one row of each.

    For tables whose rows move between partitions. Such keys come from two jobs at once, or from an earlier fixed
    number of buckets. Pipelines pause a table that has them. The changelog has the deletes. Stop the pipelines first.
    """
