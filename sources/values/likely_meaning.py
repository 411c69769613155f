"""The probable meaning of values without a schema, where their JSON does not show it.

It does not decide what is stored: a warning names it, and the user decides. So it may err, but not on most columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sources.values.json_values import BASE64_TEXT
from sources.values.typed_texts import TypedText

_DAY_MS = 86_400_000
_TIMES = (("milliseconds", 1, 3), ("microseconds", 1000, 6), ("nanoseconds", 1_000_000, 9))
_DAYS = (10_957, 29_220)
"""Of the years 2000 to 2049."""
_MOMENTS_MS = (7_305 * _DAY_MS, 43_829 * _DAY_MS)
"""Of the years 1990 to 2089."""
_NAME_OF_DATE = re.compile(r"date|day|birth|dob|_on$|since|until|expir|valid", re.IGNORECASE)
_DAYS_OF_NAME = (-36_525, 65_380)
"""The years 1870 to 2148, if the name of the column suggests dates."""


_NAME_OF_TIME = re.compile(r"time|hour|clock|opens|closes|_at$|starts?|ends?$", re.IGNORECASE)
_DAY_US = 86_400_000_000
_LATEST_US = 1_000_000_000
"""A time of day later than 00:16:40, which a column of times hardly lacks; smaller numbers may be counts."""

_FEWEST_DAYS = 366
"""Smaller numbers are days of a month or a year, or counts."""


def looks_like(name: str, values: Iterable[Any]) -> str | None:
    """The report about a column: the encoding that its values seem to have, and the types that would read it."""
    given = [value for value in values if value is not None]
    if not given or isinstance(given[0], TypedText):
        return None
    if all(isinstance(value, str) for value in given):
        return _of_strings(given)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in given):
        return _of_integers(name, given)
    return None


def _of_strings(texts: Sequence[str]) -> str | None:
    """Base64 if every text is base64, and at least one text ends as hardly any word does."""
    is_padded = any(text.endswith("=") for text in texts)
    if is_padded and all(text and BASE64_TEXT.fullmatch(text) for text in texts):
        return "base64: DECIMAL(p, s) or BYTES"
    return None


def _of_integers(name: str, numbers: Sequence[int]) -> str | None:
    low, high = min(numbers), max(numbers)
    for unit, per_ms, precision in _TIMES:
        if _MOMENTS_MS[0] * per_ms <= low and high < _MOMENTS_MS[1] * per_ms:
            return f"epoch {unit}: TIMESTAMP({precision})"
    first, last = _DAYS_OF_NAME if _NAME_OF_DATE.search(name) else _DAYS
    if first <= low and high <= last and high >= _FEWEST_DAYS:
        return "epoch days: DATE"
    if low >= 0 and _LATEST_US <= high <= _DAY_US and _NAME_OF_TIME.search(name):
        fits = all(number % 1_000 == 0 for number in numbers)
        return f"microseconds of a day: {'TIME(6)' if fits else 'only an embedded schema keeps them exactly'}"
    return None
