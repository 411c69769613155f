"""Values that the source did not send and that no row gives for certain: counts of their replacements, and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

COLUMNS_SHOWN = 5


class Became(StrEnum):
    """The replacement for a value that the source did not send."""

    NULL = "null"
    """No row of the key has it."""
    NULL_KEY_CHANGED = "null-key-changed"
    """The row moved from another key, and its values there are unknown."""
    OLDER = "older"
    """The value that the table has under the old key, whose delete has not arrived yet."""


Unsent: TypeAlias = Mapping[tuple[str, Became], int]
"""Counts of values by column and replacement; values that are known for certain do not count."""

_WHY = {
    Became.NULL: "The table has no earlier row of these keys. Their earlier records did not match `where`, are in "
    "quarantine, or precede the first record read. Or the column got another type, and its values are in the "
    "column of the former type",
    Became.NULL_KEY_CHANGED: "The primary key changed, and Tidemark does not know the row under the old key. Either "
    "`where` left it out, or its records are in another partition of the topic and come later",
    Became.OLDER: "The primary key changed, and Tidemark has not read the delete of the old key yet, which is in "
    "another partition of the topic",
}
_FULL = "Let the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL)"
_AGAIN = "Then let the connector read these rows again (incremental snapshot)"


def null_count(unsent: Unsent) -> int:
    """How many values became NULL."""
    return sum(count for (_, became), count in unsent.items() if became is not Became.OLDER)


def unsent_texts(unsent: Unsent) -> list[str]:
    """A message for each kind of replacement, with the columns, the cause and the remedy."""
    return [_text(became, columns) for became in Became if (columns := _columns(unsent, became))]


def _columns(unsent: Unsent, wanted: Became) -> Counter[str]:
    return Counter({column: count for (column, became), count in unsent.items() if became is wanted and count})


def _text(became: Became, columns: Counter[str]) -> str:
    count = columns.total()
    written = "what may be an older value" if became is Became.OLDER else "NULL"
    shown = [f"{name!r}: {number:,}" for name, number in columns.most_common(COLUMNS_SHOWN)]
    more = f", and {len(columns) - COLUMNS_SHOWN} more columns" if len(columns) > COLUMNS_SHOWN else ""
    one_partition = "" if became is Became.NULL else ", or write its topic with one partition"
    return (
        f"{written} was written for {count:,} value(s) that the source did not send"
        f" ({', '.join(shown)}{more}). {_WHY[became]}. {_FULL}{one_partition}. {_AGAIN}"
    )
