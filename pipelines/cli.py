"""The command line: `tidemark run | validate | test | plan | init | schema | table | quarantine | version`.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 1 failed while running, 2 the request itself
was wrong. Every command imports what it needs when it is called. Only `run` imports Spark; `--help` and `validate`
import neither Spark nor Arrow, so they answer at once.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from paimon_table.errors import Action, ConfigError, SinkUnavailable, TidemarkError
from paimon_table.storage.outages import storage_failure
from pipelines.inspect.table_arguments import Storage
from pipelines.jobs.history_commands import table_app
from pipelines.quarantine.quarantine_commands import quarantine_app
from pipelines.report.arguments import FAILED, WRONG_REQUEST, GivenOnce, PipelineFile, PipelineFiles
from pipelines.report.json_log import LogFormat, failure_line
from pipelines.report.output import checked_output, quiet_pipe
from pipelines.report.safe_text import shown
from pipelines.trial import trial_commands
from pipelines.version import version
from sources.wording import counted

_INTERRUPTED = 130
"""Typer's exit code after Ctrl-C."""


class _Commands(GivenOnce):
    """Commands whose refusals of arguments are in our words."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _plain_words(error.message)
            raise
        except EOFError as error:  # Typer takes it for the end of the user's input, and prints "Aborted!"
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _plain_words(text: str) -> str:
    if text.startswith("Input should be a valid integer"):
        return "expected a whole number"
    if text.startswith("Input should be a valid number"):
        return "expected a number"
    return text.removeprefix("Value error, ")


app = typer.Typer(
    cls=_Commands,
    help="Replicate change events (Debezium and others) from Kafka into Apache Paimon tables, by a YAML file.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(table_app, name="table")
app.add_typer(quarantine_app, name="quarantine")


class _Failures:
    """The form in which the command reports its end."""

    as_json = False
    ends_log = False
    """Whether it is the last line of a log."""


_failures = _Failures()

OneTable = Annotated[
    str, typer.Option("--table", metavar="DATABASE.TABLE", help="The table, as in `into`.", show_default=False)
]
Form = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        envvar="TIDEMARK_LOG_FORMAT",
        help="Text for people, or one JSON object per line for machines.",
    ),
]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tidemark {version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("version")
def print_version() -> None:
    """Print the version."""
    _print_version(True)


@app.command()
def run(
    files: PipelineFiles,
    once: Annotated[bool, typer.Option("--once", help="Read all available records, then stop.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print more, including all output of Spark's JVM.")
    ] = False,
    log_format: Form = LogFormat.TEXT,
) -> None:
    """Run pipelines.

    They run until SIGTERM or Ctrl-C, then finish the running batch and stop cleanly. With --once they stop when all
    available records are read.
    """
    from pipelines.report.run_log import log_to_stderr

    is_json = log_format is LogFormat.JSON
    _failures.as_json = is_json
    if is_json:  # messages about the files are lines for machines too
        log_to_stderr(verbose, log_format)
    from pipelines.config.config_file import load_pipelines

    configs = load_pipelines(files)
    from pipelines.spark.java import check_java

    check_java()
    from pipelines.catchup.shown_standing import failed_words
    from pipelines.report.run_summary import summarize
    from pipelines.report.summary import print_summary
    from pipelines.run import run_pipelines

    _failures.ends_log = True
    ended = run_pipelines(configs, once, log_to_stderr(verbose, log_format, [config.name for config in configs]), files)
    if once:
        file_of = {config.name: str(file) for config, file in zip(configs, files, strict=True)}
        for done in ended.finished:
            print_summary(summarize(done, file_of[done.config.name], is_complete=not ended.was_stopped))
    drained = [done for done in ended.finished if once or done.config.trigger.available_now]
    unfinished = [f"pipeline {done.config.name}: {text}" for done in drained for text in done.unfinished]
    paused = [text for done in ended.finished if once for text in failed_words(done.config.name, done.standings)]
    if ended.spoils_others:
        raise SinkUnavailable("\n".join([*paused, *unfinished, str(ended.failure)])) from ended.failure
    if paused or unfinished:
        _fail("\n".join([*paused, *unfinished]), FAILED)
    if ended.failure is not None:
        raise ended.failure


@app.command()
def replay(
    file: PipelineFile,
    table: OneTable,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BEGIN",
            help="Where to begin: earliest (the default of --rebuild), a time, snapshot:ID, or offsets as JSON.",
            show_default=False,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="END", help="Where to stop, before the position of the stream; the same forms."),
    ] = None,
    into_place: Annotated[bool, typer.Option("--into-place", help="Apply the records to the existing table.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build new rows in a branch, then switch in one step.")
    ] = False,
    missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="With --rebuild: continue even if existing rows may be lost."),
    ] = False,
    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon",
            help="Give up an unfinished replay over another range; with --rebuild, an unfinished rebuild.",
        ),
    ] = False,
) -> None:
    """Reread a range of a table's topics, whether or not the pipeline runs.

    With --into-place it applies the records to the existing table, and refuses tables for which that would be
    wrong. With --rebuild it builds new rows in a branch, which then replace the old ones. If the command is killed,
    run it again to continue.
    """
    if into_place == rebuild:
        raise ConfigError(
            "choose --into-place (apply the records to the existing table) or --rebuild (replace its rows)"
        )
    if rebuild and end is not None:
        raise ConfigError("--to: a rebuild ends at the position of the stream; leave out --to")
    if missing and not rebuild:
        raise ConfigError("--allow-missing: only --rebuild can lose rows; leave it out")
    if begin is None and not rebuild:
        raise ConfigError("--from is missing: give the begin, as earliest, a time, snapshot:ID, or offsets as JSON")
    from pipelines.config.config_file import load_pipeline
    from pipelines.replay.replaying import Wanted
    from pipelines.replay.replaying import replay as replay_table

    config = load_pipeline(file)
    replay_table(config, Wanted(table, begin or "earliest", end, abandon, rebuild, missing))


@app.command()
def pause(
    file: PipelineFile,
    table: OneTable,
    reason: Annotated[
        str, typer.Option("--reason", help="The reason, for `status` and the page.", show_default=False)
    ] = "",
) -> None:
    """Pause a table of a pipeline at its position; all others continue.

    No record is lost: `resume` catches the table up. It stays paused across restarts.
    """
    from pipelines.control.table_commands import ask_for_table
    from pipelines.prepared import table_names

    ask_for_table(file, "pause", table, table_names, reason)


@app.command()
def resume(file: PipelineFile, table: OneTable) -> None:
    """Catch a paused table up from its own position, then let it join the others."""
    from pipelines.control.table_commands import ask_for_table
    from pipelines.prepared import table_names

    ask_for_table(file, "resume", table, table_names)


@app.command("reload")
def reload_file(file: PipelineFile) -> None:
    """Apply a changed pipeline file to the running pipeline, after its current batch.

    If the file has errors, or a change needs a restart, the command prints the reasons and the pipeline continues
    with the old file.
    """
    from pipelines.control.table_commands import ask_to_reload

    ask_to_reload(file)


@app.command()
def compact(
    warehouse: Annotated[
        str, typer.Argument(metavar="WAREHOUSE", help="Directory of the warehouse.", show_default=False)
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables",
            metavar="PATTERN",
            help="DATABASE.TABLE with * and ?, repeatable. By default the tables that pipelines do not compact: "
            "write-only tables and tables with postponed buckets.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Merge all files of each bucket.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until SIGTERM or Ctrl-C.")] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="Time between the starts of two rounds.")
    ] = "60s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    log_format: Form = LogFormat.TEXT,
    option: Storage = None,
) -> None:
    """Compact the tables of a warehouse while pipelines write them.

    If one table fails, the others continue. If a table failed, the exit code is 1; with --watch it only logs that.
    """
    from pipelines.jobs.compact_rounds import compact_warehouse
    from pipelines.jobs.given_duration import given_duration_ms

    interval_ms = given_duration_ms("--interval", interval)
    _failures.as_json = log_format is LogFormat.JSON
    compact_warehouse(warehouse, tables or (), full, interval_ms / 1000 if watch else None, dry_run, option, log_format)


@app.command()
def validate(files: PipelineFiles) -> None:
    """Check pipeline files.

    Prints the bucket mode of each rule's tables, and each problem with file:line:column. If there are problems, the
    exit code is 2.
    """
    from pipelines.config.config_file import check_together, load_pipeline
    from pipelines.config.config_notes import bucket_words, notes_on
    from pipelines.config.expression_checks import computed_lines

    configs, failures = [], []
    for file in files:
        try:
            config = load_pipeline(file)
        except ConfigError as error:
            failures.append(str(error))
        else:
            configs.append(config)
            typer.echo(f"{file}: valid, pipeline {config.name} with {counted(len(config.tables), 'table rule')}")
            for rule in config.tables:
                typer.echo(f"{file}:   {config.name_of(rule)}: {bucket_words(config.target_rule(rule))}")
            if (created := config.created_rule()) is not None:
                typer.echo(f"{file}:   {created.into}: {bucket_words(created)}")
            for rule in config.tables:
                for line in computed_lines(rule):
                    typer.echo(f"{file}:   {config.name_of(rule)}: {line}")
            for note in notes_on(config):
                typer.echo(f"{file}: {note}", err=True)
    if failures:
        raise ConfigError("\n".join(failures))
    check_together(files, configs)


app.command("test")(trial_commands.test)
app.command("plan")(trial_commands.plan)
app.command("init")(trial_commands.init)


@app.command()
def status(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Pipeline files; by default all pipelines that run on this machine."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the current state, then exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Show what running pipelines do.

    On a terminal it follows the state until Ctrl-C. If a pipeline does not run, it shows the last state, and the exit
    code is 1. If a pipeline has never run here, the exit code is 2.
    """
    from pipelines.http.status import status as show_status

    if not show_status(files or [], once, as_json):
        raise typer.Exit(FAILED)


