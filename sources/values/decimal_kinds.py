"""Distinguishes base64 decimals from text decimals where no schema says which, for whole columns.

A number in plain notation with a point or a minus sign is text; valid base64 that is neither a number nor a word is
base64. ``"1234"``, ``"1E+2"`` and ``"much"`` may be both. One record shows nothing about another: only many values that
agree show what those are. Only small letters count as a word: a third of Debezium's base64 is letters alone, and nearly
all of that has a capital one. ``json_values.decimal_form`` has the same rules for one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.column_forms import BASE64_DECIMALS, EITHER_DECIMALS, TEXT_DECIMALS
from sources.values.base64_columns import text_of
from sources.values.encodings import Kind
from sources.values.json_values import NO_NUMBER

Mask = npt.NDArray[np.bool_]

MANY = 100
"""The number of agreeing values that decides about ambiguous ones."""

_OF_TEXT, _OF_EITHER, _SMALL_E, _SMALL, _OF_BASE64, _ODD = 1, 2, 4, 8, 16, 32
_CLASSES = np.full(256, _ODD, np.uint8)
_CLASSES[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ/=")] = _OF_BASE64
_CLASSES[list(b"abcdefghijklmnopqrstuvwxyz")] = _SMALL
_CLASSES[list(b"0123456789E+")] = _OF_EITHER
_CLASSES[list(b"e")] = _SMALL_E
_CLASSES[list(b".-")] = _OF_TEXT
_WORDS = pa.array(sorted(word for word in NO_NUMBER if len(word) % 4 == 0))


@dataclass(frozen=True, slots=True)
class DecimalKinds:
    """Marks strings that can only be text, and those that can only be base64; the others need an exact check."""

    text: Mask
    base64: Mask


def decimal_kinds(strings: pa.Array) -> DecimalKinds:
    """The kinds of a string array; that an entry can only be base64 does not mean that it is well-formed."""
    filled = strings.fill_null("") if strings.null_count else strings
    offsets, text = text_of(filled)
    lengths = np.diff(offsets)
    classes = np.zeros(len(lengths), np.uint8)
    full = lengths > 0
    if full.any():
        classes[full] = np.bitwise_or.reduceat(_CLASSES[text], offsets[:-1][full])
    in_fours = lengths % 4 == 0
    is_text = full & (classes < _SMALL) & (~in_fours | ((classes & _OF_TEXT) > 0))
    may_be_word = (classes & ~np.uint8(_SMALL | _SMALL_E)) == 0
    is_base64 = in_fours & ((classes & (_OF_TEXT | _ODD)) == 0) & ((classes & (_SMALL | _OF_BASE64)) > 0) & ~may_be_word
    short = np.flatnonzero(is_base64 & (lengths <= 8))
    if len(short):
        words = pc.utf8_lower(filled.take(pa.array(short)))
        is_base64[short[np.asarray(pc.is_in(words, value_set=_WORDS))]] = False
    return DecimalKinds(is_text, is_base64)


def told_by_values(parts: Iterable[pa.Array | list[Any]], known: str | None) -> str | None:
    """The form (``sources.column_forms``) of ambiguous values in a DECIMAL column, as its other values show it.

    ``known`` is the stored form: a single value that certainly has the other form puts it in doubt.
    """
    texts, others, padded, unsure = 0, 0, 0, 0
    for strings in map(_strings, parts):
        kinds = decimal_kinds(strings)
        texts, others = texts + int(kinds.text.sum()), others + int(kinds.base64.sum())
        padded += int(_is_padded(strings, kinds).sum())
        unsure += len(strings) - strings.null_count - int((kinds.text | kinds.base64).sum())
    if known in (TEXT_DECIMALS, BASE64_DECIMALS):
        return EITHER_DECIMALS if (padded if known == TEXT_DECIMALS else texts) else None
    if not unsure:
        return None
    if known == EITHER_DECIMALS or (texts and others) or max(texts, others) < MANY:
        return None
    return TEXT_DECIMALS if texts else BASE64_DECIMALS


def contradict(parts: Iterable[pa.Array | list[Any]], kind: Kind) -> bool:
    """Whether a string is surely text where a schema meant base64 (kind DECIMAL), or base64 where it meant text."""
    for strings in map(_strings, parts):
        kinds = decimal_kinds(strings)
        if (kinds.text if kind is Kind.DECIMAL else _is_padded(strings, kinds)).any():
            return True
    return False


def _is_padded(strings: pa.Array, kinds: DecimalKinds) -> Mask:
    """Base64 that ends as no word does."""
    padded: Mask = kinds.base64 & np.asarray(pc.fill_null(pc.ends_with(strings, "="), False))
    return padded


def _strings(values: pa.Array | list[Any]) -> pa.Array:
    """The strings among the values and inside their arrays."""
    if isinstance(values, list):
        inside = [v for value in values for v in (value if isinstance(value, list) else [value])]
        return pa.array([v for v in inside if isinstance(v, str)], pa.string())
    if pa.types.is_list(values.type):
        return _strings(values.flatten())
    return values if pa.types.is_string(values.type) else pa.nulls(0, pa.string())
