"""Finds the values in Avro records, which have no index.

Each block is a lane. A step walks one value of one record in all lanes at once, by a few vector operations. A walk only
notes the places of values; ``avro_columns`` turns them into columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from paimon_table.formats.avro.blocks import JoinedBlocks, MalformedBlock, Numbers, Places
from paimon_table.types import DataType

Lanes = npt.NDArray[np.uint16]
"""The type of lane numbers. A trail keeps one for every value, so they are as narrow as possible."""
MAX_LANES = 1 << 16

# A step costs about the same for one lane as for a thousand. If few lanes have most of the items, the walk needs a step
# per item, and decoding them one by one is faster.
_MANY_ITEMS = 1_000
_FEW_LANES = 8


class UnevenLanes(Exception):
    """So few lanes have most of the items that a walk over all lanes does not pay off."""


class Form(Enum):
    """How a value is stored."""

    VARINT = "varint"
    TEXT = "text"
    """Bytes with a length prefix."""
    BOOLEAN = "boolean"
    FLOAT = "float"
    DOUBLE = "double"


_WIDTHS = {Form.BOOLEAN: 1, Form.FLOAT: 4, Form.DOUBLE: 8}


@dataclass(slots=True)
class Trail:
    """The places of values, in the order of the walk."""

    places: list[Places] = field(default_factory=list)
    lanes: list[Lanes] = field(default_factory=list)

    def add(self, at: Places, lanes: Lanes) -> None:
        self.places.append(at)
        self.lanes.append(lanes)

    def in_file_order(self) -> Places:
        return self.ordered(self.places)

    def ordered(self, parts: Sequence[Numbers]) -> Numbers:
        """Numbers noted with the places, sorted by lane; within a lane they are already in the order of the file."""
        if not parts:
            return np.zeros(0, np.int64)
        return np.concatenate(parts)[np.argsort(np.concatenate(self.lanes), kind="stable")]


class Walker(Protocol):
    """Walks one value of a record, or of a nested record. Without a type it skips the value."""

    @property
    def type(self) -> DataType | None: ...

    @property
    def nullable(self) -> bool: ...

    @abstractmethod
    def walk(self, blocks: JoinedBlocks, at: Places, lanes: Lanes) -> Places:
        """The places after the values at ``at``, which are in different lanes."""


@dataclass(slots=True)
class ScalarWalker:
    """A value without parts."""

    form: Form
    nullable: bool
    type: DataType | None
    trail: Trail = field(default_factory=Trail)
    _width: int = field(init=False)
    """The size in bytes of every value that is not null; 0 if sizes differ."""

    def __post_init__(self) -> None:
        self._width = _WIDTHS.get(self.form, 0)

    def walk(self, blocks: JoinedBlocks, at: Places, lanes: Lanes) -> Places:
        if self.type is not None:
            self.trail.add(at, lanes)
        if self._width:
            return self._past_fixed(blocks, at)
        begin = blocks.past_branch(at) if self.nullable else at
        return blocks.past_varint(begin) if self.form is Form.VARINT else blocks.past_text(begin)

    def _past_fixed(self, blocks: JoinedBlocks, at: Places) -> Places:
        if not self.nullable:
            return at + self._width
        # The branch takes a byte. `past_branch` returns the place of a null, else the next one: the difference is 0 or
        # 1.
        return at + 1 + (blocks.past_branch(at) - at) * self._width


@dataclass(slots=True)
class RecordWalker:
    """A record. If it can be null, its fields are noted only where it is not."""

    fields: Sequence[tuple[str, Walker]]
    nullable: bool
    type: DataType | None
    trail: Trail = field(default_factory=Trail)

    def walk(self, blocks: JoinedBlocks, at: Places, lanes: Lanes) -> Places:
        if self.type is not None:
            self.trail.add(at, lanes)
        if not self.nullable:
            return self._walk_fields(blocks, at, lanes)
        # One byte is the branch of the union with null; branch 0 is null, which has no more bytes.
        after = at + 1
        valid = np.flatnonzero(blocks.take(at))
        if len(valid) == len(at):
            return self._walk_fields(blocks, after, lanes)
        if len(valid):
            after[valid] = self._walk_fields(blocks, after[valid], lanes[valid])
        return after

    def _walk_fields(self, blocks: JoinedBlocks, at: Places, lanes: Lanes) -> Places:
        for _, walker in self.fields:
            at = walker.walk(blocks, at, lanes)
        return at


@dataclass(slots=True)
class ItemsWalker:
    """An array, or a map as an array of entries."""

    item: Walker
    nullable: bool
    type: DataType | None
    trail: Trail = field(default_factory=Trail)
    counts: list[Numbers] = field(default_factory=list)

    def walk(self, blocks: JoinedBlocks, at: Places, lanes: Lanes) -> Places:
        after = blocks.past_branch(at) if self.nullable else at.copy()
        counts = np.zeros(len(at), np.int64)
        unfinished = np.arange(len(at))
        # Avro writes items in groups, each after its number of items; an empty group ends the array.
        while len(unfinished):
            numbers, after[unfinished] = _item_counts(blocks, after[unfinished], lanes[unfinished])
            unfinished, numbers = unfinished[numbers > 0], numbers[numbers > 0]
            counts[unfinished] += numbers
            # This moves `after` of these lanes past their items; a lane whose array has ended does not move.
            self._walk_items(blocks, after, lanes, unfinished, numbers)
        if self.type is not None:
            self.trail.add(at, lanes)
            self.counts.append(counts)
        return after

    def _walk_items(self, blocks: JoinedBlocks, at: Places, lanes: Lanes, chosen: Numbers, counts: Numbers) -> None:
        most = int(counts.max(initial=0))
        if most > _MANY_ITEMS and counts.sum() < most * _FEW_LANES:
            raise UnevenLanes
        for position in range(most):
            more = chosen[counts > position]
            at[more] = self.item.walk(blocks, at[more], lanes[more])


def _item_counts(blocks: JoinedBlocks, at: Places, lanes: Lanes) -> tuple[Numbers, Places]:
    """The number of items that follow; after a negative count comes the size of the items."""
    counts, after = blocks.varints(at), blocks.past_varint(at)
    negative = counts < 0
    if negative.any():
        after = np.where(negative, blocks.past_varint(after), after)
        counts = np.abs(counts)
    if np.any((counts < 0) | (counts > blocks.ends[lanes] - after)):
        raise MalformedBlock("an array has more items than its block has bytes")
    return counts, after


def walk_blocks(root: Walker, blocks: JoinedBlocks, record_counts: Sequence[int]) -> None:
    """Find the values of all records; raises MalformedBlock if the records do not fill their blocks."""
    counts = np.array(record_counts, np.int64)
    if np.any((counts < 0) | (counts > blocks.ends - blocks.starts)):
        raise MalformedBlock("a block has more records than bytes")
    # Blocks with the most records come first. So the blocks that still have a record at a step are a prefix, taken as a
    # slice.
    by_count = np.argsort(-counts, kind="stable")
    at, counts = blocks.starts[by_count], counts[by_count]
    lanes = by_count.astype(np.uint16)
    for step in range(int(counts.max(initial=0))):
        active = int(np.searchsorted(-counts, -step, side="left"))
        # Trails keep the places that they get, and the next step overwrites `at`: hence the copy.
        at[:active] = root.walk(blocks, at[:active].copy(), lanes[:active])
    if not np.array_equal(at, blocks.ends[by_count]):
        raise MalformedBlock("the records of a block do not end where the block ends")
