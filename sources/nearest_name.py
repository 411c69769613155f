"""The known name that a misspelt one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like ``name``, if one does; case, ``-``, ``.`` and ``_`` make no difference."""
    plain = {_plain(candidate): candidate for candidate in sorted(known, reverse=True)}
    found = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, else all of them."""
    names = sorted(known)
    close = nearest(name, names)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(names)}"


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
