"""Splitting rows from the metadata fields behind them, so that these need not be parsed record by record.

    {"id":1,"v":"a","__deleted":"false","__op":"u","__table":"orders","__source_ts_ms":1795297252072}
    |--- head ----||---------------------------------- tail ----------------------------------------|

An unescaped ``,"__deleted":`` is never inside a JSON string. So ``head + "}"`` and ``"{" + tail`` (without its comma)
are both JSON objects exactly if the text is one and the split is at its top level. Heads are bare row images. Tails of
one table differ only in digits, apart from a few shapes. With digits blanked out, each distinct shape is parsed once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.text_parts import blanked, cuts_at, ended_with, slices, stands_at
from sources.upsert_json.metadata import TIMES, FlatRows, Role

_LEAST_TEXTS = 16
_MOST_SHAPES = 256
_DIGITS = 13
"""Of every moment between the years 2001 and 2286, in milliseconds."""
_POWERS = 10.0 ** np.arange(_DIGITS - 1, -1, -1)
"""A float holds integers of up to 15 digits exactly."""


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
    if len(texts) < _LEAST_TEXTS or shape.is_kept:
        return None
    mark = _mark(texts[len(texts) // 2].as_py(), shape)
    if mark is None:
        return None
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    cuts = cuts_at(mark, data, offsets)
    found = np.flatnonzero(cuts > offsets[:-1])
    if len(found) * 2 < len(texts):
        return None
    starts, cuts, ends = offsets[:-1][found], cuts[found], offsets[1:][found]
    alike = blanked(slices(texts, data, cuts, ends))
    if alike is None or len(alike.dictionary) > _MOST_SHAPES:
        return None
    shape_of = np.asarray(alike.indices).astype(np.int64)
    tails = _Tails(shape, data, cuts, ends, shape_of)
    heads = ended_with(b"}\n", slices(texts, data, starts, cuts + 2))
    usable = tails.usable & (data[starts] == ord("{")) & ~_hold_metadata(heads, shape)
    chosen = pa.array(np.flatnonzero(usable))
    return SplitRows(
        found[usable], heads.take(chosen), shape_of[usable], tuple(tails.shapes), tails.times_ms().take(chosen)
    )


def _mark(text: bytes, shape: FlatRows) -> bytes | None:
    """How the metadata behind the row of a text begins."""
    try:
        fields = [*parse_json(text)]
    except (MalformedRecord, TypeError):
        return None
    behind = 0
    while behind < len(fields) and fields[-1 - behind] in shape.metadata.names:
        behind += 1
    return None if behind in (0, len(fields)) else b"," + _name(fields[-behind]) + b":"


def _name(field: str) -> bytes:
    return json.dumps(field, ensure_ascii=False).encode()


def _hold_metadata(heads: pa.Array, shape: FlatRows) -> npt.NDArray[np.bool_]:
    """Which heads have fields themselves that give the operation of the row."""
    names = b"|".join(_quoted(_name(name)) for name in shape.metadata.roles)
    return np.asarray(pc.match_substring_regex(heads, b"(" + names + b"):"))


def _quoted(text: bytes) -> bytes:
    """The text as a regular expression."""
    return b"\\Q" + text.replace(b"\\E", b"\\E\\\\E\\Q") + b"\\E"


class _Tails:
    """Reads the tails by shape; ``usable`` marks those for which the first of their shape speaks."""

    def __init__(
        self,
        shape: FlatRows,
        data: npt.NDArray[np.uint8],
        cuts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        shape_of: npt.NDArray[np.int64],
    ) -> None:
        self.usable = np.ones(len(shape_of), np.bool_)
        self.shapes: list[Mapping[str, Any]] = []
        self._metadata = shape.metadata
        self._data, self._cuts, self._shape_of = data, cuts, shape_of
        count = int(shape_of.max()) + 1
        firsts = np.full(count, -1, np.int64)
        firsts[shape_of[::-1]] = np.arange(len(shape_of))[::-1]
        self._time_at: list[tuple[int, bool]] = []
        for index, first in enumerate(firsts.tolist()):
            self._read(index, data[cuts[first] : ends[first]].tobytes())

    def _read(self, index: int, tail: bytes) -> None:
        members = self._members(tail)
        literals = None if members is None else self._literals(members, tail)
        time_at = None if members is None else self._time_of(members, tail)
        self.shapes.append(members or {})
        self._time_at.append(time_at or (0, False))
        if literals is None or time_at is None:
            self.usable[self._shape_of == index] = False
        for literal in literals or ():
            same = np.flatnonzero(self._shape_of == index)
            self.usable[same] &= stands_at(self._data, self._cuts[same] + tail.index(literal), literal)

    def _members(self, tail: bytes) -> Mapping[str, Any] | None:
        """The content of a tail; None if it holds columns too."""
        try:
            members = parse_json(b"{" + tail[1:])
        except MalformedRecord:
            return None
        is_metadata = isinstance(members, dict) and members.keys() <= self._metadata.names
        return members if is_metadata else None

    def _literals(self, members: Mapping[str, Any], tail: bytes) -> list[bytes] | None:
        """Texts with digits that must be the same in all tails; None if a tail does not have them literally and
        once."""
        literals = []
        for name, role in self._metadata.roles.items():
            value = members.get(name)
            if role in TIMES or value is None or isinstance(value, bool):
                continue
            if not isinstance(value, str):
                return None
            literal = _name(name) + b":" + _name(value)
            if tail.count(literal) != 1:
                return None
            if any(char.isdigit() for char in value):
                literals.append(literal)
        return literals

    def _time_of(self, members: Mapping[str, Any], tail: bytes) -> tuple[int, bool] | None:
        """Where the digits of the time in milliseconds are in a tail, if any; None if it is written otherwise."""
        for name in self._metadata.named(Role.TIME_MS):
            if members.get(name) is None:
                continue
            at = tail.find(_name(name) + b":") + len(_name(name)) + 1
            digits, behind = tail[at : at + _DIGITS], tail[at + _DIGITS : at + _DIGITS + 1]
            is_found = tail.count(_name(name)) == 1 and digits.isdigit() and behind in (b",", b"}")
            return (at, True) if is_found else None
        others = [name for name, role in self._metadata.roles.items() if role in TIMES]
        return None if any(members.get(name) is not None for name in others) else (0, False)

    def times_ms(self) -> pa.Array:
        """The times of all tails as int64, NULL where a tail has none."""
        at = np.array([at for at, _ in self._time_at], np.int64)[self._shape_of]
        there = np.array([is_there for _, is_there in self._time_at], np.bool_)[self._shape_of] & self.usable
        times = np.zeros(len(self._shape_of), np.int64)
        found = np.flatnonzero(there)
        digits = self._data[(self._cuts[found] + at[found])[:, None] + np.arange(_DIGITS)] - ord("0")
        times[found] = digits.astype(np.float64) @ _POWERS
        return pa.array(times, mask=~there)
