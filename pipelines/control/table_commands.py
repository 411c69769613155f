"""`tidemark pause`, `resume` and `reload`: requests to a pipeline, running or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import typer

from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.nearest_name import did_you_mean
from pipelines.checkpoint.lock import runner_of
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.control.asking import ask
from pipelines.control.requests import Requests, State

_BUSY = "is starting, waits for its source or storage, or is busy with a batch (`tidemark status` shows which)"

NamesOf = Callable[[PipelineConfig], Collection[str]]
"""The tables of a pipeline by their names."""


def ask_for_table(file: Path, command: str, table: str, known: NamesOf, reason: str = "") -> None:
    """Leave the request, wait for the running pipeline to take it, and print the outcome.

    If no pipeline runs, a table that is not ``known`` is refused at once: nobody would see the refusal of the next
    start.
    """
    config = load_pipeline(file)
    if runner_of(config) is None and table not in (names := known(config)):
        raise ConfigError(f"--table: pipeline {config.name} has no table {table!r}; {did_you_mean(table, names)}")
    arguments = {"table": table, **({"reason": reason} if reason else {})}
    _ask(config, command, arguments, lambda: _check_known(config, table, known))


def _check_known(config: PipelineConfig, table: str, known: NamesOf) -> None:
    """Refuse requests that a busy pipeline could refuse only in its log."""
    names = known(config)
    if table not in names:
        raise ConfigError(
            f"--table: pipeline {config.name} {_BUSY}, and has no table {table!r} yet. Nothing was changed: run the "
            f"command again when the pipeline runs; {did_you_mean(table, names)}"
        )


def ask_to_reload(file: Path) -> None:
    """Make the running pipeline apply its changed file."""
    config = load_pipeline(file)
    if runner_of(config) is None:
        typer.echo(f"pipeline {config.name} does not run; its next start reads the file")
        return
    _ask(config, "reload", {"file": str(file.resolve())}, lambda: None)


def _ask(config: PipelineConfig, command: str, arguments: Mapping[str, str], check: Callable[[], None]) -> None:
    """``check`` raises if a request that no process has taken must be withdrawn."""
    was_running = runner_of(config) is not None
    request, answer = ask(config, command, arguments)
    if answer is None and was_running:
        try:
            check()
        except ConfigError:
            Requests.of(config).withdraw(request.id)
            raise
    if answer is None and not was_running:
        typer.echo(f"pipeline {config.name} does not run; its next start handles the request before it reads anything")
    elif answer is None and runner_of(config) is None:
        typer.echo(f"pipeline {config.name} has ended; its next start handles the request before it reads anything")
    elif answer is None:
        typer.echo(f"pipeline {config.name} {_BUSY}; it handles the request afterwards")
    elif answer.state is State.REFUSED:
        raise ConfigError(f"pipeline {config.name}: {answer.text}")
    elif answer.state is State.FAILED:
        raise SinkUnavailable(f"pipeline {config.name}: {answer.text}")
    else:
        typer.echo(f"pipeline {config.name}: {answer.text}")
