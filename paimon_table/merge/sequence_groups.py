"""Sequence groups: which version of a key is the newest for some of its columns.

Implements Paimon's comparison of sequence groups. It compares the sequence columns of a group in the order of the
option, ascending, NULL first. A row with NULL in all sequence columns does not change the group. If two rows are equal,
the later one wins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.merge.key_rows import Mask, last_marked, valid_mask
from paimon_table.options.field_options import SequenceGroup
from paimon_table.rows.words import U64, Indices, Word, exact_words, normal_form, pack, sort_words


@dataclass(frozen=True, slots=True)
class GroupSequence:
    """The sequences of one group, for rows in merge order."""

    has_value: Mask
    """Whether any of the sequence columns is not NULL."""
    words: tuple[Word, ...]
    """Words that sort like the sequence columns, most significant first."""

    def at(self, keep: Mask) -> GroupSequence:
        """The sequences of the rows to ``keep``."""
        return GroupSequence(self.has_value[keep], tuple(Word(w.values[keep], w.bits) for w in self.words))

    def newest(self, starts: Indices) -> Indices:
        """Position of the newest row of each key that begins at ``starts``; -1 if no row of the key has a sequence."""
        lengths = np.diff(starts, append=len(self.has_value))
        candidate = self.has_value
        for word in self.words:
            values = np.where(candidate, word.values, np.uint64(0))
            candidate = candidate & (values == np.repeat(_largest(Word(values, word.bits), starts), lengths))
        return last_marked(candidate, starts)

    def late(self, key_number: Indices) -> Mask:
        """Rows with a lower sequence than the previous row of their key; rows without a sequence do not count.

        If a key has no late rows, all its rows are in the order of the group.
        """
        at = np.flatnonzero(self.has_value)
        equal = key_number[at[1:]] == key_number[at[:-1]]
        below = np.zeros(len(equal), np.bool_)
        for word in self.words:
            values = word.values[at]
            below |= equal & (values[1:] < values[:-1])
            equal = equal & (values[1:] == values[:-1])
        late = np.zeros(len(self.has_value), np.bool_)
        late[at[1:]] = below
        return late

    def ranks(self) -> list[int]:
        """Numbers that compare like the sequences of the rows; -1 for rows without one."""
        order = sort_words(self.words)
        differs = np.zeros(len(order), np.bool_)
        for word in self.words:
            values = word.values[order]
            differs[1:] |= values[1:] != values[:-1]
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.cumsum(differs)
        ranks[~self.has_value] = -1
        numbers: list[int] = ranks.tolist()
        return numbers


def group_sequence(rows: pa.Table, group: SequenceGroup, indices: Indices) -> GroupSequence:
    """The sequences of a group for the rows at ``indices``, in this order."""
    at = pa.array(indices)
    columns = [normal_form(rows.column(name)).take(at) for name in group.sequence]
    has_value = np.zeros(len(indices), np.bool_)
    for column in columns:
        has_value |= valid_mask(column)
    words = [word for column in columns for word in exact_words(column).words]
    return GroupSequence(has_value, tuple(pack(words)))


def _largest(word: Word, starts: Indices) -> U64:
    """The largest word of each key that begins at ``starts``."""
    key_bits = len(starts).bit_length()
    if word.bits + key_bits > 64:
        reduced: U64 = np.maximum.reduceat(word.values, starts)
        return reduced
    # One number holds key and word: a running maximum is several times faster than one reduction per key.
    is_first = np.zeros(len(word.values), np.uint64)
    is_first[starts] = 1
    keyed = (np.cumsum(is_first, dtype=np.uint64) << np.uint64(word.bits)) | word.values
    ends = np.append(starts[1:], len(word.values)) - 1
    largest: U64 = np.maximum.accumulate(keyed)[ends] & np.uint64((1 << word.bits) - 1)
    return largest
