"""Words of messages that name many things."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

NAMES_SHOWN = 3
"""Names that fit into a line on something else."""

_SINGLE_SKIPS = {
    "tombstones": "tombstone",
    "control records": "control record",
    "messages": "message",
    "truncates": "truncate",
    "updates and deletes": "update or delete",
    "deletes without a table": "delete without a table",
}
"""What one record is called that gives nothing on purpose, by the word for several."""


def first_of(names: Sequence[str], shown: int, kind: str = "") -> list[str]:
    """The first ``shown`` names and, in place of all others, how many ``kind`` they are: ``and 3 more tables``."""
    others = len(names) - shown
    more = kind.removesuffix("s") if others == 1 else kind
    return [*names[:shown], f"and {others:,} more {more}".rstrip()] if others > 0 else list(names)


def counted(number: int, thing: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def skip_words(skipped: Mapping[str, int]) -> list[str]:
    """``1 tombstone``, ``3 of skipped tables``: numbers of records that give nothing, by the words of ``SKIPS``."""
    return [f"{n:,} {_SINGLE_SKIPS.get(word, word) if n == 1 else word}" for word, n in skipped.items()]


def position_words(position: str | None, shown: int = NAMES_SHOWN) -> str:
    """A position of a source (``SliceReader``), for people: where the next record is read."""
    if position is None:
        return "the first record"
    found = json.loads(position)
    if isinstance(found.get("files"), dict):
        places = [f"{name}: {counted(at['records'], 'record')}" for name, at in found["files"].items()]
    elif all(isinstance(offsets, dict) for offsets in found.values()):
        places = [
            f"{topic}-{partition}: {at:,}" for topic, offsets in found.items() for partition, at in offsets.items()
        ]
    else:
        return position
    return ", ".join(first_of(places, shown)) or "the first record"
