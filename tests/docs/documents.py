"""The fenced blocks of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "cookbook").glob("*.md")))
TEXTS = (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob(".github/**/*.md")), *sorted(ROOT.glob("docs/**/*.md")))
"""All that the forge shows as a page."""
BINARY = ("debezium-avro", "upsert-avro", "avro", "protobuf")
"""Formats whose examples are in bytes."""
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block and the heading it stands under."""

    page: str
    heading: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}, {self.heading}"


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of one language in the order of the page, without the indent of lists."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        if match[2] == language:
            headings = re.findall(r"^#+ (.*)$", text[: match.start()], re.MULTILINE)
            lines = [line.removeprefix(match[1]) for line in match[3].splitlines()]
            found.append(Block(page.name, headings[-1] if headings else "", language, "\n".join(lines) + "\n"))
    return found


def anchors(page: Path) -> set[str]:
    """What a link can name behind ``#``: the headings, as forges write them."""
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def page(name: str) -> Path:
    return ROOT / "docs" / name
