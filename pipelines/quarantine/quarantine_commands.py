"""`tidemark quarantine list | show | drop | retry`: the records that could not be decoded, without Spark.

Names and parameters of the commands; ``quarantine_views`` and ``retry`` have the code and are imported on a call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.report.arguments import GivenOnce, PipelineFile
from pipelines.report.output import RowFormat

quarantine_app = typer.Typer(
    cls=GivenOnce,
    help="List, show, retry or drop the records that a pipeline quarantined.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OfTable = Annotated[str | None, typer.Option("--table", metavar="DATABASE.TABLE", help="Only records of this table.")]
WithReason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", help="Only records whose reason is TEXT, as `list` prints it, or contains it."
    ),
]
Format = Annotated[RowFormat, typer.Option("--format", "-f", help="table, or json: one object per line.")]


@quarantine_app.command("list")
def list_groups(
    file: PipelineFile, table: OfTable = None, reason: WithReason = None, format: Format = RowFormat.TABLE
) -> None:
    """Print the number of records by table and reason."""
    from pipelines.quarantine import quarantine_views
    from pipelines.quarantine.selection import Selection

    quarantine_views.list_groups(file, Selection(table, reason), format)


@quarantine_app.command()
def show(
    file: PipelineFile,
    table: OfTable = None,
    reason: WithReason = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Print at most this many records.")] = None,
    format: Format = RowFormat.TABLE,
) -> None:
    """Print records.

    With --format json it prints lines that you can fix in a file.
    """
    from pipelines.quarantine import quarantine_views
    from pipelines.quarantine.selection import Selection

    quarantine_views.show(file, Selection(table, reason), limit, format)


@quarantine_app.command()
def drop(
    file: PipelineFile,
    table: OfTable = None,
    reason: WithReason = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be dropped, and change nothing.")
    ] = False,
) -> None:
    """Remove records from the quarantine."""
    from pipelines.quarantine import quarantine_views
    from pipelines.quarantine.selection import Selection

    quarantine_views.drop(file, Selection(table, reason), yes, dry_run)


@quarantine_app.command()
def retry(
    file: PipelineFile,
    table: OfTable = None,
    reason: WithReason = None,
    edited: Annotated[
        Path | None,
        typer.Option("--file", metavar="EDITED", help="Only the records in this file, as you have fixed them there."),
    ] = None,
    even_if_older: Annotated[
        bool, typer.Option("--even-if-older", help="Also apply records that replace newer rows of their key.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be retried, and change nothing.")
    ] = False,
) -> None:
    """Decode records again and apply each of them exactly once.

    Records that fail again stay in the quarantine. EDITED has lines as show --format json prints them. If the
    pipeline runs, it applies the records between two batches.
    """
    from pipelines.quarantine import retry as retrying
    from pipelines.quarantine.selection import Selection

    retrying.retry(file, Selection(table, reason), edited, even_if_older, dry_run)
