"""`tidemark table expire | tags | rollback | branches | consumers`: the history of a table, without Spark.

Names and parameters of the commands; ``history_jobs`` has the code and is imported on a call.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.inspect.table_arguments import TablePath, table_command
from pipelines.inspect.table_commands import Format
from pipelines.jobs.job_commands import DryRun, Yes
from pipelines.jobs.upkeep_commands import table_app
from pipelines.report.arguments import GivenOnce
from pipelines.report.output import RowFormat

__all__ = ["table_app"]

_WORK = "pipelines.jobs.history_jobs"

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]


def _group(name: str, text: str) -> typer.Typer:
    """A group of commands under `tidemark table`."""
    group = typer.Typer(cls=GivenOnce, help=text, no_args_is_help=True, rich_markup_mode=None)
    table_app.add_typer(group, name=name)
    return group


tags_app = _group("tags", "Tags: snapshots that stay under a name.")
branches_app = _group("branches", "Branches: other lines of snapshots.")
consumers_app = _group("consumers", "Consumers: the progress of streaming readers.")


@table_command(table_app, _WORK)
def expire(
    path: TablePath,
    retain_min: Annotated[
        int | None,
        typer.Option(
            "--retain-min", min=1, help="Keep at least this many snapshots; by default the table options decide."
        ),
    ] = None,
    retain_max: Annotated[
        int | None,
        typer.Option(
            "--retain-max", min=1, help="Keep at most this many snapshots; by default the table options decide."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Keep snapshots younger than this, such as 12h; by default the table options decide.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove snapshots and other data that the table no longer keeps.

    Removes expired tags, old partitions, consumers, snapshots and changelogs with their files, according to the
    options of the table. Pipelines and readers may continue.
    """


@table_command(table_app, _WORK)
def rollback(
    path: TablePath,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="Roll back to this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Roll back to this tag.")] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="Roll back to the newest snapshot that is not after this time.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Make an earlier snapshot the newest one.

    Removes later snapshots, changelogs and tags. First stop all writers of the table: pipelines, compactions, other
    jobs. The next start of a pipeline reads the records since then again.
    """


@table_command(tags_app, _WORK, "list")
def list_tags(path: TablePath, format: Format = RowFormat.TABLE) -> None:
    """Print the tags, oldest snapshots first."""


@table_command(tags_app, _WORK, "create")
def create_tag(
    path: TablePath,
    name: Name,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", help="The snapshot to tag; the newest by default.")
    ] = None,
    retained: Annotated[
        str | None,
        typer.Option(
            "--retained",
            metavar="DURATION",
            help="How long the tag is kept, such as 30d; by default the table options decide.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Tag a snapshot, so that it is kept."""


@table_command(tags_app, _WORK, "delete")
def delete_tags(path: TablePath, names: Names, dry_run: DryRun = False) -> None:
    """Delete tags, with the files that only they needed."""


@table_command(tags_app, _WORK, "rollback")
def rollback_to_tag(path: TablePath, name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Make the snapshot of a tag the newest one; as `tidemark table rollback --tag`."""


@table_command(branches_app, _WORK, "list")
def list_branches(path: TablePath, format: Format = RowFormat.TABLE) -> None:
    """Print the branches."""


@table_command(branches_app, _WORK, "create")
def create_branch(
    path: TablePath,
    name: Name,
    tag: Annotated[str | None, typer.Option("--tag", help="Begin at this tag; without it, with no rows.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Create a branch."""


@table_command(branches_app, _WORK, "delete")
def delete_branch(path: TablePath, name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a branch. remove-orphans removes the files that only it needed."""


@table_command(consumers_app, _WORK, "list")
def list_consumers(path: TablePath, format: Format = RowFormat.TABLE) -> None:
    """Print the consumers: streaming readers that keep snapshots from expiring."""


@table_command(consumers_app, _WORK, "reset")
def reset_consumer(
    path: TablePath,
    name: Name,
    snapshot: Annotated[
        int, typer.Option("--snapshot", min=1, help="The snapshot that it reads next.", show_default=False)
    ],
    create: Annotated[bool, typer.Option("--create", help="Create the consumer if it does not exist.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Set the snapshot that a consumer reads next."""


@table_command(consumers_app, _WORK, "delete")
def delete_consumer(path: TablePath, name: Name, dry_run: DryRun = False) -> None:
    """Delete a consumer."""
