"""What to do about common mistakes of YAML itself, which its parser reports in its own terms."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

MAPPINGS = {
    "match": "{ table: NAME }, beside it or instead of it schema, database, topic",
    "trigger": "{ interval: 60s }",
    "catalog": "{ warehouse: DIRECTORY }",
    "kafka": "{ bootstrap_servers: 'HOST:PORT', topics: [TOPIC] }",
    "files": "{ path: DIRECTORY }",
    "columns": "{ types: { COLUMN: TYPE } }",
    "types": "{ COLUMN: TYPE }",
    "options": "{ NAME: VALUE }",
    "watermark": "{ column: COLUMN, delay: 5m }",
}
"""What to write for keys that need a mapping and often get something else."""

_BRACES_THEN_TEXT = re.compile(r":\s+(\{\w+\}[.\w{}-]*)\s*(#.*)?$")
_SPECIAL_START = re.compile(r"(?::\s+|-\s+|[\[,{]\s*)([*&%@`!|>?][^\s,\]}]*)")
_SHELL_REFERENCE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


def syntax_hint(problem: str, line: str) -> str:
    """A hint for ``line``, at which the parser stopped with ``problem``; empty if there is none."""
    if "'\\t'" in problem or line[: len(line) - len(line.lstrip())].count("\t"):
        return "; indent with blanks, not with tabs"
    braces = _BRACES_THEN_TEXT.search(line)
    if braces:
        return f"; a value that begins with a brace needs quotes: '{braces[1]}'"
    special = _SPECIAL_START.search(line)
    if special:
        return f"; a value that begins with {special[1][0]} needs quotes"
    if "'['" in problem or "flow sequence" in problem or "flow mapping" in problem:
        return "; inside [ ] and { }, put texts with : , [ ] { } or # in quotes"
    return ""


def missing_blank(key: str, known: Collection[str]) -> str | None:
    """A hint for a key that contains its value too; None if the mistake is another one."""
    name, colon, value = key.partition(":")
    if not colon or name not in known:
        return None
    return f"'{key}': the blank after the colon is missing; write {name}: {value.strip() or 'VALUE'}"


def unclosed(problem: str, opened_line: int, line: int) -> str:
    """Where the bracket stands that the parser missed the end of in a later line; empty if it is another mistake."""
    end = re.match(r"expected ',' or '([\]}])'", problem)
    if end is None or opened_line == line:
        return ""
    return f"; the {'[' if end[1] == ']' else '{'} in line {opened_line} is not closed"


def reference_problem(text: str) -> str | None:
    """A hint for a reference as shells write it; None without one."""
    found = _SHELL_REFERENCE.search(text)
    return None if found is None else f"{found[0]} is not a reference here; write ${{env:{found[1]}}}"


def is_unquoted_placeholder(value: Any) -> bool:
    """Whether a mapping is what YAML makes of ``{table}`` without quotes."""
    return isinstance(value, dict) and bool(value) and all(inner is None for inner in value.values())


def list_words(value: Any) -> str:
    """What to write instead of one value where a list is expected."""
    text = getattr(value, "written", value)
    if isinstance(text, str) and re.fullmatch(r"[\w.-]{1,60}", text):
        return f"expected a list; write [{text}]"
    return "expected a list; write the value in [ ], texts with special characters in quotes"
