"""The bytes of many Avro values in one buffer, and look-ups at many places of it at once.

Each value is a lane. Nothing here raises for bytes that are not a value of their schema: the lane is marked as
doubtful, and stays inside the buffer. ``exact_values`` reads a doubtful lane.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]
"""Positions in the bytes of all lanes."""
Lanes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PADDING = 16
"""Zeros after the lanes: a read there gives a number of one byte, which moves a lane past its end."""
_WORD = 8
_STOPS = np.uint64(0x8080808080808080)
_FOLDS = tuple(
    (np.uint64(kept), np.uint64(moved), np.uint64(distance))
    for kept, moved, distance in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""How the lower seven bits of eight bytes move together."""


@dataclass(slots=True, eq=False)
class RecordBytes:
    """Lanes, and which of them are doubtful.

    ``starts`` and ``ends`` bound each lane in ``data``, which ends in padding.
    """

    data: npt.NDArray[np.uint8]
    starts: Places
    ends: Places
    doubt: Mask
    _words: npt.NDArray[np.void] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._words = np.ndarray(len(self.data) - _WORD + 1, f"V{_WORD}", self.data.data, strides=(1,))

    @classmethod
    def of(cls, values: pa.Array, skipped: Places) -> RecordBytes:
        """The lanes of a binary array without NULLs, each without this many bytes at its beginning."""
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        places: Places = offsets.astype(np.int64)
        size = int(places[-1] - places[0])
        data = np.zeros(size + _PADDING, np.uint8)
        if size:
            data[:size] = np.frombuffer(values.buffers()[2], np.uint8)[places[0] : places[-1]]
        places -= places[0]
        return cls(data, places[:-1] + skipped, places[1:], np.zeros(len(values), np.bool_))

    @property
    def size(self) -> int:
        """Bytes of all lanes."""
        return len(self.data) - _PADDING

    def suspect(self, lanes: Lanes, wrong: Mask) -> None:
        """Mark the lanes for which ``wrong`` is true."""
        if wrong.any():
            self.doubt[lanes[wrong]] = True

    def take(self, at: Places) -> npt.NDArray[np.uint8]:
        """The byte at each place."""
        return self.data.take(at, mode="clip")

    def words(self, at: Places) -> npt.NDArray[np.uint64]:
        """The eight bytes from each place as a little-endian number."""
        words: npt.NDArray[np.uint64] = self._words[np.minimum(at, len(self._words) - 1)].view("<u8")
        return words

    def past_varints(self, at: Places, lanes: Lanes) -> Places:
        """The positions after the numbers at ``at``."""
        if not (self.take(at) & 0x80).any():
            return at + 1
        return at + self._varint_sizes(self.words(at), at, lanes)

    def varints(self, at: Places, lanes: Lanes) -> tuple[npt.NDArray[np.int64], Places]:
        """The numbers at ``at`` and the positions after them."""
        first = self.take(at)
        if not (first & 0x80).any():
            return _signed(first.astype(np.uint64)), at + 1
        words = self.words(at)
        stops = ~words & _STOPS
        lowest = stops & (~stops + np.uint64(1))
        packed = words & (lowest | (lowest - np.uint64(1)))
        for kept, moved, distance in _FOLDS:
            packed = (packed & kept) | ((packed & moved) >> distance)
        sizes = self._varint_sizes(words, at, lanes)
        long = np.flatnonzero(sizes > _WORD)
        if len(long):
            ninth, tenth = (self.take(at[long] + position).astype(np.uint64) for position in (8, 9))
            packed[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
            packed[long] |= np.where(sizes[long] > _WORD + 1, tenth & np.uint64(1), np.uint64(0)) << np.uint64(63)
        return _signed(packed), at + sizes

    def _varint_sizes(self, words: npt.NDArray[np.uint64], at: Places, lanes: Lanes) -> Places:
        stops = ~words & _STOPS
        below = (stops & (~stops + np.uint64(1))) - np.uint64(1)
        sizes = (np.bitwise_count(below) >> 3).astype(np.int64) + 1
        long = np.flatnonzero(stops == 0)
        if len(long):
            # Eight bytes that all continue: numbers of nine or ten bytes.
            sizes[long] = 9 + (self.take(at[long] + 8) >> 7)
            self.suspect(lanes[long], (sizes[long] == 10) & (self.take(at[long] + 9) > 1))
        return sizes

    def texts(self, at: Places, lanes: Lanes) -> tuple[Places, Places]:
        """Begin and end of the bytes whose lengths are at ``at``; empty for ranges that leave their lane."""
        lengths, begin = self.varints(at, lanes)
        wrong = (lengths < 0) | (lengths > self.ends.take(lanes) - begin)
        if wrong.any():
            self.doubt[lanes[wrong]] = True
            lengths = np.where(wrong, 0, lengths)
            begin = np.minimum(begin, self.size)
        return begin, begin + lengths

    def branches(self, at: Places, lanes: Lanes, count: int) -> npt.NDArray[np.int64]:
        """The branch of each union of this many branches, which is one byte; others become doubtful and read as 0."""
        found = self.take(at)
        wrong = (found & 1 != 0) | (found >= 2 * count)
        if wrong.any():
            self.doubt[lanes[wrong]] = True
            found = np.where(wrong, 0, found)
        return (found >> 1).astype(np.int64)

    def slices(self, begin: Places, end: Places) -> pa.Array:
        """The bytes between the places as a binary array."""
        # Every second piece between the offsets is a value; the others are gaps between values.
        offsets = np.empty(2 * len(begin) + 1, np.int32)
        offsets[0:-1:2], offsets[1::2] = begin, end
        offsets[-1] = offsets[-2] if len(begin) else 0
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        pieces = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return pieces.take(pa.array(np.arange(0, 2 * len(begin), 2)))


def _signed(packed: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Numbers from their zigzag form."""
    numbers: npt.NDArray[np.int64] = (packed >> np.uint64(1)).view(np.int64) ^ -(packed & np.uint64(1)).view(np.int64)
    return numbers
