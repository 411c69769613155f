"""Commands and options that the pages name are those of the command line."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from pipelines.cli import app
from tests.docs.documents import page

PAGES = ("BEHAVIOUR.md", "COMMANDS.md", "HOWTO.md", "INSTALL.md", "OPERATIONS.md", "RECOVERY.md", "index.md")
NAMED = sorted(
    {
        (name, " ".join(text.split()))
        for name in PAGES
        for text in re.findall(r"(?:`|^ *|-- )(tidemark [^`\n]*)", page(name).read_text(encoding="utf-8"), re.MULTILINE)
    }
)
COMMANDS = get_command(app)


@pytest.mark.parametrize(("name", "text"), NAMED, ids=[text for _, text in NAMED])
def test_a_named_command_is_there_with_its_options(name: str, text: str) -> None:
    words = [word for word in shlex.split(re.split(r"[>|]", text)[0]) if word != "..."][1:]
    found = COMMANDS
    while isinstance(found, TyperGroup) and words and not words[0].startswith("-"):
        inner = found.get_command(typer.Context(found), words.pop(0))
        assert inner is not None, f"{name}: {text}"
        found = inner
    options = {
        option
        for parameter in found.get_params(typer.Context(found))
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {word for word in words if word.startswith("-")} <= options, f"{name}: {text}"


def test_the_pages_name_many_commands() -> None:
    assert len(NAMED) > 20
