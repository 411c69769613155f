"""Hints for keys and values that are valid YAML but often not what their author meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

MAPPINGS = {
    "match": "{ table: NAME }, with or instead of it schema, database, topic",
    "trigger": "{ interval: 60s }",
    "catalog": "{ warehouse: DIRECTORY }",
    "kafka": "{ bootstrap_servers: 'HOST:PORT', topics: [TOPIC] }",
    "files": "{ path: DIRECTORY }",
    "columns": "{ types: { COLUMN: TYPE } }",
    "types": "{ COLUMN: TYPE }",
    "options": "{ NAME: VALUE }",
    "watermark": "{ column: COLUMN, delay: 5m }",
}
"""Examples for keys that need a mapping and often get something else."""

_SHELL_REFERENCE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


_SECRET = re.compile(r"password|secret|jaas|token|(?:^|[._-])key$|certificate", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether the value of a key, a property or a variable of this name is kept out of files."""
    return _SECRET.search(name) is not None


def missing_blank(key: str, known: Collection[str]) -> str | None:
    """A hint for a key that contains its value too; None if the mistake is another one."""
    name, colon, value = key.partition(":")
    if not colon or name not in known:
        return None
    return f"'{key}': the blank after the colon is missing; write {name}: {value.strip() or 'VALUE'}"


def reference_problem(text: str) -> str | None:
    """A hint for a reference as shells write it; None without one."""
    found = _SHELL_REFERENCE.search(text)
    return None if found is None else f"{found[0]} is not a reference here; write ${{env:{found[1]}}}"


def quote_problem(text: str) -> str | None:
    """A hint for a value that begins with a quote of books, which YAML takes for a part of the text; else None."""
    if not text.startswith(tuple(_QUOTES_OF_BOOKS)):
        return None
    return f"{text[0]} is not a quote in YAML; write ' or \" in its place"


_QUOTES_OF_BOOKS = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f"


def is_unquoted_placeholder(value: Any) -> bool:
    """Whether a mapping is YAML's reading of ``{table}`` without quotes."""
    return isinstance(value, dict) and bool(value) and all(inner is None for inner in value.values())


def list_words(value: Any) -> str:
    """The hint for one value in place of a list."""
    text = getattr(value, "written", value)
    if isinstance(text, str) and re.fullmatch(r"[\w.-]{1,60}", text):
        return f"expected a list; write [{text}]"
    return "expected a list; write the value in [ ], texts with special characters in quotes"
