"""Base64 decoding of whole string columns with numpy.

The characters of all entries are in one buffer. Every well-formed entry has a length divisible by four, so one table
lookup and one reshape decode all texts at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_PAD = 64
_INVALID = 255
_CODES = np.full(256, _INVALID, np.uint8)
for _code, _char in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _CODES[_char] = _code
_CODES[ord("=")] = _PAD

LARGEST_DECIMAL_BYTES = 15
"""Numbers of this many bytes surely have less than 38 digits."""


@dataclass(frozen=True, slots=True)
class DecodedBase64:
    """Entry i is ``data[starts[i] : starts[i] + lengths[i]]``; NULL and malformed entries have length 0."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    malformed: npt.NDArray[np.bool_]


def decode_base64(strings: pa.Array) -> DecodedBase64:
    """Decode a string array in the standard alphabet with padding."""
    offsets, text = text_of(strings)
    malformed = np.diff(offsets) % 4 != 0
    if malformed.any():
        return _without(strings, malformed)
    codes = _CODES[text]
    lengths = np.diff(offsets)
    pads = _padding(text, offsets, lengths)
    odd = codes >= _PAD
    if np.count_nonzero(odd) != pads.sum():
        odd[np.concatenate((offsets[1:][pads > 0] - 1, offsets[1:][pads > 1] - 2))] = False
        malformed[np.searchsorted(offsets, np.flatnonzero(odd), side="right") - 1] = True
        return _without(strings, malformed)
    codes[odd] = 0
    quads = codes.reshape(-1, 4).astype(np.uint32)
    word = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    data = np.empty((len(quads), 3), np.uint8)
    data[:, 0] = word >> 16
    data[:, 1] = word >> 8 & 0xFF
    data[:, 2] = word & 0xFF
    return DecodedBase64(data.reshape(-1), offsets[:-1] // 4 * 3, lengths // 4 * 3 - pads, malformed)


def _without(strings: pa.Array, malformed: npt.NDArray[np.bool_]) -> DecodedBase64:
    """Decode the other entries; malformed ones get length 0."""
    rest = decode_base64(strings.filter(pa.array(~malformed)))
    good = np.flatnonzero(~malformed)
    after = np.searchsorted(good, np.arange(len(strings)))
    starts = np.append(rest.starts, len(rest.data))[after]
    lengths = np.zeros(len(strings), np.int64)
    lengths[good] = rest.lengths
    still_malformed = malformed.copy()
    still_malformed[good] = rest.malformed
    return DecodedBase64(rest.data, starts, lengths, still_malformed)


def text_of(strings: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets from 0 and the UTF-8 bytes of a string array."""
    _, offset_buffer, data_buffer = strings.buffers()
    stored = np.frombuffer(offset_buffer, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    offsets = stored.astype(np.int64)
    if data_buffer is None:
        return offsets - offsets[0], np.empty(0, np.uint8)
    text = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], text


def _padding(
    text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Number of padding characters at the end of each entry: 0, 1 or 2."""
    pads = np.zeros(len(lengths), np.int64)
    filled = np.flatnonzero(lengths > 0)
    ends = offsets[1:][filled]
    last = text[ends - 1] == ord("=")
    pads[filled] = last.astype(np.int64) + (last & (text[ends - 2] == ord("=")))
    return pads


def binary_array(decoded: DecodedBase64, valid: pa.Array) -> pa.Array:
    """The decoded bytes as a binary array with the given validity (a boolean array)."""
    ends = decoded.starts + decoded.lengths
    padded = np.append(decoded.starts[1:], len(decoded.data)) - ends
    keep = np.ones(len(decoded.data), np.bool_)
    keep[ends[padded > 0]] = False
    keep[ends[padded > 1] + 1] = False
    offsets = np.zeros(len(decoded.lengths) + 1, np.int32)
    np.cumsum(decoded.lengths, out=offsets[1:])
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(decoded.data[keep])]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def unscaled_decimals(decoded: DecodedBase64, valid: pa.Array, scale: int) -> pa.Array:
    """The bytes as big-endian two's complement numbers: an array of ``decimal128(38, scale)``.

    Entries longer than ``LARGEST_DECIMAL_BYTES`` or empty give meaningless values; the caller leaves them out.
    """
    lengths = decoded.lengths
    words = np.zeros((len(lengths), 2), np.uint64)
    if len(decoded.data):
        largest = len(decoded.data) - 1
        signs = (decoded.data[np.minimum(decoded.starts, largest)] >= 0x80) & (lengths > 0)
        fill = np.where(signs, np.uint64(0xFF), np.uint64(0))
        last = decoded.starts + lengths - 1
        longest = min(int(lengths.max(initial=0)), LARGEST_DECIMAL_BYTES)
        for position in range(16):
            if position < longest:
                byte = decoded.data[np.clip(last - position, 0, largest)].astype(np.uint64)
                byte = np.where(position < lengths, byte, fill)
            else:
                byte = fill
            words[:, position // 8] |= byte << np.uint64(8 * (position % 8))
    buffers = [_bitmap(valid), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(lengths), buffers)


def _bitmap(flags: pa.Array) -> pa.Buffer:
    """The bits of a boolean array, beginning at its first entry."""
    return (flags if flags.offset == 0 else pa.array(np.asarray(flags))).buffers()[1]
