"""Functions of Paimon's CDC actions that DuckDB lacks, as SQL that it has: ``date_format`` and ``truncate``.

date_format(made, 'yyyy-MM-dd')    the letters are those of Java
truncate(amount, 50)               down to a multiple of 50; of a decimal of its last digit; the beginning of a text
"""

from __future__ import annotations

import re

from paimon_table.types import CHARACTERS, DataType, Root
from sources.expressions.result_types import duck_type

USAGE = {
    "date_format": "date_format takes a value and a pattern in quotes, such as 'yyyy-MM-dd'",
    "truncate": "truncate takes a value and a whole number above 0, such as 10",
}
"""The functions, and what they take."""

_LETTERS = {
    **dict.fromkeys(("yyyy", "uuuu"), "%Y"),
    **dict.fromkeys(("yy", "uu"), "%y"),
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "DDD": "%j",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "SSSSSSSSS": "%n",
    "a": "%p",
    "EEEE": "%A",
    "EEE": "%a",
}
_PARTS = re.compile(r"'(?P<text>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z'])")
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)


class Unusable(ValueError):
    """What is wrong with the arguments of such a function."""


def sql_of(name: str, value: str, t: DataType, constant: str) -> str:
    """SQL for a function of a value, given as SQL with its type, and of a constant."""
    if name == "date_format":
        return f"strftime({value}, {_quoted(_strftime(constant))})"
    if not constant.isdecimal() or int(constant) == 0:
        raise Unusable(USAGE[name])
    if t.root in CHARACTERS:
        return f"left({value}, {constant})"
    if t.root not in (*_INTEGERS, Root.DECIMAL):
        raise Unusable(f"truncate takes integers, decimals and texts, and this is {t}: take trunc, or cast it")
    width = f"CAST({constant} AS {duck_type(t)})"
    if t.root is Root.DECIMAL and t.scale:
        width = f"CAST({int(constant) // 10**t.scale}.{int(constant) % 10**t.scale:0{t.scale}} AS {duck_type(t)})"
    return f"CAST({value} - ((({value}) % {width}) + {width}) % {width} AS {duck_type(t)})"


def _strftime(pattern: str) -> str:
    found = []
    at = 0
    while at < len(pattern):
        part = _PARTS.match(pattern, at)
        if part is None:
            raise Unusable(f"date_format: a quote in {pattern!r} has no end")
        at = part.end()
        letters, text = part["letters"], part["text"]
        if letters is not None and letters not in _LETTERS:
            raise Unusable(f"date_format has no letters {letters!r}: say it with strftime(c, '%Y-%m-%d')")
        if letters is not None:
            found.append(_LETTERS[letters])
        else:
            plain = part["other"] if text is None else text.replace("''", "'") or "'"
            found.append(plain.replace("%", "%%"))
    return "".join(found)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
