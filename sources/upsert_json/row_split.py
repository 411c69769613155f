"""Splitting rows from the metadata fields behind them, so that these need not be parsed record by record.

    {"id":1,"v":"a","__deleted":"false","__op":"u","__table":"orders","__source_ts_ms":1795297252072}
    |--- head ----||---------------------------------- tail ----------------------------------------|

An unescaped ``,"__deleted":`` is never inside a JSON string. So ``head + "}"`` and ``"{" + tail`` (without its comma)
are both JSON objects exactly if the text is one and the split is at its top level. Heads are bare row images. Tails of
one table differ only in digits, apart from a few shapes. With digits blanked out, each distinct shape is parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.text_parts import (
    MS_DIGITS,
    CutTexts,
    cut_texts,
    ended_with,
    json_of,
    literals_with_digits,
    milliseconds,
    slices,
)
from sources.upsert_json.metadata import TIMES, FlatRows, Metadata, Role


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Texts that were split: their indices and heads, JSON objects with a newline after each.

    ``shapes[i]`` is the parsed first tail of shape i. It says the same as all tails of the shape, except for their
    times: these are in ``times_ms``.
    """

    indices: npt.NDArray[np.int64]
    heads: pa.Array
    shape_of: npt.NDArray[np.int64]
    shapes: tuple[Mapping[str, Any], ...]
    times_ms: pa.Array


def split_rows(texts: pa.Array, shape: FlatRows) -> SplitRows | None:
    """Split binary texts; those without a usable split are left out. None if splitting does not pay."""
    if not len(texts) or shape.is_kept:
        return None
    mark = _mark(texts[len(texts) // 2].as_py(), shape)
    if mark is None:
        return None
    cut = cut_texts(texts, mark)
    if cut is None:
        return None
    tails = _Tails(shape.metadata, cut)
    heads = ended_with(b"}\n", slices(texts, cut.data, cut.starts, cut.cuts + 2))
    usable = tails.usable & (cut.data[cut.starts] == ord("{")) & ~_hold_metadata(heads, shape)
    chosen = pa.array(np.flatnonzero(usable))
    return SplitRows(
        cut.indices[usable], heads.take(chosen), cut.shape_of[usable], tails.shapes, tails.times_ms().take(chosen)
    )


def _mark(text: bytes, shape: FlatRows) -> bytes | None:
    """The beginning of the metadata after the row of a text."""
    try:
        row = parse_json(text)
    except MalformedRecord:
        return None
    fields = [*row] if isinstance(row, dict) else []
    behind = 0
    while behind < len(fields) and fields[-1 - behind] in shape.metadata.names:
        behind += 1
    return None if behind in (0, len(fields)) else b"," + _name(fields[-behind]) + b":"


def _name(field: str) -> bytes:
    return json_of(field).encode()


def _hold_metadata(heads: pa.Array, shape: FlatRows) -> npt.NDArray[np.bool_]:
    """Which heads have fields themselves that give the operation of the row."""
    names = b"|".join(_quoted(_name(name)) for name in shape.metadata.roles)
    return np.asarray(pc.match_substring_regex(heads, b"(" + names + b"):"))


def _quoted(text: bytes) -> bytes:
    """The text as a regular expression."""
    return b"\\Q" + text.replace(b"\\E", b"\\E\\\\E\\Q") + b"\\E"


class _Tails:
    """Reads the tails by shape; ``usable`` marks those for which the first of their shape speaks."""

    def __init__(self, metadata: Metadata, cut: CutTexts) -> None:
        self._metadata, self._cut = metadata, cut
        self._time_at: list[tuple[int, bool]] = []
        members = [self._members(tail) for tail in cut.firsts]
        self.shapes = tuple(found or {} for found in members)
        self.usable = cut.told_by_first([*map(self._read, members, cut.firsts)])

    def _read(self, members: Mapping[str, Any] | None, tail: bytes) -> list[bytes] | None:
        """Note where the time of a tail is; gives its literals, None if the shape is not usable."""
        time_at = None if members is None else self._time_of(members, tail)
        self._time_at.append(time_at or (0, False))
        return None if members is None or time_at is None else self._literals(members, tail)

    def _members(self, tail: bytes) -> Mapping[str, Any] | None:
        """The content of a tail; None if it holds columns too."""
        try:
            members = parse_json(b"{" + tail[1:])
        except MalformedRecord:
            return None
        is_metadata = isinstance(members, dict) and members.keys() <= self._metadata.names
        return members if is_metadata else None

    def _literals(self, members: Mapping[str, Any], tail: bytes) -> list[bytes] | None:
        """Texts with digits that must be the same in all tails; None if they do not stand there literally and once."""
        told = {name: members.get(name) for name, role in self._metadata.roles.items() if role not in TIMES}
        texts = [(n, value) for n, value in told.items() if value is not None and not isinstance(value, bool)]
        return literals_with_digits(tail, texts) if all(isinstance(value, str) for _, value in texts) else None

    def _time_of(self, members: Mapping[str, Any], tail: bytes) -> tuple[int, bool] | None:
        """The place of the digits of the time in milliseconds in a tail; None if it is written otherwise."""
        for name in self._metadata.named(Role.TIME_MS):
            if members.get(name) is None:
                continue
            at = tail.find(_name(name) + b":") + len(_name(name)) + 1
            digits, behind = tail[at : at + MS_DIGITS], tail[at + MS_DIGITS : at + MS_DIGITS + 1]
            is_found = tail.count(_name(name)) == 1 and digits.isdigit() and behind in (b",", b"}")
            return (at, True) if is_found else None
        others = [name for name, role in self._metadata.roles.items() if role in TIMES]
        return None if any(members.get(name) is not None for name in others) else (0, False)

    def times_ms(self) -> pa.Array:
        """The times of all tails as int64, NULL if a tail has none."""
        at = np.array([at for at, _ in self._time_at], np.int64)[self._cut.shape_of]
        there = np.array([is_there for _, is_there in self._time_at], np.bool_)[self._cut.shape_of] & self.usable
        times = np.zeros(len(self._cut.shape_of), np.int64)
        found = np.flatnonzero(there)
        times[found] = milliseconds(self._cut.data, self._cut.cuts[found] + at[found])
        return pa.array(times, mask=~there)
