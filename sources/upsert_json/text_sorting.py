"""Sorts JSON texts of rows without envelope: Arrow parses only their metadata fields."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.chunks import one_array
from paimon_table.types import string
from sources.debezium_json.control_records import may_be_no_row
from sources.debezium_json.envelope_split import Heads
from sources.debezium_json.envelopes import EnvelopeParser, VectorStretch, unwrapped
from sources.debezium_json.texts import Texts
from sources.json_changes.column_plan import Plan, PlannedColumn
from sources.json_changes.exact_parse import parse_exactly
from sources.upsert_json.metadata import TIMES, WHOLE_ROWS, FlatRows, Role
from sources.upsert_json.row_sorting import RowSorter, as_text, field_text
from sources.upsert_json.row_split import SplitRows, split_rows
from sources.values.encodings import AUTO
from sources.values.value_forms import ValueForms


class TextSorter:
    """Sorts the texts of one topic partition (see ``RowSorter``)."""

    def __init__(self, sorter: RowSorter, shape: FlatRows) -> None:
        self._sorter = sorter
        self._shape = shape

    def sort(self, texts: Texts) -> None:
        texts = Texts(texts.values, texts.positions, self._shape)
        split = split_rows(texts.values, self._shape)
        if split is not None:
            left = np.ones(len(texts.positions), np.bool_)
            left[split.indices] = False
            self._sort_split(texts.taken(split.indices), split)
            texts = texts.taken(np.flatnonzero(left))
        if len(texts.positions):
            self._sort_whole(texts)

    def _sort_split(self, texts: Texts, split: SplitRows) -> None:
        """Sort split texts by the shapes of their tails."""
        codes = pa.array(split.shape_of)
        fields = {
            name: pa.array([field_text(shape.get(name)) for shape in split.shapes], pa.string()).take(codes)
            for name, role in self._roles.items()
            if role not in TIMES and any(name in shape for shape in split.shapes)
        }
        self._sorter.sort_lines(texts, fields, split.heads, split.times_ms)

    def _sort_whole(self, texts: Texts) -> None:
        """Sort texts by parsing them."""
        plain = np.asarray(pc.and_(pc.starts_with(texts.values, b"{"), pc.ends_with(texts.values, b"}")))
        if self._shape.metadata.is_of_connector:
            plain &= ~may_be_no_row(texts.values)
        if not plain.all():
            self._sort_strange(texts.taken(np.flatnonzero(~plain)))
            texts = texts.taken(np.flatnonzero(plain))
        if len(texts.positions):
            self._sort_plain(texts)

    def _sort_strange(self, texts: Texts) -> None:
        """Texts that are parsed one by one to find their kind."""
        self._sorter.sort_values(texts, [unwrapped(parse_exactly(text)) for text in texts.values.to_pylist()])

    @property
    def _roles(self) -> Mapping[str, Role]:
        return self._shape.metadata.roles

    def _named(self, texts: pa.Array) -> list[str]:
        """The metadata fields with a role that some text may have."""
        begin, end = np.frombuffer(texts.buffers()[1], np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
        data = texts.buffers()[2].slice(begin, end - begin).to_pybytes()
        openings = {f'"{name[:2]}'.encode() for name in self._roles}
        if not any(opening in data for opening in openings):
            return []
        return [name for name in self._roles if f'"{name}"'.encode() in data]

    def _sort_plain(self, texts: Texts) -> None:
        names = self._named(texts.values)
        lines = pc.binary_join_element_wise(texts.values, pa.scalar(b"", pa.binary()), b"\n")
        if not names:
            self._sorter.sort_lines(texts, {}, lines)
            return
        plan: Plan = tuple(PlannedColumn(name, string(), AUTO, pa.string(), ValueForms()) for name in names)
        heads = Heads(lines, np.zeros(len(lines), np.bool_))
        for stretch in EnvelopeParser(texts.values, plan, heads, WHOLE_ROWS, whole=False).stretches():
            indices = stretch.start + np.arange(stretch.size)
            if isinstance(stretch, VectorStretch):
                image = one_array(stretch.table.column("image"))
                fields = {name: _texts_or_numbers(image.field(name)) for name in names}
                self._sorter.sort_lines(texts.taken(indices), fields, lines.slice(stretch.start, stretch.size))
            else:
                self._sort_strange(texts.taken(indices))


def _texts_or_numbers(column: pa.Array) -> pa.Array:
    return column if pa.types.is_integer(column.type) else as_text(column)
