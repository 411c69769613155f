"""Parsers of option values: numbers with units in Paimon's form."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from paimon_table.errors import ConfigError

Parser = Callable[[str, str], object]
"""(option name, text) -> value; raises ConfigError for an invalid text."""

_SIZE_UNITS = {
    "b": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gibibytes": 1 << 30,
    "t": 1 << 40, "tb": 1 << 40, "tebibytes": 1 << 40,
}  # fmt: skip
_DURATION_UNITS_MS = {
    "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_NUMBER_WITH_UNIT = re.compile(r"\s*([0-9]+)\s*([a-zA-Z]*)\s*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOST_DIGITS = 400
"""The most digits of a number; Python refuses to parse very long ones."""

INT_MAX = (1 << 31) - 1
"""The largest value of Java's Integer, which most of Paimon's options are."""
LONG_MAX = (1 << 63) - 1


def boolean(name: str, text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ConfigError(f"option {name!r}: {text!r} is not true or false; write one of them", option=name)
    return lowered == "true"


def integer(minimum: int = -INT_MAX - 1, maximum: int = INT_MAX) -> Callable[[str, str], int]:
    """A parser of whole numbers from ``minimum`` to ``maximum``, in ASCII digits only."""

    def parse(name: str, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ConfigError(f"option {name!r}: {text!r} is not a whole number; write one", option=name)
        _check_length(name, text)
        value = int(text)
        if value < minimum:
            raise ConfigError(f"option {name!r}: {value} is too small; it must be at least {minimum}", option=name)
        if value > maximum:
            raise ConfigError(f"option {name!r}: {value} is too large; it must be at most {maximum}", option=name)
        return value

    return parse


def fraction(name: str, text: str) -> float:
    """A finite number that is not negative."""
    if len(text) > _MOST_DIGITS or not _FRACTION.fullmatch(text.strip()):
        raise ConfigError(f"option {name!r}: {_shown(text)} is not a number; write one such as 0.7", option=name)
    value = float(text)
    if value < 0 or not math.isfinite(value):
        raise ConfigError(
            f"option {name!r}: {text!r} is negative or too large; write a number such as 0.7", option=name
        )
    return value


def plain(name: str, text: str) -> str:
    return text


def names(name: str, text: str) -> tuple[str, ...]:
    """Comma-separated names, without blanks around them."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def lowered(name: str, text: str) -> str:
    """A word whose case does not matter."""
    return text.lower()


def file_prefix(name: str, text: str) -> str:
    """The start of file names; not a path, because readers identify a file by its name alone."""
    if "/" in text or "\\" in text:
        raise ConfigError(
            f"option {name!r}: {text!r} names a directory, but data files are in the directory of their bucket; write "
            f"a prefix without slashes",
            option=name,
        )
    return text


def per_level(name: str, text: str) -> tuple[tuple[int, str], ...]:
    """Words for levels, written ``0:avro,3:parquet``, sorted by level."""
    found: dict[int, str] = {}
    for part in names(name, text):
        level, colon, word = (piece.strip() for piece in part.partition(":"))
        if not colon or not word or not _INTEGER.fullmatch(level):
            raise ConfigError(
                f"option {name!r}: {part!r} is not understood; write LEVEL:VALUE,... such as 0:avro", option=name
            )
        number = integer(0)(name, level)
        if number in found:
            raise ConfigError(f"option {name!r}: level {level} is named twice; name it once", option=name)
        found[number] = word
    return tuple(sorted(found.items()))


def lowered_per_level(name: str, text: str) -> tuple[tuple[int, str], ...]:
    """Like ``per_level``, for words whose case does not matter."""
    return tuple((level, word.lower()) for level, word in per_level(name, text))


def is_per_level(parse: Parser) -> bool:
    """Whether a parser reads words for levels."""
    return parse in (per_level, lowered_per_level)


def names_among(*allowed: str) -> Callable[[str, str], tuple[str, ...]]:
    """A parser of comma-separated words; case is ignored."""
    one = one_of(*allowed)

    def parse(name: str, text: str) -> tuple[str, ...]:
        return tuple(one(name, word) for word in names(name, text))

    return parse


def one_of(*allowed: str) -> Callable[[str, str], str]:
    """A parser of words; as for Paimon's enums, it ignores only case."""
    read = word_of(*allowed)

    def parse(name: str, text: str) -> str:
        word = read(name, text)
        if word not in allowed:
            raise ConfigError(f"option {name!r}: {text!r} is unknown; use one of: {', '.join(allowed)}", option=name)
        return word

    return parse


def word_of(*known: str) -> Callable[[str, str], str]:
    """Like ``one_of``, but keeps unknown texts unchanged."""
    by_upper = {word.upper(): word for word in known}
    return lambda name, text: by_upper.get(text.upper(), text)


def size_bytes(name: str, text: str) -> int:
    """A memory size: ``134217728``, ``128 mb``, ``128mb``."""
    return _with_unit(name, text, _SIZE_UNITS, "b", "a size such as 128 mb")


def duration_ms(name: str, text: str) -> int:
    """A duration: ``10 ms``, ``1 h``; a bare number is milliseconds."""
    return _with_unit(name, text, _DURATION_UNITS_MS, "ms", "a duration such as 10 s")


def _with_unit(name: str, text: str, units: dict[str, int], default_unit: str, example: str) -> int:
    match = _NUMBER_WITH_UNIT.fullmatch(text)
    factor = units.get(match.group(2).lower() or default_unit) if match else None
    if match is None or factor is None:
        raise ConfigError(f"option {name!r}: {text!r} is not understood; write {example}", option=name)
    _check_length(name, text)
    value = int(match.group(1)) * factor
    if value > LONG_MAX:
        raise ConfigError(f"option {name!r}: {text!r} is too large; write {example}", option=name)
    return value


def _check_length(name: str, text: str) -> None:
    if len(text) > _MOST_DIGITS:
        raise ConfigError(f"option {name!r}: {_shown(text)} is too large; write a smaller number", option=name)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _MOST_DIGITS else f"a text of {len(text)} characters"
