"""`tidemark table expire | tags | rollback | branches | consumers`: what a table keeps of its past, without Spark.

Names and parameters of the commands; ``history_jobs`` does the work and is imported on a call.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.inspect.table_arguments import Config, Storage, TablePath
from pipelines.inspect.table_commands import Format
from pipelines.jobs.job_commands import DryRun
from pipelines.jobs.upkeep_commands import table_app
from pipelines.report.arguments import GivenOnce
from pipelines.report.output import RowFormat

__all__ = ["table_app"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]

tags_app = typer.Typer(
    cls=GivenOnce, help="Tags: snapshots that stay under a name.", no_args_is_help=True, rich_markup_mode=None
)
branches_app = typer.Typer(
    cls=GivenOnce, help="Branches: other lines of snapshots.", no_args_is_help=True, rich_markup_mode=None
)
consumers_app = typer.Typer(
    cls=GivenOnce, help="Consumers: how far readers have come.", no_args_is_help=True, rich_markup_mode=None
)
table_app.add_typer(tags_app, name="tags")
table_app.add_typer(branches_app, name="branches")
table_app.add_typer(consumers_app, name="consumers")


@table_app.command()
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
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Remove snapshots and other data that the table no longer keeps.

    Removes expired tags, old partitions, consumers, snapshots and changelogs with their files, as the options of the
    table say. Pipelines and readers may continue.
    """
    from pipelines.jobs import history_jobs

    history_jobs.expire(path, retain_min, retain_max, older_than, dry_run, option)


@table_app.command()
def rollback(
    path: TablePath,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="Roll back to this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Roll back to this tag.")] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="Roll back to the newest snapshot that is not after this time.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Make an earlier snapshot the newest one.

    Removes later snapshots, changelogs and tags. First stop all writers of the table: pipelines, compactions, other
    jobs. The next start of a pipeline reads the records since then again.
    """
    from pipelines.jobs import history_jobs

    history_jobs.rollback(path, snapshot, tag, timestamp, yes, dry_run, option)


@tags_app.command("list")
def list_tags(
    path: TablePath, format: Format = RowFormat.TABLE, _config: Config = None, option: Storage = None
) -> None:
    """Print the tags, oldest snapshots first."""
    from pipelines.jobs import history_jobs

    history_jobs.list_tags(path, format, option)


@tags_app.command("create")
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
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Tag a snapshot, so that it is kept."""
    from pipelines.jobs import history_jobs

    history_jobs.create_tag(path, name, snapshot, retained, dry_run, option)


@tags_app.command("delete")
def delete_tags(
    path: TablePath, names: Names, dry_run: DryRun = False, _config: Config = None, option: Storage = None
) -> None:
    """Delete tags, with the files that only they needed."""
    from pipelines.jobs import history_jobs

    history_jobs.delete_tags(path, names, dry_run, option)


@tags_app.command("rollback")
def rollback_to_tag(
    path: TablePath,
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Make the snapshot of a tag the newest one; as `tidemark table rollback --tag`."""
    from pipelines.jobs import history_jobs

    history_jobs.rollback(path, None, name, None, yes, dry_run, option)


@branches_app.command("list")
def list_branches(
    path: TablePath, format: Format = RowFormat.TABLE, _config: Config = None, option: Storage = None
) -> None:
    """Print the branches."""
    from pipelines.jobs import history_jobs

    history_jobs.list_branches(path, format, option)


@branches_app.command("create")
def create_branch(
    path: TablePath,
    name: Name,
    tag: Annotated[str | None, typer.Option("--tag", help="Begin at this tag; without it, with no rows.")] = None,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Create a branch."""
    from pipelines.jobs import history_jobs

    history_jobs.create_branch(path, name, tag, dry_run, option)


@branches_app.command("delete")
def delete_branch(
    path: TablePath,
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Delete a branch. remove-orphans finds the files that only it needed."""
    from pipelines.jobs import history_jobs

    history_jobs.delete_branch(path, name, yes, dry_run, option)


@consumers_app.command("list")
def list_consumers(
    path: TablePath, format: Format = RowFormat.TABLE, _config: Config = None, option: Storage = None
) -> None:
    """Print the consumers: streaming readers that keep snapshots from expiring."""
    from pipelines.jobs import history_jobs

    history_jobs.list_consumers(path, format, option)


@consumers_app.command("reset")
def reset_consumer(
    path: TablePath,
    name: Name,
    snapshot: Annotated[
        int, typer.Option("--snapshot", min=1, help="The snapshot that it reads next.", show_default=False)
    ],
    create: Annotated[bool, typer.Option("--create", help="Create the consumer if it does not exist.")] = False,
    dry_run: DryRun = False,
    _config: Config = None,
    option: Storage = None,
) -> None:
    """Let a consumer continue with a snapshot."""
    from pipelines.jobs import history_jobs

    history_jobs.reset_consumer(path, name, snapshot, create, dry_run, option)


@consumers_app.command("delete")
def delete_consumer(
    path: TablePath, name: Name, dry_run: DryRun = False, _config: Config = None, option: Storage = None
) -> None:
    """Delete a consumer."""
    from pipelines.jobs import history_jobs

    history_jobs.delete_consumer(path, name, dry_run, option)
