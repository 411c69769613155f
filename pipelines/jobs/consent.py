"""The question before something goes that does not come back."""

from __future__ import annotations

import sys

import typer

from paimon_table.errors import ConfigError


def confirm(question: str, yes: bool, done: str = "done") -> None:
    """Ask on the terminal unless ``--yes`` was said; raises typer.Abort for a no.

    Raises ConfigError without a terminal to ask on; it says that nothing was ``done``, or ``deleted``, ``dropped``.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"this command cannot ask for confirmation without a terminal; nothing was {done}: add --yes")
    typer.confirm(question, abort=True, err=True)
