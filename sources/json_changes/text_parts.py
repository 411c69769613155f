"""Cutting many JSON texts at once, without parsing them: where their ends begin, which of these are alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BLANKED = bytes.maketrans(b"123456789", b"0" * 9)
_BLOCK_BYTES = 1 << 18
_MOST_TAIL_LENGTHS = 48


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


def ended_with(end: bytes, texts: pa.Array) -> pa.Array:
    """The texts, which have no other user yet, with their last bytes replaced."""
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[1 : len(texts) + 1]
    for distance, char in enumerate(reversed(end), start=1):
        data[ends - distance] = char
    return texts


def cuts_at(mark: bytes, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where the tail of each text begins, which is at the last ``mark``; -1 where it was not found.

    Tails have few distinct lengths: a length found in one text is tried on all others at once.
    """
    cuts = np.full(len(offsets) - 1, -1, np.int64)
    rest = np.arange(len(cuts))
    for _ in range(_MOST_TAIL_LENGTHS):
        if not len(rest):
            break
        start, end = offsets[rest[0]], offsets[rest[0] + 1]
        cut = data[start:end].tobytes().rfind(mark)
        if cut < 0:
            rest = rest[1:]
            continue
        at = offsets[rest + 1] - (end - start - cut)
        fits = (at >= offsets[rest]) & stands_at(data, at, mark)
        cuts[rest[fits]] = at[fits]
        rest = rest[~fits]
    for index in rest.tolist():
        cut = data[offsets[index] : offsets[index + 1]].tobytes().rfind(mark)
        cuts[index] = -1 if cut < 0 else offsets[index] + cut
    return cuts


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
