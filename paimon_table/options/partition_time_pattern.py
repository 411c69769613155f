"""Patterns of times in partition values, in the syntax of Java's ``DateTimeFormatter``."""

from __future__ import annotations

import re

from paimon_table.errors import ConfigError
from paimon_table.options.names import PARTITION_TIMESTAMP_FORMATTER

DEFAULT_PATTERN = re.compile(
    r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.\d{1,9})?)?",
    re.ASCII,
)
"""The forms without a formatter: 2024-1-31 and 2024-01-31 10:00:00.5."""

_LETTERS = {"u": "y"}


def formatter_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for a pattern of Java's ``DateTimeFormatter`` with year, month, day, hour, minute,
    second."""
    expression, seen, at = "", set(), 0
    while at < len(text):
        letter = text[at]
        end = at + 1
        if letter == "'":
            end = text.find("'", at + 1) + 1 or len(text) + 1
            expression += re.escape(text[at + 1 : end - 1] or "'")
        elif letter.isalpha() and letter.isascii():
            while end < len(text) and text[end] == letter:
                end += 1
            name = _LETTERS.get(letter, letter)
            if name not in "yMdHmsS" or name in seen or (name in "Mdhms" and end - at > 2):
                raise _not_understood(text, text[at:end])
            seen.add(name)
            digits = end - at
            expression += f"(?P<{name}>\\d{{{digits},{digits if digits > 1 or name == 'S' else 19}}})"
        else:
            expression += re.escape(letter)
        at = end
    if not {"y", "M", "d"} <= seen:
        raise _not_understood(text, "its end, because it lacks a year, a month or a day")
    return re.compile(expression, re.ASCII)


def _not_understood(text: str, what: str) -> ConfigError:
    return ConfigError(
        f"option {PARTITION_TIMESTAMP_FORMATTER!r}: {text!r} is not understood at {what}; write letters y M d H m s, "
        "such as yyyy-MM-dd or yyyyMMddHH",
        option=PARTITION_TIMESTAMP_FORMATTER,
    )
