"""The types of MySQL columns as Canal names them (``mysqlType``), and how the texts of their values are read.

``bigint(20) unsigned``, ``bigint(0) unsigned``, ``DECIMAL(8, 0)``, ``enum('a','b')``: any case, any display width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from paimon_table.types import DataType, Root, bytes_, string
from sources.values.encodings import AUTO, Encoding, Kind


class Text(StrEnum):
    """How the text of a value is rewritten before it is converted."""

    AS_IS = "as is"
    TRUTH = "truth"
    """0 or 1, for a column that holds truth values."""
    ENUM = "enum"
    """The number of the word."""
    SET = "set"
    """A number whose bits are words."""
    DATE = "date"
    """A date, or a moment without time zone; the zero date among them."""
    INSTANT = "instant"
    """A moment in the time zone of its writer."""


@dataclass(frozen=True, slots=True)
class MysqlType:
    """A type of MySQL.

    ``type`` is the Paimon type for a new column. Some writers leave out the width (``has_width`` is false); the values
    then show it (``fitted``). ``words`` are the words of an ENUM or SET, none if the type does not name them.
    """

    type: DataType
    text: Text = Text.AS_IS
    encoding: Encoding = AUTO
    has_width: bool = True
    words: tuple[str, ...] = ()


LATIN1_BYTES = Encoding(Kind.LATIN1)

_TYPE = re.compile(r"\s*([a-z0-9_ ]+?)\s*(?:\((.*)\))?\s*((?:unsigned|zerofill|signed|binary|\s)*)\s*", re.I | re.S)
_WORDS = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.S)
_MAX_PRECISION = 38
_FINEST = 6
FINEST_MOMENT = "0000-00-00 00:00:00.000000"
"""A text with as many fraction digits as MySQL stores."""


def _of(root: Root) -> DataType:
    return DataType(root)


_UNSIGNED_LONG = DataType(Root.DECIMAL, precision=20, scale=0)
_INTEGERS = {
    "tinyint": (Root.TINYINT, Root.SMALLINT),
    "int1": (Root.TINYINT, Root.SMALLINT),
    "smallint": (Root.SMALLINT, Root.INT),
    "mediumint": (Root.INT, Root.INT),
    "int": (Root.INT, Root.BIGINT),
    "integer": (Root.INT, Root.BIGINT),
}
_FLOATS = {
    "float": Root.FLOAT,
    "double": Root.DOUBLE,
    "real": Root.DOUBLE,
    "double precision": Root.DOUBLE,
}
_DECIMALS = ("decimal", "numeric", "fixed", "dec")
_BYTES = (
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring",
    "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
)  # fmt: skip


@lru_cache(maxsize=4096)
def mysql_type(text: str) -> MysqlType:
    """The meaning of a type text; an unknown type becomes text, which holds every value."""
    match = _TYPE.fullmatch(text)
    if match is None:
        return MysqlType(string())
    name = " ".join(match[1].lower().split())
    modifiers = match[3].lower().split()
    for modifier in ("unsigned", "zerofill", "signed"):
        if name.endswith(f" {modifier}"):
            name = name.removesuffix(f" {modifier}")
            modifiers.append(modifier)
    return _type_of(name, match[2], "unsigned" in modifiers or "zerofill" in modifiers)


def _type_of(name: str, width: str | None, is_unsigned: bool) -> MysqlType:
    if name in _INTEGERS:
        return MysqlType(_of(_INTEGERS[name][is_unsigned]))
    if name == "serial" or (name in ("bigint", "int8") and is_unsigned):
        return MysqlType(_UNSIGNED_LONG)
    if name in ("bigint", "int8"):
        return MysqlType(_of(Root.BIGINT))
    if name in ("bool", "boolean"):
        return MysqlType(_of(Root.BOOLEAN), Text.TRUTH)
    if name == "bit":
        return _bits(_numbers(width))
    if name in _FLOATS:
        return MysqlType(_of(_FLOATS[name]))
    if name in _DECIMALS:
        return _decimal(_numbers(width))
    if name == "year":
        return MysqlType(_of(Root.INT))
    if name == "date":
        return MysqlType(_of(Root.DATE), Text.DATE)
    if name in ("datetime", "timestamp"):
        precision = (_numbers(width) or (0,))[0]
        t = DataType(Root.TIMESTAMP, precision=min(precision, _FINEST))
        return MysqlType(t, Text.DATE if name == "datetime" else Text.INSTANT, has_width=width is not None)
    if name in _BYTES:
        return MysqlType(bytes_(), encoding=LATIN1_BYTES)
    if name in ("enum", "set"):
        words = tuple(map(_unquoted, _WORDS.findall(width or "")))
        if words:
            return MysqlType(string(), Text.ENUM if name == "enum" else Text.SET, words=words)
        return MysqlType(_of(Root.INT) if name == "enum" else _UNSIGNED_LONG)
    return MysqlType(string())


def _bits(numbers: tuple[int, ...]) -> MysqlType:
    """BIT: the number of its bits; a single bit is a truth value. Without a width there may be 64."""
    count = numbers[0] if numbers else 64
    if count <= 1:
        return MysqlType(_of(Root.BOOLEAN), Text.TRUTH)
    return MysqlType(_of(Root.BIGINT) if count < 64 else _UNSIGNED_LONG)


def _decimal(numbers: tuple[int, ...]) -> MysqlType:
    if not numbers:
        return MysqlType(DataType(Root.DECIMAL, precision=_MAX_PRECISION, scale=0), has_width=False)
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
        return MysqlType(string())
    return MysqlType(DataType(Root.DECIMAL, precision=precision, scale=scale))


def _numbers(width: str | None) -> tuple[int, ...]:
    parts = [] if width is None else [part.strip() for part in width.split(",")]
    return tuple(map(int, parts)) if parts and all(p.isdecimal() and len(p) < 4 for p in parts) else ()


def _unquoted(word: str) -> str:
    return re.sub(r"''|\\(.)", lambda m: m[1] or "'", word, flags=re.S)


def fitted(meant: MysqlType, texts: Iterable[str | None]) -> DataType:
    """The type for a new column whose width the type does not give: as wide as these texts.

    MySQL writes all fraction digits of a column, so that each value shows how many there are.
    """
    if meant.has_width:
        return meant.type
    given = [text for text in texts if text is not None]
    digits = max((len(text) - text.index(".") - 1 for text in given if "." in text), default=0)
    if meant.type.root is Root.DECIMAL:
        return replace(meant.type, scale=digits) if digits <= _MAX_PRECISION else string()
    return replace(meant.type, precision=min(digits, _FINEST))
