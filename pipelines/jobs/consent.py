"""The confirmation before something is deleted for good."""

from __future__ import annotations

import sys

import typer

from paimon_table.errors import ConfigError


def confirm(question: str, yes: bool, done: str = "done") -> None:
    """Ask on the terminal unless ``--yes`` was given; raises typer.Abort for a no.

    Without a terminal raises ConfigError, which says that nothing was ``done``: ``deleted``, ``dropped``.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"this command cannot ask for confirmation without a terminal; nothing was {done}: add --yes")
    typer.confirm(question, abort=True, err=True)
