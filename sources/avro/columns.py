"""Many Avro values of one schema as Arrow arrays, one vector operation per field instead of one step per value.

All lanes are walked at the same time. Whole numbers are int64, floating point float64, texts string, bytes, fixed and
decimals binary; records are structs, arrays lists, maps maps. A value that no column type describes
(unions of several types, recursive records) becomes its JSON text. The values equal the result of ``exact_values``;
doubtful lanes are marked and may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.avro.column_names import column_names
from sources.avro.exact_values import exact_part
from sources.avro.record_bytes import Lanes, Mask, Places, RecordBytes
from sources.avro.writer_schema import AvroKind, Node
from sources.values.json_values import json_text

_MANY_ITEMS = 1000
"""Arrays of more items are read one by one: walking them in parallel with short ones does not pay."""
_WIDTHS = {AvroKind.NULL: 0, AvroKind.BOOLEAN: 1, AvroKind.FLOAT: 4, AvroKind.DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class OptionalRecords:
    """Records that may be null: the lanes that have one, and these records without gaps."""

    valid: Mask
    records: pa.StructArray

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """Per lane the index of its record; meaningless for lanes without one."""
        return np.cumsum(self.valid) - 1


@lru_cache(maxsize=4096)
def arrow_form(node: Node) -> pa.DataType:
    """The type of the array that ``Walk.read`` gives."""
    value = node.value
    if value is None or node.is_opaque:
        return pa.null() if value is None and not node.is_opaque else pa.string()
    match value.kind:
        case AvroKind.NULL:
            return pa.null()
        case AvroKind.BOOLEAN:
            return pa.bool_()
        case AvroKind.INT | AvroKind.LONG:
            return pa.int64()
        case AvroKind.FLOAT | AvroKind.DOUBLE:
            return pa.float64()
        case AvroKind.BYTES | AvroKind.FIXED:
            return pa.binary()
        case AvroKind.STRING | AvroKind.ENUM:
            return pa.string()
        case AvroKind.ARRAY:
            return pa.list_(arrow_form(value.parts[0]))
        case AvroKind.MAP:
            return pa.map_(pa.string(), arrow_form(value.parts[0]))
        case _:
            if value.is_opaque:
                return pa.string()
            names = column_names(value)
            return pa.struct([pa.field(n, arrow_form(f.node)) for n, f in zip(names, value.fields, strict=True)])


class Walk:
    """A walk over values.

    Each method takes the start positions of lanes, in any or in rising order, and returns the ends.
    """

    def __init__(self, records: RecordBytes) -> None:
        self._bytes = records
        self._scalars: Mapping[AvroKind, Callable[[Node, Places, Lanes], tuple[pa.Array, Places]]] = {
            AvroKind.BOOLEAN: self._booleans,
            AvroKind.INT: self._numbers,
            AvroKind.LONG: self._numbers,
            AvroKind.FLOAT: self._floats,
            AvroKind.DOUBLE: self._doubles,
            AvroKind.BYTES: self._binaries,
            AvroKind.FIXED: self._fixed,
            AvroKind.STRING: self._strings,
            AvroKind.ENUM: self._symbols,
            AvroKind.ARRAY: self._lists,
            AvroKind.MAP: self._maps,
            AvroKind.RECORD: self._structs,
        }

    # ------------------------------------------------------------ any value

    def skip(self, node: Node, at: Places, lanes: Lanes) -> Places:
        """The places behind the values."""
        match node.kind:
            case AvroKind.NULL | AvroKind.BOOLEAN | AvroKind.FLOAT | AvroKind.DOUBLE:
                return at + _WIDTHS[node.kind]
            case AvroKind.INT | AvroKind.LONG | AvroKind.ENUM:
                return self._bytes.past_varints(at, lanes)
            case AvroKind.BYTES | AvroKind.STRING:
                return self._bytes.texts(at, lanes)[1]
            case AvroKind.FIXED:
                return self._fixed_end(node, at, lanes)
            case AvroKind.RECORD if not node.is_opaque:
                for field in node.fields:
                    at = self.skip(field.node, at, lanes)
                return at
            case AvroKind.UNION if not node.is_opaque:
                branches = self._bytes.branches(at, lanes, len(node.parts))
                at = at + 1
                for branch, part in enumerate(node.parts):
                    if part.kind is AvroKind.NULL:
                        continue
                    chosen = np.flatnonzero(branches == branch)
                    if len(chosen) == len(at):
                        return self.skip(part, at, lanes)
                    if len(chosen):
                        at[chosen] = self.skip(part, at[chosen], lanes[chosen])
                return at
            case AvroKind.ARRAY | AvroKind.MAP:
                return self._items(node, at, lanes)[2]
            case _:
                return self._opaque(node, at, lanes)[1]

    def read(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        """The values as an array of ``arrow_form``, and the places behind them."""
        if node.is_opaque:
            return self._opaque(node, at, lanes)
        if node.kind is AvroKind.NULL:
            return pa.nulls(len(at)), at
        if node.kind is not AvroKind.UNION:
            return self._scalars[node.kind](node, at, lanes)
        value = node.value
        if value is None or value.kind is AvroKind.NULL:
            self._bytes.branches(at, lanes, len(node.parts))
            return pa.nulls(len(at)), at + 1
        valid, at, chosen = self._present(node, value, at, lanes)
        if len(chosen) == len(at):
            return self.read(value, at, lanes)
        if not len(chosen):
            return pa.nulls(len(at), arrow_form(node)), at
        there, at[chosen] = self.read(value, at[chosen], lanes[chosen])
        return there.take(pa.array(np.cumsum(valid) - 1, mask=~valid)), at

    def read_optional(self, node: Node, at: Places, lanes: Lanes) -> tuple[OptionalRecords, Places]:
        """The records of a type or of its union with null."""
        value = node.value
        assert value is not None and value.kind is AvroKind.RECORD
        if node.kind is not AvroKind.UNION:
            records, at = self.read(value, at, lanes)
            return OptionalRecords(np.ones(len(at), np.bool_), records), at
        valid, at, chosen = self._present(node, value, at, lanes)
        records, at[chosen] = self.read(value, at[chosen], lanes[chosen])
        return OptionalRecords(valid, records), at

    def read_fields(
        self, node: Node, names: Collection[str], at: Places, lanes: Lanes
    ) -> tuple[dict[str, pa.Array], Places]:
        """Some fields of records, by name; NULL if the record is null. Ignores names that the schema does not have."""
        value = node.value
        assert value is not None and value.kind is AvroKind.RECORD
        if node.kind is AvroKind.UNION:
            valid, at, chosen = self._present(node, value, at, lanes)
            found, at[chosen] = self.read_fields(value, names, at[chosen], lanes[chosen])
            if len(chosen) < len(at):
                places = pa.array(np.cumsum(valid) - 1, mask=~valid)
                found = {name: array.take(places) for name, array in found.items()}
            return found, at
        found = {}
        for field in value.fields:
            if field.name in names:
                found[field.name], at = self.read(field.node, at, lanes)
            else:
                at = self.skip(field.node, at, lanes)
        return found, at

    def _present(self, union: Node, value: Node, at: Places, lanes: Lanes) -> tuple[Mask, Places, npt.NDArray[np.intp]]:
        """The lanes whose union is not null, the positions after their branches, and their indices."""
        valid: Mask = self._bytes.branches(at, lanes, len(union.parts)) == union.parts.index(value)
        return valid, at + 1, np.flatnonzero(valid)

    # ------------------------------------------------------------ scalars

    def _numbers(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        numbers, after = self._bytes.varints(at, lanes)
        return pa.array(numbers), after

    def _booleans(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        found = self._bytes.take(at)
        self._bytes.suspect(lanes, found > 1)
        return pa.array(found == 1), at + 1

    def _floats(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        numbers = pa.array(self._bytes.words(at).astype("<u4").view("<f4"))
        # By way of the text: 1.1 stays 1.1.
        return numbers.cast(pa.string()).cast(pa.float64()), at + 4

    def _doubles(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        return pa.array(self._bytes.words(at).view("<f8"), from_pandas=False), at + 8

    def _binaries(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        begin, end = self._bytes.texts(at, lanes)
        return self._bytes.slices(begin, end), end

    def _fixed_end(self, node: Node, at: Places, lanes: Lanes) -> Places:
        wrong = node.size > self._bytes.ends.take(lanes) - at
        self._bytes.suspect(lanes, wrong)
        return at + np.where(wrong, 0, node.size)

    def _fixed(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        end = self._fixed_end(node, at, lanes)
        return self._bytes.slices(np.minimum(at, self._bytes.size), np.minimum(end, self._bytes.size)), end

    def _strings(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        texts, end = self._binaries(node, at, lanes)
        try:
            return texts.cast(pa.string()), end
        except pa.ArrowInvalid:
            good = np.array([_is_utf8(text) for text in texts.to_pylist()], np.bool_)
            self._bytes.suspect(lanes, ~good)
            return pc.if_else(pa.array(good), texts, b"").cast(pa.string()), end

    def _symbols(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        indices, end = self._bytes.varints(at, lanes)
        wrong = (indices < 0) | (indices >= len(node.symbols))
        self._bytes.suspect(lanes, wrong)
        return pa.array(node.symbols, pa.string()).take(pa.array(indices, mask=wrong)), end

    def _opaque(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        texts: list[str | None] = []
        after = at.copy()
        for index, (begin, lane) in enumerate(zip(at.tolist(), lanes.tolist(), strict=True)):
            try:
                value, size = exact_part(node, self._bytes.data[begin : self._bytes.ends[lane]].tobytes())
            except MalformedRecord:
                self._bytes.doubt[lane] = True
                value, size = None, 0
            texts.append(value if value is None or isinstance(value, str) else json_text(value))
            after[index] += size
        return pa.array(texts, pa.string()), after

    # ------------------------------------------------------------ nested

    def _structs(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        children: list[pa.Array] = []
        for field in node.fields:
            child, at = self.read(field.node, at, lanes)
            children.append(child)
        if not children:
            return pa.array([{}] * len(at), pa.struct([])), at
        form = arrow_form(node)
        return pa.StructArray.from_arrays(children, fields=list(form)), at

    def _lists(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        offsets, (begin, inner), after = self._items(node, at, lanes)
        items, _ = self.read(node.parts[0], begin, inner)
        return pa.ListArray.from_arrays(offsets, items, type=arrow_form(node)), after

    def _maps(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, Places]:
        offsets, (begin, inner), after = self._items(node, at, lanes)
        keys, begin = self._strings(node, begin, inner)
        values, _ = self.read(node.parts[0], begin, inner)
        return pa.MapArray.from_arrays(offsets, keys, values, type=arrow_form(node)), after

    def _items(self, node: Node, at: Places, lanes: Lanes) -> tuple[pa.Array, tuple[Places, Lanes], Places]:
        """Offsets of the lists, places and lanes of their items in order, and the places behind the lists."""
        after = at.copy()
        counts = np.zeros(len(at), np.int64)
        unfinished = np.arange(len(at))
        found: list[Places] = []
        owners: list[npt.NDArray[np.intp]] = []
        while len(unfinished):
            numbers, after[unfinished] = self._item_counts(after[unfinished], lanes[unfinished])
            unfinished, numbers = unfinished[numbers > 0], numbers[numbers > 0]
            counts[unfinished] += numbers
            many = counts[unfinished] > _MANY_ITEMS
            self._bytes.suspect(lanes[unfinished], many)
            unfinished, numbers = unfinished[~many], numbers[~many]
            for position in range(int(numbers.max(initial=0))):
                more = unfinished[numbers > position]
                found.append(after[more])
                owners.append(more)
                after[more] = self._past_item(node, after[more], lanes[more])
        if not found:
            nowhere = np.zeros(0, np.int64)
            return pa.array(np.zeros(len(at) + 1, np.int32)), (nowhere, nowhere), after
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        offsets = np.zeros(len(at) + 1, np.int32)
        np.cumsum(np.bincount(owner, minlength=len(at)), out=offsets[1:])
        return pa.array(offsets), (np.concatenate(found)[order], lanes[owner[order]]), after

    def _past_item(self, node: Node, at: Places, lanes: Lanes) -> Places:
        if node.kind is AvroKind.MAP:
            at = self._bytes.texts(at, lanes)[1]
        return self.skip(node.parts[0], at, lanes)

    def _item_counts(self, at: Places, lanes: Lanes) -> tuple[npt.NDArray[np.int64], Places]:
        """How many items follow; a negative count is followed by the size of the items."""
        counts, after = self._bytes.varints(at, lanes)
        negative = counts < 0
        if negative.any():
            after = np.where(negative, self._bytes.past_varints(after, lanes), after)
            counts = np.abs(counts)
        wrong = (counts < 0) | (counts > self._bytes.ends.take(lanes) - after)
        self._bytes.suspect(lanes, wrong)
        return np.where(wrong, 0, counts), after


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False