@app.command()
def schema() -> None:
    """Print the JSON Schema of pipeline files."""
    from pipelines.config.json_schema import pipeline_schema

    with quiet_pipe():
        typer.echo(json.dumps(pipeline_schema(), indent=2))


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `tidemark` command; ends with SystemExit. By default with the arguments of the process."""
    _failures.as_json = _failures.ends_log = False
    try:
        with checked_output():
            app(arguments, prog_name="tidemark")
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", FAILED)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _fail("interrupted", FAILED)
        raise
    except TidemarkError as error:
        _fail(str(error), WRONG_REQUEST if error.action is Action.FIX_REQUEST else FAILED)
    except OSError as error:
        _fail(str(storage_failure(error)), FAILED)
    except Exception as error:
        _fail(f"unexpected {type(error).__name__}: {error}; TIDEMARK_DEBUG=1 shows where", FAILED)


def _fail(text: str, code: int) -> None:
    if os.environ.get("TIDEMARK_DEBUG") == "1":
        traceback.print_exc()
    safe = "\n".join(shown(line) for line in text.split("\n"))  # names in it come from topics
    if _failures.ends_log and not _failures.as_json:
        from pipelines.report.run_log import dated

        safe = dated(safe)
    typer.echo(failure_line(text) if _failures.as_json else safe, err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
