"""`tidemark status`: the state of running pipelines, or their last state, without asking the processes themselves."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from paimon_table.errors import ConfigError
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import UNKNOWN, holder_of
from pipelines.checkpoint.replay_state import Replays
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipelines
from pipelines.http.document import Document
from pipelines.http.state_file import MOST_S, read_state, running_states, state_path
from pipelines.http.status_view import status_view
from pipelines.report.output import checked_stdout, quiet_pipe
from pipelines.views.process_memory import started_ticks
from pipelines.views.table_counts import unfinished_replays

States = list[tuple[Document, str | None]]
"""Each state with the process that runs it; None: no process."""

_STALE_S = 3 * MOST_S

_ELSEWHERE = "A service or a container may have other ones (PrivateTmp of systemd, TMPDIR)"
"""Directories for temporary files."""


def status(files: Sequence[Path], once: bool, as_json: bool) -> bool:
    """Print the state of the pipelines of these files, by default of all that this user runs here.

    Continues until Ctrl-C on a terminal. Returns whether all pipelines run.
    """
    configs = load_pipelines(files) if files else []
    found = _states(configs)
    if as_json or once or not sys.stdout.isatty():
        with quiet_pipe():
            if as_json:
                listed = [{**state, "holder": holder} for state, holder in found]
                checked_stdout().write(json.dumps(listed, indent=1) + "\n")
            else:
                _console().print(status_view(found, time.time()))
    else:
        _follow(configs, found)
    return all(holder is not None for _, holder in found)


def _follow(configs: Sequence[PipelineConfig], found: States) -> None:
    console = _console()
    with Live(status_view(found, time.time()), console=console, auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while any(holder is not None for _, holder in found):
                time.sleep(1.0)
                found[:] = _states(configs) or found
                live.update(status_view(found, time.time()), refresh=True)
        except KeyboardInterrupt:
            return


def _console() -> Console:
    plain = bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()
    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, markup=False, emoji=False, color_system=None if plain else "auto", width=width)


def _states(configs: Sequence[PipelineConfig]) -> States:
    if configs:
        return [_state_of(config) for config in configs]
    found: States = []
    for path in running_states():
        state = _read(path)
        if state is not None:
            found.append((state, holder_by_process(state)))
    if not found:
        raise ConfigError(
            f"this user runs no pipeline on this machine whose temporary files go to {tempfile.gettempdir()}."
            f" {_ELSEWHERE}: name the file to see its state, tidemark status FILE"
        )
    return found


def _state_of(config: PipelineConfig) -> tuple[Document, str | None]:
    holder = holder_of(config)
    path = state_path(config)
    state = _read(path)
    if state is None and holder == UNKNOWN:
        raise ConfigError(
            f"pipeline {config.name} has no state here: {path} does not exist. {_ELSEWHERE}: its page and its "
            "metrics show what it does"
        )
    if state is None and holder is not None:
        said = "has not reported its state yet; try again" if holder.is_run else holder.doing
        raise ConfigError(f"pipeline {config.name}: checkpoint in use by {holder}, which {said}")
    if state is None:
        raise ConfigError(f"pipeline {config.name} does not run, and has not run here yet ({path} does not exist)")
    if holder == UNKNOWN:
        return state, holder_by_process(state)
    if holder is not None and holder.who.startswith(f"process {state['pid']} on {state['host']} "):
        return state, holder.who
    held = None if holder is None else f"{holder}, which {'has just begun' if holder.is_run else holder.doing},"
    return {**_with_replays(config, state), "held_by": held}, None


def _with_replays(config: PipelineConfig, state: Document) -> Document:
    """The last state with the present progress of replays: a command may run them while the pipeline does not."""
    works = {name: asdict(work) for name, work in unfinished_replays(Replays(Checkpoint(config)).all()).items()}
    pipelines = [
        {**p, "tables": [{**t, "beside": works.get(t["name"]) or t.get("beside")} for t in p["tables"]]}
        for p in state["pipelines"]
    ]
    return {**state, "pipelines": pipelines}


def holder_by_process(state: Document) -> str | None:
    """The process that runs the pipeline, if no lock shows it: the writer of the state, if it is alive."""
    pid, host = int(state["pid"]), str(state["host"])
    is_fresh = time.time() - float(state["time_s"]) < _STALE_S
    is_ended = any(pipeline["phase"] in ("ended", "failed") for pipeline in state["pipelines"])
    if is_ended or not is_fresh or (host == os.uname().nodename and started_ticks(pid) is None):
        return None
    return f"process {pid} on {host}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return read_state(path)
    except PermissionError as error:
        raise ConfigError(f"{path} belongs to the user who runs the pipeline; call the command as that user") from error
