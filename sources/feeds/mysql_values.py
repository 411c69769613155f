"""The texts of MySQL values, rewritten for the converters of values: words for numbers, instants, zero dates.

Whole columns at once: a column has few words and few zero dates, and the rest is arithmetic of Arrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.types import DataType, Root
from sources.feeds.feed_options import FeedOptions
from sources.feeds.mysql_types import MysqlType, Text

_ZERO_DATE = re.compile(r"\d{4}-(?:00-\d\d|\d\d-00)(?:[ T].*)?", re.ASCII | re.DOTALL)
_ZERO_DATE_TEXT = r"^\d{4}-(00-\d\d|\d\d-00)([ T].*)?$"
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d{1,9})?", re.ASCII)
_MOMENT_TEXT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?$"
_SPACED_ZONE = r"\d (Z|[+-]\d\d:\d\d)$"
_ZONED = re.compile(r"(.*\d) ?(Z|[+-]\d\d:\d\d)", re.ASCII)
_TRUTH = {"0": "false", "1": "true"}


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How the texts of one column are rewritten, for a column of the type ``target``."""

    meant: MysqlType
    target: DataType
    options: FeedOptions

    def of_values(self, values: pa.Array | list[Any]) -> pa.Array | list[Any]:
        """The values of a column, rewritten; values that are not text stay."""
        if isinstance(values, list):
            return [self.of_value(value) if isinstance(value, str) else value for value in values]
        if not pa.types.is_string(values.type) or self.is_idle:
            return values
        if self.meant.text in (Text.DATE, Text.INSTANT):
            return self._moments(values)
        encoded = values.dictionary_encode()
        words = [self.of_value(word) for word in encoded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(encoded.indices)

    @property
    def is_idle(self) -> bool:
        """Whether no text of the column is rewritten."""
        return self.meant.text in (Text.AS_IS, Text.TRUTH) and self.target.root is not Root.BOOLEAN

    def of_value(self, text: str) -> str | None:
        """One text, rewritten; one that does not fit its type stays, so that the converter names it."""
        match self.meant.text:
            case Text.ENUM:
                return _enum_word(text, self.meant.words)
            case Text.SET:
                return _set_words(text, self.meant.words)
            case Text.DATE | Text.INSTANT:
                if self.options.zero_dates == "null" and is_zero_date(text):
                    return None
                return self._moment(text)
            case _:
                return _TRUTH.get(text, text) if self.target.root is Root.BOOLEAN else text

    def _moment(self, text: str) -> str:
        zoned = _ZONED.fullmatch(text)
        if zoned is not None:
            return f"{zoned[1]}{zoned[2]}"
        if self.target.root is not Root.TIMESTAMP_LTZ or not self.options.has_zone:
            return text
        moment = _MOMENT.fullmatch(text)
        return text if moment is None else _with_offset(moment[1], moment[2] or "", self.options.time_zone)

    def _moments(self, texts: pa.Array) -> pa.Array:
        zero = pc.fill_null(pc.match_substring_regex(texts, _ZERO_DATE_TEXT), False)
        if self.options.zero_dates == "null" and pc.any(zero).as_py():
            texts = pc.if_else(zero, pa.scalar(None, pa.string()), texts)
        if self.target.root is not Root.TIMESTAMP_LTZ or not self.options.has_zone:
            zoned = np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(texts, _SPACED_ZONE), False)))
            return self._one_by_one(texts, texts, zoned)
        is_plain = pc.fill_null(pc.match_substring_regex(texts, _MOMENT_TEXT), True)
        plain = pc.if_else(is_plain, texts, pa.scalar(None, pa.string()))
        try:
            moments = plain.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:  # a day that its month does not have
            return self._one_by_one(texts, texts, np.arange(len(texts)))
        instants = pc.assume_timezone(moments, self.options.time_zone, ambiguous="earliest", nonexistent="latest")
        moved = instants.cast(pa.timestamp("us", "UTC")).cast(pa.string())
        return self._one_by_one(texts, moved, np.flatnonzero(~np.asarray(is_plain)))

    def _one_by_one(self, texts: pa.Array, rewritten: pa.Array, indices: npt.NDArray[np.intp]) -> pa.Array:
        """The rewritten texts, and those at some indices rewritten singly."""
        if not len(indices):
            return rewritten
        values = rewritten.to_pylist()
        for index in indices.tolist():
            text = texts[index].as_py()
            values[index] = None if text is None else self._moment(text)
        return pa.array(values, pa.string())


def are_numbers(values: pa.Array | list[Any]) -> npt.NDArray[np.bool_]:
    """Texts that consist of digits."""
    if isinstance(values, list):
        return np.array([isinstance(value, str) and _number(value) is not None for value in values], np.bool_)
    if not pa.types.is_string(values.type):
        return np.zeros(len(values), np.bool_)
    return np.asarray(pc.fill_null(pc.match_substring_regex(values, r"^[0-9]{1,20}$"), False))


def is_zero_date(text: str) -> bool:
    """Whether a text is a date or moment without a month or a day."""
    return _ZERO_DATE.fullmatch(text) is not None


def _with_offset(moment: str, fraction: str, zone: str) -> str:
    """A moment of a zone in UTC, the earlier of two; the text itself for a day that does not exist."""
    try:
        stamp = pa.scalar(moment.replace("T", " ")).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return f"{moment}{fraction}"
    zoned = pc.assume_timezone(stamp, zone, ambiguous="earliest", nonexistent="latest")
    return f"{zoned.cast(pa.timestamp('s', 'UTC')).cast(pa.string()).as_py().removesuffix('Z')}{fraction}Z"


def _enum_word(text: str, words: tuple[str, ...]) -> str:
    """The word of an ENUM: by its number, or itself; number 0 is the empty text that MySQL stores for a wrong word."""
    number = _number(text)
    if number is None or number > len(words):
        return text
    return words[number - 1] if number else ""


def _set_words(text: str, words: tuple[str, ...]) -> str:
    """The words of a SET with commas between them, from a number whose bits they are."""
    number = _number(text)
    if number is None or number >> len(words):
        return text
    return ",".join(word for i, word in enumerate(words) if number >> i & 1)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else None
