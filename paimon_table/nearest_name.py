"""Finds the known name that a misspelt name probably means."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

LIKELY = 0.6
"""From this similarity on a known name may be meant, if the name must be a known one."""

SURE = 0.85
"""From this similarity on a name is a misspelling, if unknown names are allowed too."""


def nearest(name: str, known: Iterable[str], at_least: float = LIKELY) -> str | None:
    """The known name most similar to ``name``, if similar enough; case, ``-``, ``.`` and ``_`` are ignored."""
    return _nearest(_plain(name), frozenset(known), at_least)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known name, else all known names."""
    names = sorted(known)
    close = nearest(name, names)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(names) or 'none'}"


def misspelt_column(name: str, columns: Iterable[str]) -> str | None:
    """The column that ``name`` probably misspells; names with different numbers are different names."""
    alike = [column for column in columns if _digits(column) == _digits(name)]
    swapped = [column for column in alike if sorted(_plain(column)) == sorted(_plain(name))]
    return nearest(name, alike, at_least=SURE) or nearest(name, swapped)


def _digits(name: str) -> str:
    return re.sub(r"\D", "", name)


@functools.lru_cache(maxsize=256)
def _nearest(plain_name: str, known: frozenset[str], at_least: float) -> str | None:
    """Cached, because several checks search for the same name among up to 1,500 known ones."""
    plain = {_plain(candidate): candidate for candidate in sorted(known, reverse=True)}
    found = difflib.get_close_matches(plain_name, plain, n=1, cutoff=at_least)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
