"""What happens to rows whose key is in another partition: pure decisions over all such rows of a batch.

Implements Paimon's rules for rows whose key is in another partition. Deduplicate deletes the old row there and inserts
the new one. Partial-update and aggregation write to the old partition; first-row drops the new row. Deletes go to the
partition of the row. Unlike in Paimon, the delete of a move has the values of the row that it deletes. If a row of the
same batch replaces another one in another partition, the replaced row is neither written nor deleted. (Such tables have
no ``sequence.field``: a later row is newer.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_table.row_kind import RowKind, are_adds

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NOWHERE = -1
"""The partition of a key without a row."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Rows of some keys, sorted by key, then by arrival. The stored row of a key, if there is one, comes first."""

    key: Indices
    """Number of the key, rising."""
    kinds: npt.NDArray[np.int8]
    partition: Indices
    """Number of the partition in the row's values."""
    is_stored: Mask


@dataclass(frozen=True, slots=True)
class Writes:
    """What to write: version ``version[i]`` with this kind into this partition, for each key in order of arrival."""

    version: Indices
    kinds: npt.NDArray[np.int8]
    partition: Indices
    trigger: Indices
    """The version that causes the write: the row itself, or for the delete of a move the row that replaces it."""

    def only(self, keep: Mask) -> Writes:
        return Writes(self.version[keep], self.kinds[keep], self.partition[keep], self.trigger[keep])


@dataclass(frozen=True, slots=True)
class Moves:
    """The decision: what to write, and the partition of each key's row afterwards."""

    writes: Writes
    partition: Indices
    """The partition of the newest row of each key, in key order, even if it was deleted; NOWHERE if there never was
    one."""


def deduplicated(versions: Versions, *, keeps_history: bool) -> Moves:
    """The newest row of a key counts, in whichever partition it is.

    ``keeps_history``: every change is written, for a changelog that repeats the input. Otherwise rows that the same
    batch replaces in another partition are left out.
    """
    first, dense = _first_of_key(versions)
    at = np.arange(len(versions.key))
    has_before = at > first[dense]
    adds = are_adds(versions.kinds)
    lives = has_before & np.roll(adds, 1)
    old = np.where(lives, np.roll(versions.partition, 1), NOWHERE)
    target = np.where(~adds & lives, old, versions.partition)
    written = np.flatnonzero(~versions.is_stored & (adds | lives))
    moving = np.flatnonzero(adds & lives & (old != versions.partition))

    trigger = np.concatenate([moving, written])
    order = np.argsort(trigger, kind="stable")  # the delete of a move before the row that replaces it
    writes = Writes(
        np.concatenate([moving - 1, written])[order],
        np.concatenate([np.full(len(moving), RowKind.DELETE, np.int8), versions.kinds[written]])[order],
        np.concatenate([old[moving], target[written]])[order],
        trigger[order],
    )
    final = np.full(len(first), NOWHERE, np.int64)
    final[dense[adds | lives]] = target[adds | lives]
    if not keeps_history:
        stored = np.full(len(first), NOWHERE, np.int64)
        stored[dense[versions.is_stored]] = versions.partition[versions.is_stored]
        number = dense[writes.trigger]
        writes = writes.only((writes.partition == final[number]) | (writes.partition == stored[number]))
    return Moves(writes, final)


def redirected(versions: Versions, *, deletes_free: bool = False) -> Moves:
    """The partition of a key's first row becomes the partition of all its rows.

    ``deletes_free``: a delete removes the row, so that the next row is the first one again, as in a separate batch.
    """
    first, _ = _first_of_key(versions)
    is_first = np.zeros(len(versions.key), np.bool_)
    is_first[first] = True
    if deletes_free:
        is_first[1:] |= versions.kinds[:-1] == RowKind.DELETE
    partition = versions.partition[is_first][np.cumsum(is_first) - 1]
    written = np.flatnonzero(~versions.is_stored)
    last = np.append(first[1:], len(versions.key)) - 1
    return Moves(Writes(written, versions.kinds[written], partition[written], written), partition[last])


def first_only(versions: Versions) -> Moves:
    """As ``redirected``, without rows for another partition. Retracts stay, so that the engine refuses them."""
    moves = redirected(versions)
    writes = moves.writes
    comes_late = are_adds(writes.kinds) & (versions.partition[writes.version] != writes.partition)
    return Moves(writes.only(~comes_late), moves.partition)


def _first_of_key(versions: Versions) -> tuple[Indices, Indices]:
    """The first version of each key, and for each version the number of its key among those given, from 0."""
    is_first = np.ones(len(versions.key), np.bool_)
    is_first[1:] = versions.key[1:] != versions.key[:-1]
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1
