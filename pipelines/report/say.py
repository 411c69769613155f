"""Prints lines for people, without characters that would control a terminal."""

from __future__ import annotations

import typer

from pipelines.report.safe_text import shown


def say(text: str, err: bool = False) -> None:
    """Print lines to stdout, with ``err`` to stderr; names and values in them may be anybody's."""
    typer.echo("\n".join(map(shown, text.split("\n"))), err=err)
