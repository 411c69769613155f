"""Words of messages that name many things."""

from __future__ import annotations

from collections.abc import Sequence

NAMES_SHOWN = 3
"""Names that fit into a line on something else."""


def first_of(names: Sequence[str], shown: int, kind: str = "") -> list[str]:
    """The first ``shown`` names and, in place of all others, how many ``kind`` they are: ``and 3 more tables``."""
    others = len(names) - shown
    more = kind.removesuffix("s") if others == 1 else kind
    return [*names[:shown], f"and {others:,} more {more}".rstrip()] if others > 0 else list(names)


def counted(number: int, thing: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
