"""Which topics are read, and when a pattern of a pipeline file matches a name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache


def name_matches(pattern: str, name: str | None) -> bool:
    """Whether ``name`` is exactly the pattern's text or the pattern matches the whole name."""
    return name is not None and (name == pattern or _compiled(pattern).fullmatch(name) is not None)


_compiled = cache(re.compile)
"""The patterns of pipeline files, which may be more than ``re`` keeps itself."""


def any_matches(patterns: Iterable[str], name: str | None) -> bool:
    """Whether one of the patterns is for ``name``."""
    return any(name_matches(pattern, name) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Exact names, or patterns to include less patterns to exclude."""

    names: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether neither names nor patterns were given."""
        return not (self.names or self.include or self.exclude)

    def selects(self, topic: str) -> bool:
        """Whether a topic is read; without names and patterns, every topic is."""
        if self.names:
            return topic in self.names
        included = not self.include or any_matches(self.include, topic)
        return included and not any_matches(self.exclude, topic)

    @property
    def words(self) -> str:
        """The selection in words: ``shop.a, shop.b``, or ``topics that match 'shop.*' and not 'shop.c'``."""
        if self.names:
            return ", ".join(self.names)
        said = {"match": self.include or (".*",), "and not": self.exclude}
        patterns = (f"{word} {' or '.join(map(repr, given))}" for word, given in said.items() if given)
        return f"topics that {' '.join(patterns)}"

    def subscribe_pattern(self) -> str:
        """One regular expression in Java's syntax with the same meaning, for Spark's `subscribePattern`.

        Only for a selection without ``names``. Spark looks for it anywhere in a topic's name, so it is anchored.
        """
        included = "|".join(f"(?:{p})" for p in self.include) or ".*"
        excluded = "|".join(f"(?:{p})" for p in self.exclude)
        return f"^(?!(?:{excluded})$)(?:{included})$" if excluded else f"^(?:{included})$"


def names_in(topic: str) -> tuple[str | None, str | None, str]:
    """Database, schema and table that a topic names: ``[...database.]schema.table`` in its last dotted parts."""
    parts = topic.split(".")
    return parts[-3] if len(parts) > 3 else None, parts[-2] if len(parts) > 2 else None, parts[-1]
