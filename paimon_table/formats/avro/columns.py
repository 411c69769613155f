"""Turns the values that a walk over Avro records found into columns.

The columns equal those that ``avro_values`` makes of records as Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.formats.avro.blocks import JoinedBlocks, MalformedBlock, Numbers, Places
from paimon_table.formats.avro.container import Block
from paimon_table.formats.avro.layout import record_walker
from paimon_table.formats.avro.values import decimals
from paimon_table.formats.avro.walk import Form, ItemsWalker, RecordWalker, ScalarWalker, Walker, walk_blocks
from paimon_table.types import DataField, DataType, Root, arrow_type

_DECIMAL_BYTES = 16
_HALF_BYTES = 8
_SECOND_BRANCH = 2
Valid = npt.NDArray[np.bool_] | None
"""Which values are not NULL; None if none is NULL."""


def read_columns(schema: Any, blocks: Sequence[Block], fields: Sequence[DataField]) -> pa.Table:
    """The records of at most ``MAX_LANES`` blocks, as a table of the fields that the file's schema has.

    Raises UnknownLayout, UnevenLanes, MalformedBlock, and pa.ArrowInvalid for values outside of their types.
    """
    walker = record_walker(schema, fields)
    joined = JoinedBlocks([block.data for block in blocks])
    walk_blocks(walker, joined, [block.record_count for block in blocks])
    if walker.nullable and _begin(joined, walker.trail.in_file_order(), walker)[1] is not None:
        raise MalformedBlock("a record is null")
    return _Columns(joined).table(walker, fields)


def _begin(blocks: JoinedBlocks, at: Places, walker: Walker) -> tuple[Places, Valid]:
    """The places of the values, after the branch of their union; for a null, the place of its byte."""
    if not walker.nullable:
        return at, None
    branches = blocks.take(at)
    if not np.all((branches == 0) | (branches == _SECOND_BRANCH)):
        raise MalformedBlock("a union has no such branch")
    valid = branches != 0
    return blocks.past_branch(at), None if valid.all() else valid


class _Columns:
    """Makes arrays of the values that walkers found in the blocks."""

    def __init__(self, blocks: JoinedBlocks) -> None:
        self._blocks = blocks
        self._scalars: Mapping[Form, Callable[[Places, Valid, DataType], pa.Array]] = {
            Form.VARINT: self._whole_numbers,
            Form.TEXT: self._texts,
            Form.BOOLEAN: self._booleans,
            Form.FLOAT: self._floats,
            Form.DOUBLE: self._floats,
        }

    def table(self, root: RecordWalker, fields: Sequence[DataField]) -> pa.Table:
        found = dict(root.fields)
        present = [f.name for f in fields if f.name in found]
        return pa.table([self.array(found[name]) for name in present], names=present)

    def array(self, walker: Walker) -> pa.Array:
        match walker:
            case ScalarWalker(form, _, DataType() as t):
                begin, valid = _begin(self._blocks, walker.trail.in_file_order(), walker)
                return self._scalars[form](begin, valid, t)
            case RecordWalker(_, _, DataType() as t):
                return self._structs(walker, t)
            case ItemsWalker(_, _, DataType() as t):
                return self._lists(walker, t)
            case _:
                raise AssertionError("a walker that notes nothing has no array")

    # ------------------------------------------------------------ scalars

    def _whole_numbers(self, begin: Places, valid: Valid, t: DataType) -> pa.Array:
        numbers = _masked(self._blocks.varints(begin), valid)
        if t.root in (Root.DATE, Root.TIME):
            numbers = numbers.cast(pa.int32())
        return numbers.cast(arrow_type(t))

    def _booleans(self, begin: Places, valid: Valid, t: DataType) -> pa.Array:
        return _masked(self._blocks.take(begin) != 0, valid)

    def _floats(self, begin: Places, valid: Valid, t: DataType) -> pa.Array:
        words = self._blocks.words(begin)
        if t.root is Root.DOUBLE:
            return _masked(words.view("<f8"), valid)
        return _masked(words.astype("<u4").view("<f4"), valid)

    def _texts(self, begin: Places, valid: Valid, t: DataType) -> pa.Array:
        start = self._blocks.past_varint(begin)
        end = start + self._blocks.lengths(begin)
        if t.root is Root.DECIMAL:
            return self._decimals(start, end, valid, t)
        # Every second piece between the offsets is a value; the others are the bytes between values.
        offsets = np.column_stack([start, end]).ravel().astype(np.int32)
        buffers = [None, pa.py_buffer(np.append(offsets, offsets[-1:])), pa.py_buffer(self._blocks.text)]
        pieces = pa.BinaryArray.from_buffers(pa.binary(), len(offsets), buffers)
        chosen = pieces.take(_masked(np.arange(0, len(offsets), 2), valid))
        return chosen.cast(arrow_type(t))

    def _decimals(self, start: Places, end: Places, valid: Valid, t: DataType) -> pa.Array:
        lengths = end - start
        if lengths.max(initial=0) > _DECIMAL_BYTES:
            texts = [self._blocks.text[s:e] for s, e in zip(start.tolist(), end.tolist(), strict=True)]
            present = np.ones(len(texts), np.bool_) if valid is None else valid
            return decimals([text if here else None for text, here in zip(texts, present, strict=True)], t)
        low, high = (self._blocks.words(end - back).byteswap().view(np.int64) for back in (_HALF_BYTES, _DECIMAL_BYTES))
        low, high = _sign_extended(low, high, lengths)
        data = np.column_stack([low, high]).astype("<i8")
        bitmap = None if valid is None else pa.array(valid).buffers()[1]
        return pa.Array.from_buffers(arrow_type(t), len(start), [bitmap, pa.py_buffer(data)])

    # ------------------------------------------------------------ nested

    def _structs(self, walker: RecordWalker, t: DataType) -> pa.Array:
        at = walker.trail.in_file_order()
        _, valid = _begin(self._blocks, at, walker)
        found = dict(walker.fields)
        children = [self.array(found[f.name]) for f in t.fields]
        if valid is not None:
            places = _masked(np.cumsum(valid) - 1, valid)
            children = [child.take(places) for child in children]
        target = arrow_type(t)
        fields = [target.field(i) for i in range(target.num_fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=None if valid is None else pa.array(~valid))

    def _lists(self, walker: ItemsWalker, t: DataType) -> pa.Array:
        _, valid = _begin(self._blocks, walker.trail.in_file_order(), walker)
        counts = walker.trail.ordered(walker.counts)
        offsets = _offsets(counts, valid)
        if t.root is Root.ARRAY:
            return pa.ListArray.from_arrays(offsets, self.array(walker.item), type=arrow_type(t))
        assert isinstance(walker.item, RecordWalker)
        keys, items = (self.array(part) for _, part in walker.item.fields)
        return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(t))


def _masked(values: npt.NDArray[Any], valid: Valid) -> pa.Array:
    return pa.array(values, mask=None if valid is None else ~valid, from_pandas=False)


def _offsets(counts: Numbers, valid: Valid) -> pa.Array:
    """The start of each list; NULL for a NULL list."""
    ends = np.cumsum(counts)
    starts = _masked((ends - counts).astype(np.int32), valid)
    return pa.concat_arrays([starts, pa.array([int(counts.sum())], pa.int32())])


def _sign_extended(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], lengths: Numbers
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of 16 bytes in two halves, with the bytes above each number's length replaced by its sign."""
    is_long = lengths > _HALF_BYTES
    surplus = np.where(is_long, _DECIMAL_BYTES - lengths, np.minimum(_HALF_BYTES - lengths, _HALF_BYTES - 1)) * 8
    short = np.where(lengths == 0, 0, low << surplus >> surplus)
    return np.where(is_long, low, short), np.where(is_long, high << surplus >> surplus, short >> 63)
