"""docs/COMMANDS.md has a section for each command, with the command's own help of today."""

from __future__ import annotations

import re

import pytest

from pipelines.command_reference import updated
from tests.docs.documents import page

PAGE = page("COMMANDS.md")


def test_the_page_has_the_help_of_today() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert updated(text) == text, "run: make pages"


def test_each_block_stands_under_the_heading_of_its_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = re.findall(r"^### (tidemark .*)\n\n<!-- help: (.*) -->$", text, re.MULTILINE)
    assert len(sections) == text.count("<!-- help: ") > 30
    assert [pair for pair in sections if pair[0] != pair[1]] == []


def test_a_block_tells_usage_words_and_options() -> None:
    text = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- help: tidemark compact -->\n(.*?)<!-- end of help -->", text, re.DOTALL)
    assert block.startswith("```text\ntidemark compact [OPTIONS] WAREHOUSE\n```\n")
    assert "| `--interval DURATION` |" in block and "[default: 60s]" in block
    assert "| `--log-format <text or json>` |" in block and "with `--watch`" in block


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("help: tidemark pause ", "help: tidemark rest "),
        ("help: tidemark pause ", "help: tidemark resume "),
    ],
)
def test_a_command_without_its_block_is_named(old: str, new: str) -> None:
    with pytest.raises(ValueError, match="tidemark pause"):
        updated(PAGE.read_text(encoding="utf-8").replace(old, new))


def test_what_is_written_by_hand_stays() -> None:
    before = "by hand\n\n" + PAGE.read_text(encoding="utf-8").replace("Print the version.", "Something old.")
    after = updated(before)
    assert after.startswith("by hand\n") and "Something old." not in after


def test_every_row_of_a_table_has_two_cells() -> None:
    blocks = re.findall(r"<!-- help: .*? -->\n(.*?)<!-- end of help -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    rows = [line for block in blocks for line in block.splitlines() if line.startswith("|")]
    assert [row for row in rows if row.count("|") != 3] == []
