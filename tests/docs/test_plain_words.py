"""Pages, decisions and messages use plain words, and pages and decisions short sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import PAGES, ROOT

PLAIN = {
    r"\b(?:is|are|was|were|be) told\b(?! apart)": "Tidemark reports, warns, prints",
    r"\bin vain\b": "without effect",
    r"\bby now\b": "now, already",
    r"\bgo(?:es)? by\b": "uses, depends on",
    r"\bmade up\b": "invented; finished",
    r"\banew\b": "again; rebuilt, recreated, restarted",
    r"\bmend(?:s|ed|ing)?\b(?!\.jsonl)": "fix",
    r"\bsays so\b": "logs that, warns, reports that",
    r"\blies? (?:in|on|under|below)\b": "is in",
    r"\bonce more\b": "again",
    r"\btrouble that passes\b": "transient failure",
    r"\bnobody (?:knows|says|can say|can tell)\b": "Tidemark cannot know",
}
PROSE = (*PAGES, *sorted((ROOT / "docs" / "decisions").glob("*.md")))
PACKAGES = ("pipelines", "sources", "sinks", "paimon_table", "tidemark")
_FILE_NAME = re.compile(r"`?\bmended\.jsonl`?")


def found_in(text: str) -> list[str]:
    """The phrases in a text, each with what to write in its place."""
    text = _FILE_NAME.sub("", text)
    return [f"{m[0]!r}: write {plain}" for phrase, plain in PLAIN.items() for m in re.finditer(phrase, text, re.I)]


MOST_WORDS = 25
_CODE = re.compile(r"`[^`]*`")
_LIST_OF_CODE = re.compile(r"code(?:(?:,|,? and|,? or)\s+code\b)+")
_TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
_NOT_PROSE = re.compile(r"^ *```[\s\S]*?^ *```$|(?<=\n\n)(?: {4,}.*\n)+", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n\s*(?=\n|[-*] |[#|>]|\d+\. )")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)*\"]*\s+")
_CELL_END = re.compile(r"\s*(?:\||;)\s*")


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page in Markdown. A list of code is one word; in cells of tables ``;`` ends a sentence too."""
    prose = _LIST_OF_CODE.sub("code", _CODE.sub("code", _TARGET.sub("", _NOT_PROSE.sub("", page))))
    for paragraph in _PARAGRAPH_END.split(prose):
        parts = _CELL_END.split(paragraph) if paragraph.lstrip().startswith("|") else [paragraph]
        for part in parts:
            yield from filter(words, _SENTENCE_END.split(" ".join(part.split())))


def words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if any(map(str.isalnum, word)))


def messages(path: Path) -> Iterator[ast.Constant]:
    """The texts in a module that people may see: all but docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_pages_use_plain_words(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert [f"{path.name}:{number}: {text}" for number, line in lines for text in found_in(line)] == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_pages_use_short_sentences(path: Path) -> None:
    long = [s for s in sentences(path.read_text(encoding="utf-8")) if words(s) > MOST_WORDS]
    assert [f"{words(s)} words: {s}" for s in long] == []


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_messages_use_plain_words(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in messages(path)
        for text in found_in(str(node.value))
    ]
    assert wrong == []


def test_a_phrase_is_found_wherever_it_stands() -> None:
    assert found_in("The topic was made anew, and nobody knows why; the user is told.") == [
        "'is told': write Tidemark reports, warns, prints",
        "'anew': write again; rebuilt, recreated, restarted",
        "'nobody knows': write Tidemark cannot know",
    ]
    assert found_in("They are told apart by mended.jsonl.") == []


def test_words_of_sentences_are_counted_without_code_and_links() -> None:
    page = "A table\nof [a rule](x.md#y). Two\n- `a b`, `c` and `d` item\n```\nno\n```\n\n    no\n\n| a; b | c d. e |\n"
    assert [words(s) for s in sentences(page)] == [5, 1, 2, 1, 1, 2, 1]
