"""Functions of Paimon's CDC actions that DuckDB lacks, as SQL that it has: ``date_format`` and ``truncate``.

date_format(made, 'yyyy-MM-dd')    pattern letters as in Java
truncate(amount, 50)               down to a multiple of 50; of a decimal of its last digit; the beginning of a text
"""

from __future__ import annotations

import re

from paimon_table.types import CHARACTERS, MAX_LENGTH, DataType, Root
from sources.expressions.result_types import duck_type

USAGE = {
    "date_format": "date_format takes a value and a pattern in quotes, such as 'yyyy-MM-dd'",
    "truncate": "truncate takes a value and a whole number above 0, such as 10",
}
"""The functions and their arguments."""

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
_INTEGERS = {Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.BIGINT: 8}
"""With their bytes."""


class Unusable(ValueError):
    """The fault of a function's arguments."""


def sql_of(name: str, value: str, t: DataType, constant: str) -> str:
    """SQL for a function of a value, given as SQL with its type, and of a constant."""
    if name == "date_format":
        return f"strftime({value}, {_quoted(_strftime(constant))})"
    if not constant.isdecimal() or int(constant) == 0:
        raise Unusable(USAGE[name])
    if t.root in CHARACTERS:
        _check_width(constant, int(constant) <= MAX_LENGTH, f"a text has at most {MAX_LENGTH} characters")
        return f"left({value}, {int(constant)})"
    if t.root not in (*_INTEGERS, Root.DECIMAL):
        raise Unusable(f"truncate takes integers, decimals and texts, and this is {t}: use trunc, or cast it")
    width = f"CAST({_width(int(constant), t)} AS {duck_type(t)})"
    # Each intermediate value lies between value and result: it overflows only if the result does.
    below = f"CASE WHEN ({value}) % {width} < 0 THEN {width} ELSE {width} - {width} END"
    return f"CAST(({value}) - ({value}) % {width} - {below} AS {duck_type(t)})"


def _width(constant: int, t: DataType) -> str:
    """The width of steps as a literal of the type: of a decimal it counts the last digit."""
    if t.root is not Root.DECIMAL:
        most = 2 ** (8 * _INTEGERS[t.root] - 1) - 1
        _check_width(str(constant), constant <= most, f"the value is {t}, which holds at most {most}")
        return str(constant)
    scale, precision = t.scale or 0, t.precision or 0
    text = f"the value is {t}, and the width counts its last digit: {'9' * precision} is the most"
    _check_width(str(constant), constant < 10**precision, text)
    return f"{constant // 10**scale}.{constant % 10**scale:0{scale}}" if scale else str(constant)


def _check_width(constant: str, fits: bool, limit: str) -> None:
    if not fits:
        raise Unusable(f"truncate by {constant}: {limit}; take a smaller width, or cast the value to a wider type")


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
            raise Unusable(f"date_format has no letters {letters!r}: use strftime(c, '%Y-%m-%d')")
        if letters is not None:
            found.append(_LETTERS[letters])
        else:
            plain = part["other"] if text is None else text.replace("''", "'") or "'"
            found.append(plain.replace("%", "%%"))
    return "".join(found)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
