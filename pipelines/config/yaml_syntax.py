"""What is wrong with a file that is not YAML, in the words of its author: place, mistake and remedy.

The parser tells where it stopped, in its own terms. That may be far behind the mistake: a quote that is not closed ends
at the next quote, or with the file. Values are not repeated here, as they may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Spot = tuple[int, int]
"""Line and column, counted from 1."""

_BRACES_THEN_TEXT = re.compile(r":\s+(\{\w+\}[.\w{}-]*)\s*(#.*)?$")
_SPECIAL_START = re.compile(r"(?::\s+|-\s+|[\[,{]\s*)([*&%@`!|>?][^\s,\]}]*)")
_OPEN_QUOTE = re.compile(r"""(?:^\s*|:\s+|-\s+|[\[{,]\s*)(['"])(?:(?!\1).)*$""")
_KEY_AND_VALUE = re.compile(r"(\s*(?:- +)*[\w.-]+): +(\S.*?)\s*$")
_STRANGE_BLANK = re.compile("[\u00a0\u2000-\u200b\u202f\u205f\u3000]")
_GLUED = re.compile(r"\s*([\w.-]+):(\S+)$")


def syntax_problem(problem: str, at: Spot, begun: Spot | None, lines: Sequence[str]) -> tuple[Spot, str]:
    """Place and text for a ``problem`` that the parser has ``at`` a place; ``begun`` is where what it reads begins."""
    line = lines[min(at[0], len(lines)) - 1] if lines else ""
    strange = next(
        ((n, found) for n, text in enumerate(lines[: at[0]], 1) if (found := _STRANGE_BLANK.search(text))), None
    )
    if strange is not None:
        code = f"U+{ord(strange[1][0]):04X}"
        return (
            strange[0],
            strange[1].start() + 1,
        ), f"YAML does not allow this kind of space ({code}); type a plain one"
    quote = _open_quote(lines[: at[0]])
    end = re.match(r"expected ',' or '([\]}])', but got '(.*)'", problem)
    special = _SPECIAL_START.search(line)
    braces = _BRACES_THEN_TEXT.search(line)
    if "'\\t'" in problem or "\t" in line[: len(line) - len(line.lstrip())]:
        return at, "YAML does not allow tabs here; replace the tab with blanks"
    if quote is not None and (end is not None or re.match("found unexpected end|expected <block end>", problem)):
        return quote, "the quote that begins here is not closed in its line; end the text with the same quote"
    if problem.startswith("found unknown escape character"):
        return at, "a backslash begins an escape in double quotes; put this text in single quotes"
    if problem.startswith("expected '<document start>'"):
        return at, "text follows the end of the document; the file must be one block of keys with values"
    if end is not None and begun is not None and begun[0] != at[0]:
        opening = "[" if end[1] == "]" else "{"
        return begun, f"the {opening} that begins here is not closed; add {end[1]} at its end"
    if braces:
        return at, f"a value that begins with a brace needs quotes; write '{braces[1]}'"
    if end is not None and end[2] != ":":
        return at, f"a comma is missing before this, or {end[1]}; put texts with , : [ ] {{ }} or # in quotes"
    if end is not None:
        return at, "a second colon in a value; put texts with , : [ ] { } or # in quotes"
    if special and "mapping values" not in problem:
        return (at[0], special.start(1) + 1), f"a value that begins with {special[1][0]} needs quotes"
    if "mapping values are not allowed" in problem:
        return _second_colon(lines, at)
    if "could not find expected ':'" in problem and begun is not None:
        return _no_blank(lines[begun[0] - 1], begun[0]) or (begun, "a colon is missing; write KEY: VALUE")
    if problem.startswith("expected <block end>") and begun is not None:
        return _indentation(problem, at, begun, lines)
    return at, f"this cannot be read: {problem}; put texts with special characters in quotes"


def _open_quote(lines: Sequence[str]) -> Spot | None:
    """The first value that begins with a quote and does not end in its line."""
    for number, line in enumerate(lines, 1):
        found = _OPEN_QUOTE.search(line.partition(" #")[0])
        if found:
            return number, found.start(1) + 1
    return None


def _second_colon(lines: Sequence[str], at: Spot) -> tuple[Spot, str]:
    """A colon after a complete value: in the same line, or because of a mistake in the line above."""
    line = lines[at[0] - 1]
    whole = _KEY_AND_VALUE.match(line)
    if whole and len(whole[1]) + 1 < at[1]:
        return at, f"a second colon in a value; put the value of {whole[1].strip(' -')} in quotes"
    above = next((number for number in range(at[0] - 1, 0, -1) if lines[number - 1].strip()), at[0])
    mistake = _no_blank(lines[above - 1], above)
    if mistake is not None:
        return mistake
    return (at[0], _indent(line) + 1), (
        "this line is indented, but the line above already has a value; begin both in the same column"
    )


def _no_blank(line: str, number: int) -> tuple[Spot, str] | None:
    """A line without the blank, or without the colon, that would make it a key or an item."""
    glued, dash, begun = _GLUED.match(line), re.match(r"\s*-(?=[^\s-])", line), (number, _indent(line) + 1)
    if dash:
        return (number, dash.end()), "the blank after the dash is missing; write '- ' before an item of a list"
    if glued:
        return begun, f"the blank after the colon is missing; write {glued[1]}: VALUE"
    return None if ":" in line else (begun, "a colon and a blank are missing after the key; write KEY: VALUE")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indentation(problem: str, at: Spot, begun: Spot, lines: Sequence[str]) -> tuple[Spot, str]:
    """A line that does not begin where the lines of its block do."""
    for number in range(begun[0], at[0]):
        if lines[number - 1].lstrip().startswith("-") and (mistake := _no_blank(lines[number - 1], number)) is not None:
            return mistake
    line = lines[at[0] - 1] if at[0] <= len(lines) else ""
    if line[: at[1] - 1].strip():
        return at, "text follows the end of a value; put the whole value in quotes"
    items = "; keys of an item begin after its '- '" if "block collection" in problem or _is_item(lines, begun) else ""
    return at, (
        f"this line begins in column {at[1]}, but its block (from line {begun[0]} on) in column {begun[1]}. Give "
        f"all lines of a block the same number of blanks{items}"
    )


def _is_item(lines: Sequence[str], begun: Spot) -> bool:
    return lines[begun[0] - 1].lstrip().startswith("- ")
