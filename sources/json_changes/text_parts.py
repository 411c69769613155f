"""Cutting many JSON texts at once, without parsing them: where their ends begin, which of these are alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BLANKED = bytes.maketrans(b"123456789", b"0" * 9)
_BLOCK_BYTES = 1 << 18
_MOST_DISTANCES = 48
_LEAST_TEXTS = 16
_MOST_SHAPES = 256


MS_DIGITS = 13
"""Of every moment between the years 2001 and 2286, in milliseconds."""
_POWERS = 10.0 ** np.arange(MS_DIGITS - 1, -1, -1)
"""A float holds integers of up to 15 digits exactly."""


def milliseconds(data: npt.NDArray[np.uint8], firsts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers whose ``MS_DIGITS`` digits begin at these places."""
    digits = data[firsts[:, None] + np.arange(MS_DIGITS)] - ord("0")
    found: npt.NDArray[np.int64] = (digits.astype(np.float64) @ _POWERS).astype(np.int64)
    return found


def are_utf8(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which binary values, none of them null, are UTF-8 text."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([_is_utf8(value) for value in values.to_pylist()], np.bool_)
    return np.ones(len(values), np.bool_)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


@dataclass(frozen=True, slots=True)
class CutTexts:
    """Texts, by their ``indices``, that are cut into a head and a tail each; places are places in ``data``.

    ``shape_of`` has the shape of each tail: tails of one shape differ only in digits, so not in length either.
    ``firsts[i]`` is the tail of the first text of shape i.
    """

    indices: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    cuts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    shape_of: npt.NDArray[np.int64]
    firsts: tuple[bytes, ...]

    def told_by_first(self, literals: Sequence[Iterable[bytes] | None]) -> npt.NDArray[np.bool_]:
        """The tails that the first of their shape speaks for.

        ``literals`` has per shape the texts with digits that its tails must have in common; None for a shape whose
        first tail says nothing.
        """
        told = np.ones(len(self.shape_of), np.bool_)
        for shape, (tail, texts) in enumerate(zip(self.firsts, literals, strict=True)):
            if texts is None:
                told[self.shape_of == shape] = False
            for text in texts or ():
                same = np.flatnonzero(self.shape_of == shape)
                told[same] &= stands_at(self.data, self.cuts[same] + tail.index(text), text)
        return told


def cut_texts(texts: pa.Array, mark: bytes) -> CutTexts | None:
    """Cut binary texts at the last ``mark`` of each; those without one are left out. None if that does not pay."""
    if len(texts) < _LEAST_TEXTS:
        return None
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    if offsets[-1] == offsets[0]:
        return None
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    cuts = cuts_at(mark, data, offsets)
    found = np.flatnonzero(cuts > offsets[:-1])
    if len(found) * 2 < len(texts):
        return None
    cuts, ends = cuts[found], offsets[1:][found]
    alike = blanked(slices(texts, data, cuts, ends))
    if alike is None or len(alike.dictionary) > _MOST_SHAPES:
        return None
    shape_of = np.asarray(alike.indices).astype(np.int64)
    firsts = np.full(len(alike.dictionary), -1, np.int64)
    firsts[shape_of[::-1]] = np.arange(len(shape_of))[::-1]
    tails = tuple(data[cuts[first] : ends[first]].tobytes() for first in firsts.tolist())
    return CutTexts(found, data, offsets[:-1][found], cuts, ends, shape_of, tails)


def literals_with_digits(tail: bytes, named: Iterable[tuple[str, str]]) -> list[bytes] | None:
    """The fields of a tail whose texts hold digits, as they stand in it; None unless each stands there once."""
    literals = []
    for name, text in named:
        literal = f"{json_of(name)}:{json_of(text)}".encode()
        if tail.count(literal) != 1:
            return None
        if any(char.isdigit() for char in text):
            literals.append(literal)
    return literals


def json_of(text: str) -> str:
    """A text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def ended_with(end: bytes, texts: pa.Array) -> pa.Array:
    """The texts, which have no other user yet, with their last bytes replaced."""
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[1 : len(texts) + 1]
    for distance, char in enumerate(reversed(end), start=1):
        data[ends - distance] = char
    return texts


def cuts_at(mark: bytes, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where the tail of each text begins, which is at the last ``mark``; -1 if it was not found.

    Tails have few distinct lengths.
    """
    return _marks(mark, data, offsets[:-1], offsets[1:], offsets[1:], lambda text: text.rfind(mark))


def middles_at(
    mark: bytes, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Where the ``mark`` stands in each text; -1 if it was not found. The halves beside it have similar lengths.

    If texts have the mark twice, most are -1 too.
    """
    middles = (starts + ends) // 2
    return _marks(mark, data, starts, ends, middles, lambda text: text.find(mark) if text.count(mark) == 1 else -1)


def _marks(
    mark: bytes,
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    anchors: npt.NDArray[np.int64],
    place: Callable[[bytes], int],
) -> npt.NDArray[np.int64]:
    """The place of the mark in each text by ``place``; -1 if there is none.

    Its distance from the anchor in one text is tried on all others at once.
    """
    found = np.full(len(starts), -1, np.int64)
    rest = np.arange(len(found))
    for _ in range(_MOST_DISTANCES):
        if not len(rest):
            break
        first = rest[0]
        at = place(data[starts[first] : ends[first]].tobytes())
        if at < 0:
            rest = rest[1:]
            continue
        places = anchors[rest] + (starts[first] + at - anchors[first])
        is_inside = (places >= starts[rest]) & (places <= ends[rest] - len(mark))
        fits = is_inside & stands_at(data, places, mark)
        found[rest[fits]] = places[fits]
        rest = rest[~fits]
    for index in rest.tolist():
        at = place(data[starts[index] : ends[index]].tobytes())
        found[index] = -1 if at < 0 else starts[index] + at
    return found


def stands_at(data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], text: bytes) -> npt.NDArray[np.bool_]:
    """At which of the positions the text stands."""
    found = (positions >= 0) & (positions <= len(data) - len(text))
    if not found.any():
        return found
    places = positions if found.all() else np.where(found, positions, 0)
    word = np.dtype((np.void, len(text)))
    words = np.ndarray(len(data) - len(text) + 1, word, data.data, strides=(1,))
    found &= words[places] == np.frombuffer(text, word)[0]
    return found


def slices(
    texts: pa.Array, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> pa.Array:
    """Parts of the texts as a separate binary array, through a view array, whose entries may be anywhere.

    The views have no prefixes, which serve comparisons only.
    """
    lengths = ends - starts
    views = np.zeros(len(starts), [("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])
    views["length"] = lengths
    views["offset"] = starts
    inlined = views.view(np.uint8).reshape(-1, 16)
    for short in np.flatnonzero(lengths <= 12).tolist():
        inlined[short, 4:] = 0
        inlined[short, 4 : 4 + lengths[short]] = data[starts[short] : ends[short]]
    view_array = pa.Array.from_buffers(pa.binary_view(), len(starts), [None, pa.py_buffer(views), texts.buffers()[2]])
    return view_array.cast(pa.binary())


def blanked(tails: pa.Array) -> pa.DictionaryArray | None:
    """The tails, in place, with blanked digits, dictionary encoded; None if a sample shows too many shapes."""
    sample = {tail.translate(_BLANKED) for tail in tails[:64].to_pylist()}
    if len(sample) > 48:
        return None
    chars = np.frombuffer(tails.buffers()[2], np.uint8)
    for start in range(0, len(chars), _BLOCK_BYTES):
        block = chars[start : start + _BLOCK_BYTES]
        above_zero = block - ord("0")
        above_zero *= above_zero < 10
        block -= above_zero
    return tails.dictionary_encode()
