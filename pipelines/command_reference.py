"""The help of each command in docs/COMMANDS.md, generated from the commands themselves.

``python -m pipelines.command_reference docs/COMMANDS.md`` replaces the text between ``<!-- help: COMMAND -->`` and
``<!-- end of help -->``. All other text of the page is written by hand and stays.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup
from typer.main import get_command

from pipelines.cli import app

_BLOCK = re.compile(r"^<!-- help: (?P<command>[a-z -]+) -->\n.*?^<!-- end of help -->$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<![\w`-])(--[a-z][a-z-]+(?: json\b)?)(?![\w`])")
_VALUES = {"<str>": "TEXT", "<int>": "N", "<int range>": "N", "<path>": "FILE"}
"""How typer shows the value of an option that has no word for it, and how the page does."""


def updated(page: str) -> str:
    """The page with the help of today. Raises ValueError if a command has no block or two, or a block no command."""
    helps = dict(_helps())
    named = [match["command"] for match in _BLOCK.finditer(page)]
    if wrong := sorted({*helps} ^ {*named}) or sorted({name for name in named if named.count(name) > 1}):
        raise ValueError(f"the page needs exactly one block <!-- help: COMMAND --> for {', '.join(wrong)}")
    return _BLOCK.sub(lambda match: helps[match["command"]], page)


def _helps() -> Iterator[tuple[str, str]]:
    """The whole names of all commands and their blocks, in the order of ``tidemark --help``."""
    waiting = [("tidemark", get_command(app))]
    while waiting:
        name, found = waiting.pop(0)
        if isinstance(found, TyperGroup):
            waiting[:0] = [(f"{name} {word}", below) for word, below in found.commands.items()]
            continue
        context = typer.Context(found, info_name=name)
        records = ((p.param_type_name, p.get_help_record(context)) for p in found.get_params(context))
        rows = [_row(kind, *record) for kind, record in records if record is not None and "--help" not in record[0]]
        usage = " ".join([name, *map(_usage, found.collect_usage_pieces(context))])
        yield name, "\n".join(_block(name, usage, found.help or "", rows))


def _block(name: str, usage: str, text: str, rows: list[str]) -> Iterable[str]:
    yield f"<!-- help: {name} -->"
    yield from ("```text", usage, "```", "")
    yield "\n\n".join(_words(paragraph) for paragraph in text.split("\n\n"))
    if rows:
        yield from ("", "| argument, option | meaning |", "|---|---|", *rows)
    yield "<!-- end of help -->"


def _usage(piece: str) -> str:
    """One part of the usage line without typer's outer brackets: ``{FILE}...`` is ``FILE...``."""
    return re.sub(r"^\[(\[.*\]\.\.\.)\]\.\.\.$", r"\1", piece.replace("{", "").replace("}", ""))


def _row(kind: str, names: str, meaning: str) -> str:
    if kind == "argument":
        names = re.sub(r" <.*>$", "", names)  # its type says nothing that its name does not
    for value, word in _VALUES.items():
        names = names.replace(value, word)
    names = names.replace("|", " or ")  # a bar would end the cell
    return f"| `{names}` | {_words(meaning)} |"


def _words(text: str) -> str:
    """The text on one line, with options as code."""
    return _OPTION.sub(r"`\1`", " ".join(text.split()))


def main(path: str) -> None:
    page = Path(path)
    page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
