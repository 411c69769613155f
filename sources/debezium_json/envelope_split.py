"""Splitting envelope texts into row images and the rest, so that the rest need not be parsed record by record.

    {"before":B,"after":A,"source":{...},"transaction":null,"op":"c","ts_ms":...}
    |------- head -------|--------------------- tail --------------------------|

An unescaped ``,"source":{`` is never inside a JSON string. So ``head + "}"`` and ``"{" + tail`` (without its comma) are
both JSON objects exactly if the text is one and the split is at its top level. Heads go to the JSON parser. Where all
heads have the layout above, bare row images go there, which is cheaper. A head with two images is split between them in
the same way: both are JSON objects exactly if the head is one and the split is at its top level.

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
from sources.json_changes.text_parts import cut_texts, ended_with, literals_with_digits, middles_at, slices, stands_at

_MARK = b',"source":{'
_AFTER_ALONE = b'{"before":null,"after":'
_BEFORE_ALONE = (b'{"before":', b',"after":null')
_BETWEEN = b',"after":{'


@dataclass(frozen=True, slots=True)
class OldRows:
    """The ``before`` images of the texts that have both images; ``of`` has the index of each text, rising.

    ``lines`` are JSON objects, each with a newline behind it.
    """

    lines: pa.Array
    of: npt.NDArray[np.int64]

    def between(self, start: int, stop: int) -> OldRows:
        """Those of the texts from ``start`` to ``stop``, counted from there."""
        first, last = np.searchsorted(self.of, [start, stop]).tolist()
        return OldRows(self.lines.slice(first, last - first), self.of[first:last] - start)

    def chosen(self, mask: npt.NDArray[np.bool_]) -> OldRows:
        """Some of them, of the same texts."""
        return OldRows(taken(self.lines, np.flatnonzero(mask)), self.of[mask])

    def taken(self, indices: npt.NDArray[np.int64]) -> OldRows:
        """Those of the texts with these indices, which rise and are the new texts."""
        here = np.flatnonzero(np.isin(indices, self.of, assume_unique=True))
        return OldRows(taken(self.lines, np.searchsorted(self.of, indices[here])), here)


@dataclass(frozen=True, slots=True)
class Heads:
    """The parts of split texts with the row images: heads, or one bare image of each.

    ``lines`` are JSON objects, each with a newline behind it. ``is_before`` says for bare images which are ``before``,
    the others being ``after``; None for heads. ``old`` has the other images of texts whose bare image is ``after``.
    """

    lines: pa.Array
    is_before: npt.NDArray[np.bool_] | None = None
    old: OldRows | None = None

    def taken(self, indices: npt.NDArray[np.int64]) -> Heads:
        """Those of the texts with these indices, which rise."""
        if len(indices) == len(self.lines):
            return self
        is_before = None if self.is_before is None else self.is_before[indices]
        old = None if self.old is None else self.old.taken(indices)
        return Heads(taken(self.lines, indices), is_before, old)


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
    cut = cut_texts(texts, _MARK)
    if cut is None:
        return None
    members = [_members(tail) for tail in cut.firsts]
    literals = [None if m is None else _name_literals(m, tail) for m, tail in zip(members, cut.firsts, strict=True)]
    usable = cut.told_by_first(literals) & (cut.data[cut.starts] == ord("{"))
    heads = _heads(texts, cut.data, cut.starts[usable], cut.cuts[usable])
    return SplitEnvelopes(
        cut.indices[usable], heads, Tails(cut.firsts, cut.shape_of[usable]), tuple(m or {} for m in members)
    )


def _heads(
    texts: pa.Array, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Heads:
    """The heads, as bare images if every head has the braces of each of its images where the other is null or ends."""
    is_after = stands_at(data, starts, _AFTER_ALONE)
    left, right = _BEFORE_ALONE
    is_before = ~is_after & stands_at(data, starts, left) & stands_at(data, ends - len(right), right)
    firsts = starts + np.where(is_before, len(left), len(_AFTER_ALONE))
    lasts = ends - np.where(is_before, len(right), 0)
    both = np.flatnonzero(~(is_after | is_before))
    old_firsts = starts[both] + len(left)
    old_lasts = middles_at(_BETWEEN, data, old_firsts, ends[both])
    firsts[both] = old_lasts + len(_BETWEEN) - 1
    is_split = stands_at(data, starts[both], left).all() and (old_lasts >= 0).all()
    if not is_split or not _are_objects(data, firsts, lasts) or not _are_objects(data, old_firsts, old_lasts):
        return Heads(ended_with(b"}\n", slices(texts, data, starts, ends + 2)))
    old = OldRows(ended_with(b"\n", slices(texts, data, old_firsts, old_lasts + 1)), both) if len(both) else None
    return Heads(ended_with(b"\n", slices(texts, data, firsts, lasts + 1)), is_before, old)


def _are_objects(data: npt.NDArray[np.uint8], firsts: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64]) -> bool:
    """Whether all parts begin and end with the braces of an object, and the first one is an object.

    A field beside the images would be part of each.
    """
    if not len(firsts):
        return True
    if (lasts - firsts < 2).any() or (data[firsts] != ord("{")).any() or (data[lasts - 1] != ord("}")).any():
        return False
    try:
        return isinstance(parse_json(data[firsts[0] : lasts[0]].tobytes()), dict)
    except MalformedRecord:
        return False


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
    """The names with digits as they stand in a tail; None unless each name is there literally and once."""
    named = {"op": members.get("op")} | {key: members["source"].get(key) for key in NAME_FIELDS}
    return literals_with_digits(tail, ((key, name) for key, name in named.items() if isinstance(name, str)))
