"""The known name that a misspelt one was probably meant to be."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

LIKELY = 0.6
"""From this likeness on a name may be meant, where it must be one of the known ones."""

SURE = 0.85
"""From this likeness on a name is a misspelling, where others than the known ones may stand too."""


def nearest(name: str, known: Iterable[str], at_least: float = LIKELY) -> str | None:
    """The known name that looks most like ``name``, if one does; case, ``-``, ``.`` and ``_`` make no difference."""
    return _nearest(_plain(name), frozenset(known), at_least)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, else all of them."""
    names = sorted(known)
    close = nearest(name, names)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(names) or 'none'}"


def misspelt_column(name: str, columns: Iterable[str]) -> str | None:
    """The column that ``name`` is a slip of; names that differ in their numbers are names of different things."""
    alike = [column for column in columns if _digits(column) == _digits(name)]
    swapped = [column for column in alike if sorted(_plain(column)) == sorted(_plain(name))]
    return nearest(name, alike, at_least=SURE) or nearest(name, swapped)


def _digits(name: str) -> str:
    return re.sub(r"\D", "", name)


@functools.lru_cache(maxsize=256)
def _nearest(plain_name: str, known: frozenset[str], at_least: float) -> str | None:
    """Kept, because the same name is looked for by more than one check, among up to 1,500 known ones."""
    plain = {_plain(candidate): candidate for candidate in sorted(known, reverse=True)}
    found = difflib.get_close_matches(plain_name, plain, n=1, cutoff=at_least)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
