"""`tidemark table list | show | scan | changes | snapshots | files`: looking at any Paimon table, without Spark.

Names and parameters of the commands. ``table_views`` does the work; it is imported on a call, because it needs Arrow.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.inspect.table_arguments import Storage, TablePath, table_command
from pipelines.report.arguments import GivenOnce
from pipelines.report.output import SNAPSHOT_ID, RowFormat

_WORK = "pipelines.inspect.table_views"

table_app = typer.Typer(
    cls=GivenOnce,
    help="Inspect or maintain a Paimon table, or change its rows, files and history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Format = Annotated[RowFormat, typer.Option("--format", "-f", help="Output format; json prints one object per line.")]
Columns = Annotated[
    str | None, typer.Option("--columns", metavar="A,B,...", help="Columns to read, in this order; all by default.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=0, help="Print at most this many rows.")]


@table_command(table_app, _WORK)
def show(path: TablePath, format: Format = RowFormat.TABLE) -> None:
    """Show columns, keys, options and state."""


@table_command(table_app, _WORK)
def scan(
    path: TablePath,
    format: Format = RowFormat.TABLE,
    columns: Columns = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Such as \"id = 7 AND name IN ('a', 'b')\"."),
    ] = None,
    limit: Limit = None,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="The table as of this snapshot.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", help="The table as of this time: ISO (UTC without a zone), or milliseconds since 1970."
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The table as of the snapshot of this tag.")] = None,
) -> None:
    """Print the rows of the table."""


@table_command(table_app, _WORK)
def changes(
    path: TablePath,
    format: Format = RowFormat.TABLE,
    first: Annotated[int | None, typer.Option("--from", metavar="SNAPSHOT", help="First snapshot to read.")] = None,
    last: Annotated[int | None, typer.Option("--to", metavar="SNAPSHOT", help="Last snapshot to read.")] = None,
    columns: Columns = None,
    limit: Limit = None,
    snapshot_ids: Annotated[bool, typer.Option("--snapshot-ids", help=f"Add a column {SNAPSHOT_ID}.")] = False,
) -> None:
    """Print the changelog, oldest first.

    Column _row_kind is +I, -U, +U or -D.
    """


@table_app.command("list")
def list_tables(
    warehouse: Annotated[str, typer.Argument(metavar="WAREHOUSE", help="Directory of a warehouse or of a database.")],
    option: Storage = None,
) -> None:
    """Print the tables of a warehouse, or of one database.db in it."""
    from pipelines.inspect import table_views

    table_views.list_tables(warehouse, option)


@table_command(table_app, _WORK)
def snapshots(path: TablePath, format: Format = RowFormat.TABLE, limit: Limit = None) -> None:
    """Print the snapshots, oldest first."""


@table_command(table_app, _WORK)
def schemas(path: TablePath, format: Format = RowFormat.TABLE, limit: Limit = None) -> None:
    """Print the versions of the schema and their changes, oldest first."""


@table_command(table_app, _WORK)
def files(
    path: TablePath,
    format: Format = RowFormat.TABLE,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="Files of this snapshot.")] = None,
    limit: Limit = None,
) -> None:
    """Print the live data files."""
