"""Splitting envelope texts into row images and the rest, so that the rest need not be parsed record by record.

    {"before":B,"after":A,"source":{...},"transaction":null,"op":"c","ts_ms":...}
    |------- head -------|--------------------- tail --------------------------|

An unescaped ``,"source":{`` is never inside a JSON string. So ``head + "}"`` and ``"{" + tail`` (without its comma) are
both JSON objects exactly if the text is one and the split is at its top level. Heads go to the JSON parser. If each
head has only one row image, as without old rows in the source's log, the bare images go there, which is cheaper.

Tails of one table differ only in digits, apart from a few shapes (lengths of numbers, operations). With digits blanked
out, each distinct shape is parsed once and gives the operation and the source table's names for all its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.debezium_json.envelope_schema import NAME_FIELDS
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.taking import taken
from sources.json_changes.text_parts import blanked, cuts_at, ended_with, slices, stands_at

_MARK = b',"source":{'
_AFTER_ALONE = b'{"before":null,"after":'
_BEFORE_ALONE = (b'{"before":', b',"after":null')
_LEAST_TEXTS = 16
_MOST_SHAPES = 256


@dataclass(frozen=True, slots=True)
class Heads:
    """The parts of split texts with the row images: heads, or one bare image of each.

    ``lines`` are JSON objects, each with a newline behind it. ``is_before`` says for bare images which are ``before``,
    the others being ``after``; None for heads.
    """

    lines: pa.Array
    is_before: npt.NDArray[np.bool_] | None = None

    def taken(self, indices: npt.NDArray[np.int64]) -> Heads:
        is_before = None if self.is_before is None else self.is_before[indices]
        return Heads(taken(self.lines, indices), is_before)


@dataclass(frozen=True, slots=True)
class Tails:
    """The other parts of split texts, by shape: texts of one shape differ only in digits, so not in length either.

    ``firsts[i]`` is the tail of the first text of shape i; ``shape_of`` has one number per split text.
    """

    firsts: tuple[bytes, ...]
    shape_of: npt.NDArray[np.int64]

    def taken(self, indices: npt.NDArray[np.int64]) -> Tails:
        return Tails(self.firsts, self.shape_of[indices])

    def of_shapes(self, shapes: Sequence[int]) -> npt.NDArray[np.int64]:
        """The split texts whose tails have one of these shapes."""
        wanted = np.zeros(len(self.firsts), np.bool_)
        wanted[shapes] = True
        return np.flatnonzero(wanted[self.shape_of])


@dataclass(frozen=True, slots=True)
class SplitEnvelopes:
    """Texts that were split: their indices, heads and tails; ``shapes[i]`` is the parsed first tail of shape i."""

    indices: npt.NDArray[np.int64]
    heads: Heads
    tails: Tails
    shapes: tuple[Mapping[str, Any], ...]


def split_envelopes(texts: pa.Array) -> SplitEnvelopes | None:
    """Split binary texts; those without a usable split are left out. None if splitting does not pay."""
    if len(texts) < _LEAST_TEXTS:
        return None
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    if offsets[-1] == offsets[0]:
        return None
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    cuts = cuts_at(_MARK, data, offsets)
    found = np.flatnonzero(cuts >= 0)
    if len(found) * 2 < len(texts):
        return None
    starts, cuts, ends = offsets[:-1][found], cuts[found], offsets[1:][found]
    alike = blanked(slices(texts, data, cuts, ends))
    if alike is None or len(alike.dictionary) > _MOST_SHAPES:
        return None
    shape_of = np.asarray(alike.indices).astype(np.int64)
    firsts, shapes, usable = _parsed_shapes(shape_of, len(alike.dictionary), data, cuts, ends)
    usable &= data[starts] == ord("{")
    heads = _heads(texts, data, starts[usable], cuts[usable])
    return SplitEnvelopes(found[usable], heads, Tails(firsts, shape_of[usable]), shapes)


def _heads(
    texts: pa.Array, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Heads:
    """The heads, as bare images if every head has the braces of one image where the other is null."""
    is_after = stands_at(data, starts, _AFTER_ALONE)
    left, right = _BEFORE_ALONE
    is_before = ~is_after & stands_at(data, starts, left) & stands_at(data, ends - len(right), right)
    firsts = starts + np.where(is_before, len(left), len(_AFTER_ALONE))
    lasts = ends - np.where(is_before, len(right), 0)
    alone = (is_after | is_before) & (lasts - firsts >= 2)
    if not alone.all() or (data[firsts] != ord("{")).any() or (data[lasts - 1] != ord("}")).any():
        return Heads(ended_with(b"}\n", slices(texts, data, starts, ends + 2)))
    return Heads(ended_with(b"\n", slices(texts, data, firsts, lasts + 1)), is_before)


def _parsed_shapes(
    shape_of: npt.NDArray[np.int64],
    count: int,
    data: npt.NDArray[np.uint8],
    cuts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> tuple[tuple[bytes, ...], tuple[Mapping[str, Any], ...], npt.NDArray[np.bool_]]:
    """The first tail of each shape, its content, and the tails that it represents.

    Names that hold digits are compared in every tail of the shape.
    """
    firsts = np.full(count, -1, np.int64)
    firsts[shape_of[::-1]] = np.arange(len(shape_of))[::-1]
    usable = np.ones(len(shape_of), np.bool_)
    shapes: list[Mapping[str, Any]] = []
    tails: list[bytes] = []
    for shape, first in enumerate(firsts.tolist()):
        tail = data[cuts[first] : ends[first]].tobytes()
        members = _members(tail)
        literals = None if members is None else _name_literals(members, tail)
        if members is None or literals is None:
            usable[shape_of == shape] = False
        for literal in literals or ():
            same = np.flatnonzero(shape_of == shape)
            usable[same] &= stands_at(data, cuts[same] + tail.index(literal), literal)
        shapes.append(members or {})
        tails.append(tail)
    return tuple(tails), tuple(shapes), usable


def _members(tail: bytes) -> Mapping[str, Any] | None:
    """The content of a tail; None if it holds row images too, or no event."""
    try:
        members = parse_json(b"{" + tail[1:])
    except MalformedRecord:
        return None
    if not isinstance(members, dict) or not isinstance(members.get("source"), dict):
        return None
    return None if members.keys() & {"before", "after"} else members


def _name_literals(members: Mapping[str, Any], tail: bytes) -> list[bytes] | None:
    """The texts of names with digits; None unless each name is in the tail literally and once."""
    named = {"op": members.get("op")} | {key: members["source"].get(key) for key in NAME_FIELDS}
    literals = []
    for key, name in named.items():
        if isinstance(name, str):
            literal = f'"{key}":"{name}"'.encode()
            if tail.count(literal) != 1:
                return None
            if any(char.isdigit() for char in name):
                literals.append(literal)
    return literals
