"""The bytes of several Avro blocks, and reads at many places in them at once.

Implements the binary encoding of the Avro specification for numbers and lengths. Places are positions in the joined
bytes. A place after the end reads zeros. Damaged blocks are detected because their end does not match.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

PADDING = 16
"""The zeros before and after the blocks: the longest value that one read returns."""

_VARINT_BYTES = 10
_WORD_BYTES = 8
_CACHED_BYTES = 1 << 16
_SHORT_TEXTS = np.array([1 + (byte >> 1) if byte < 0x80 and byte % 2 == 0 else 0 for byte in range(256)], np.int64)
"""By the first byte of a text, its size including its length prefix; 0 if that byte does not show it."""


class MalformedBlock(Exception):
    """The bytes are not records of the schema."""


class JoinedBlocks:
    """Blocks that are not compressed."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        padding = bytes(PADDING)
        self.text = b"".join([padding, *blocks, padding])
        self.data: Bytes = np.frombuffer(self.text, np.uint8)
        sizes = np.array([len(block) for block in blocks], np.int64)
        self.ends: Places = np.cumsum(sizes) + PADDING
        self.starts: Places = self.ends - sizes
        self._branches: Bytes = self.data >> np.uint8(1)
        self._varint_bytes = _varint_bytes(self.data)
        self._words = np.ndarray((len(self.data) - _WORD_BYTES + 1,), f"V{_WORD_BYTES}", self.data, strides=(1,))

    def take(self, at: Places) -> Bytes:
        """The byte at each place."""
        return self.data.take(at, mode="clip")

    def past_branch(self, at: Places) -> Places:
        """The place after the branch of a union whose first branch is null; for a null, the place of its byte, which is
        zero.

        A zero reads as the number 0, an empty text and an array without items, all of one byte.
        """
        return at + self._branches.take(at, mode="clip")

    def past_varint(self, at: Places) -> Places:
        return at + self._varint_bytes.take(at, mode="clip")

    def past_text(self, at: Places) -> Places:
        """The place after a text or bytes with a length prefix."""
        sizes = _SHORT_TEXTS.take(self.take(at))
        if np.count_nonzero(sizes) == len(sizes):
            return at + sizes
        return self.past_varint(at) + self.lengths(at)

    def lengths(self, at: Places) -> Numbers:
        """Numbers that count bytes or items, at most as many as there are bytes."""
        lengths = self.varints(at)
        if lengths.size and (lengths.min() < 0 or lengths.max() > len(self.data)):
            raise MalformedBlock("a length is larger than its block")
        return lengths

    def words(self, at: Places) -> Words:
        """The eight bytes from each place as a little-endian number."""
        words: Words = self._words[np.minimum(at, len(self._words) - 1)].view("<u8")
        return words

    def varints(self, at: Places) -> Numbers:
        """The numbers that begin at the places."""
        sizes = self._varint_bytes.take(at, mode="clip")
        longest = int(sizes.max(initial=1))
        if longest == 1:
            packed = self.take(at).astype(np.uint64)
        else:
            packed = _joined_septets(self.words(at) & _MASKS[sizes])
        if longest > _WORD_BYTES:
            long = np.flatnonzero(sizes > _WORD_BYTES)
            packed[long] = self._long_varints(at[long])
        return (packed >> np.uint64(1)).view(np.int64) ^ -(packed & np.uint64(1)).view(np.int64)

    def _long_varints(self, at: Places) -> Words:
        """Numbers of 9 or 10 bytes."""
        packed: Words = _joined_septets(self.words(at))
        ninth, tenth = (self.take(at + position).astype(np.uint64) for position in (8, 9))
        has_tenth = ninth >= 0x80
        if np.any(has_tenth & (tenth > 1)):
            raise MalformedBlock("a number has more than 64 bits")
        packed |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        packed[has_tenth] |= np.uint64(1 << 63)
        return packed


def _varint_bytes(data: Bytes) -> Bytes:
    """The number of bytes of a varint that begins at each position."""
    sizes = np.ones(len(data), np.uint8)
    for start in range(0, len(data), _CACHED_BYTES):
        continued = data[start : start + _CACHED_BYTES + _VARINT_BYTES] >> np.uint8(7)
        _count_continued(continued, sizes[start : start + _CACHED_BYTES])
    return sizes


def _count_continued(continued: Bytes, sizes: Bytes) -> None:
    run = continued
    for position in range(1, _VARINT_BYTES):
        sizes[: len(run)] += run[: len(sizes)]
        run = run[:-1] & continued[position:]
        if not run.any():
            break


def _joined_septets(words: Words) -> Words:
    """The lower seven bits of eight bytes, the first byte lowest."""
    for kept, moved, distance in _FOLDS:
        words = (words & kept) | ((words & moved) >> distance)
    return words


_MASKS: Words = np.array([(1 << 8 * min(size, _WORD_BYTES)) - 1 for size in range(_VARINT_BYTES + 1)], np.uint64)
"""By the size of a varint, the bits of a word that belong to it."""

_FOLDS = [
    (np.uint64(kept), np.uint64(moved), np.uint64(distance))
    for kept, moved, distance in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
]
