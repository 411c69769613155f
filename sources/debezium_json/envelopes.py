"""Parses envelope texts: whole stretches with Arrow's JSON parser, texts that it refuses one by one.

Arrow parses newline-joined texts. Each text must begin with ``{`` and end with ``}``. If the parse succeeds with as
many rows as texts, each row belongs to its text. No text can reach into the next: after a text that ends inside an
object or a string, a newline and ``{`` is an error. A text with two objects gives one row too many. If the parser names
a row in its error, the rows before it are kept, and the row goes to the exact path.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from paimon_table.rows.chunks import one_array
from sources.debezium_json.envelope_schema import NAME_FIELDS
from sources.debezium_json.envelope_split import Heads, OldRows
from sources.debezium_json.record_shapes import ENVELOPES, RecordShape
from sources.json_changes.change_rows import Mask, OldRowRule, with_fields, with_nulls
from sources.json_changes.column_plan import Plan, fitted_to
from sources.json_changes.embedded_schema import is_wrapper
from sources.json_changes.exact_parse import parse_exactly

Indices = npt.NDArray[np.int64]

_ROW_IN_ERROR = re.compile(r"in row (\d+)")
NAMES = pa.struct([(name, pa.string()) for name in NAME_FIELDS])
"""The fields read from the ``source`` block."""
_LEAST_STRETCH = 64
"""A shorter stretch that Arrow refuses without naming a row is parsed one by one: halving it further costs more."""
_MOST_REFITS = 8
"""How often a parse changes its plan to fit a record: each change costs another parse of the rest."""
_MOST_EXACT_AT_ONCE = 1024
_MOST_BRACKETS = 500
"""Arrow builds unexpected columns recursively; a text with more brackets might exhaust its stack."""
_LEAST_DEEP_BYTES = 4 * _MOST_BRACKETS
"""Shorter texts are not searched for brackets: a field takes some bytes besides its own."""


@dataclass(frozen=True, slots=True)
class VectorStretch:
    """Consecutive texts that Arrow parsed: columns before, after (structs); source and op unless heads were parsed.

    Of texts with one image each there is also the column image.
    """

    start: int
    table: pa.Table

    @property
    def size(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True, slots=True)
class ExactStretch:
    """Consecutive texts that were parsed one by one: the JSON value, or why there is none."""

    start: int
    values: tuple[Any, ...]

    @property
    def size(self) -> int:
        return len(self.values)


Stretch = VectorStretch | ExactStretch


class _Refused(Exception):
    """Arrow did not take a stretch; ``row`` if it says where."""

    def __init__(self, row: int | None) -> None:
        super().__init__(row)
        self.row = row


def unwrapped(value: Any) -> Any:
    """The payload of a ``{"schema": ..., "payload": ...}`` object, also without schema, or the value itself."""
    return value["payload"] if is_wrapper(value) else value


def unwrapped_key(key: Any) -> Any:
    """The payload of a message key, or the key itself: a lone field ``payload`` with a plain value is a column."""
    is_column = isinstance(key, dict) and key.keys() == {"payload"} and not isinstance(key["payload"], dict | None)
    return key if is_column else unwrapped(key)


def images_of(value: Any) -> list[Mapping[str, Any]]:
    """The ``before`` and ``after`` rows that a parsed envelope has."""
    if not isinstance(value, dict):
        return []
    return [row for row in (value.get("before"), value.get("after")) if isinstance(row, dict)]


def envelope_fields(plan: Plan) -> list[pa.Field]:
    """The fields of a Debezium envelope that hold the row images, its names and its operation."""
    rows = pa.struct([(c.name, c.form) for c in plan])
    return [
        pa.field("before", rows),
        pa.field("after", rows),
        pa.field("source", NAMES),
        pa.field("op", pa.string()),
    ]


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of row images in the texts of a format.

    ``fields`` gives the fields that Arrow reads under a plan, ``images`` the row images of a text parsed exactly.
    """

    fields: Callable[[Plan], list[pa.Field]]
    images: Callable[[Any], list[Mapping[str, Any]]]


ENVELOPE_LAYOUT = Layout(envelope_fields, images_of)


UnexpectedFields = Literal["infer", "ignore"]


@dataclass(frozen=True, slots=True)
class OldRowsWanted:
    """Which old rows of split texts are parsed: those of deletes, and those that the rule does not leave out."""

    are_deletes: Mask
    rule: OldRowRule | None


class EnvelopeParser:
    """Parses the texts of one source table, in stretches; of split texts only the heads, where Arrow parses them.

    Unless ``plan`` is ``whole``, rows are parsed with the planned columns alone. ``shape`` makes envelopes of parsed
    values, ``layout`` says where Arrow finds the rows. Heads with old rows need ``old_rows``.
    """

    def __init__(
        self,
        texts: pa.Array,
        plan: Plan,
        heads: Heads | None = None,
        shape: RecordShape = ENVELOPES,
        *,
        whole: bool = True,
        layout: Layout = ENVELOPE_LAYOUT,
        old_rows: OldRowsWanted | None = None,
    ) -> None:
        self._texts = texts
        self._heads = heads
        self._shape = shape
        self._layout = layout
        self._wanted = old_rows
        self._unexpected: UnexpectedFields = "infer" if plan and whole else "ignore"
        self._eligible = _is_one_object(texts) if heads is None else np.ones(len(texts), np.bool_)
        self._eligible &= ~may_be_deep(texts if heads is None else heads.lines)
        if heads is not None and heads.old is not None:
            self._eligible[heads.old.of] &= ~may_be_deep(heads.old.lines)
        self._refits_left = _MOST_REFITS
        self._exact_at_once = 1
        samples = np.linspace(0, len(texts) - 1, min(len(texts), 4)).astype(int) if plan else ()
        self._plan = fitted_to(plan, [row for i in samples for row in layout.images(self._exact(int(i)))])
        self._huge: npt.NDArray[np.bool_] | None = None

    def stretches(self) -> Iterator[Stretch]:
        """All texts in order, each in exactly one stretch."""
        edges = np.flatnonzero(np.diff(self._eligible.astype(np.int8))) + 1
        bounds = [0, *edges.tolist(), len(self._texts)]
        for start, stop in itertools.pairwise(bounds):
            if start == stop:
                continue
            if self._eligible[start]:
                yield from self._vector_stretches(start, stop)
            else:
                yield self._exact_stretch(start, stop)

    def _vector_stretches(self, start: int, stop: int) -> Iterator[Stretch]:
        # A stack whose top is the next stretch: texts must stay in order.
        pending: list[tuple[int, int, Plan | None]] = [(start, stop, self._plan)]
        while pending:
            start, stop, plan = pending.pop()
            if plan is None:
                yield self._exact_stretch(start, stop)
                continue
            try:
                yield VectorStretch(start, self._parse(start, stop, plan))
                # A long stretch without a bad record ends the group.
                if stop - start > _MOST_EXACT_AT_ONCE:
                    self._exact_at_once = 1
            except _Refused as refused:
                pending += reversed(self._smaller(start, stop, plan, refused.row))

    def _smaller(self, start: int, stop: int, plan: Plan, row: int | None) -> list[tuple[int, int, Plan | None]]:
        """The smaller stretches to try, in order, after a stretch was refused at ``row`` (None: unknown row)."""
        if row is None or row >= stop - start:
            if stop - start <= _LEAST_STRETCH:
                return [(start, stop, None)]
            middle = (start + stop) // 2
            return [(start, middle, plan), (middle, stop, plan)]
        # The texts before the row are parsed again: Arrow returns nothing for a stretch that it refuses.
        bad = start + row
        steps: list[tuple[int, int, Plan | None]] = [(start, bad, plan)] if row else []
        fitted = self._refitted(plan, bad)
        if fitted != plan:
            return [*steps, (bad, stop, fitted)]
        # Bad records come in groups. Each refusal doubles the exact parses: else each costs an Arrow parse.
        good_again = min(bad + self._exact_at_once, stop)
        self._exact_at_once = min(self._exact_at_once * 2, _MOST_EXACT_AT_ONCE)
        steps.append((bad, good_again, None))
        return [*steps, (good_again, stop, plan)] if good_again < stop else steps

    def _refitted(self, plan: Plan, index: int) -> Plan:
        """The plan adapted to a record that did not fit; the same plan if that changes nothing or was done often."""
        if not self._refits_left:
            return plan
        self._refits_left -= 1
        return fitted_to(plan, self._layout.images(self._exact(index)))

    def _refuse_huge_numbers(self, start: int, stop: int) -> None:
        """Refuse numbers that overflow Arrow's decimals, which it does not always notice."""
        if self._huge is None:
            self._huge = np.asarray(pc.match_substring_regex(self._texts, r"\d{30}|\d[eE]\+?\d\d"))
        found = np.flatnonzero(self._huge[start:stop])
        if len(found):
            raise _Refused(int(found[0]))

    def _parse(self, start: int, stop: int, plan: Plan) -> pa.Table:
        if any(pa.types.is_decimal(c.form) for c in plan):
            self._refuse_huge_numbers(start, stop)
        fields, heads, count = self._layout.fields(plan), self._heads, stop - start
        if heads is None:
            return _read(joined_lines(self._texts.slice(start, count)), count, fields, self._unexpected)
        lines = _bytes_of(heads.lines.slice(start, count))
        if heads.is_before is None:
            return _read(lines, count, fields[:2], self._unexpected)
        columns = list(fields[0].type)
        table = _read(lines, count, columns, self._unexpected)
        images = _rows(table.select([name for name in table.column_names if not self._shape.is_metadata(name)]))
        is_before = heads.is_before[start:stop]
        old = None if heads.old is None else heads.old.between(start, stop)
        if old is None or not len(old.of) or self._wanted is None:
            return _two_sided(images, is_before)
        are_deletes = self._wanted.are_deletes[start:stop]
        if self._wanted.rule is not None:
            old = _old_rows_to_read(old, images, are_deletes, columns, self._wanted.rule)
        if not len(old.of):
            return _two_sided(images, is_before)
        rows = _rows(_read(_bytes_of(old.lines), len(old.of), columns, self._unexpected, old.of))
        if any(rows.type.field(c.name) != images.type.field(c.name) for c in columns):
            raise _Refused(None)  # one side has nested fields that the plan lacks
        return _two_sided(images, is_before, rows, old.of, has_one=not are_deletes[old.of].any())

    def _exact_stretch(self, start: int, stop: int) -> ExactStretch:
        return ExactStretch(start, tuple(self._exact(i) for i in range(start, stop)))

    def _exact(self, index: int) -> Any:
        return self._shape.event(unwrapped(parse_exactly(self._texts[index].as_py())))


def _read(
    lines: pa.Buffer, count: int, fields: Sequence[pa.Field], unexpected: UnexpectedFields, of: Indices | None = None
) -> pa.Table:
    """The columns of ``count`` texts. Raises _Refused, with a number of ``of`` for the row if it is given."""
    try:
        table = pj.read_json(
            pa.BufferReader(lines),
            # One block for all lines: Arrow's errors count rows from the begin of their block.
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid as error:
        found = _ROW_IN_ERROR.search(str(error))
        row = int(found[1]) if found else count
        raise _Refused(None if row >= count else row if of is None else int(of[row])) from None
    # A text with two objects: which one is unknown, so halves are tried.
    if table.num_rows != count:
        raise _Refused(None)
    return _sound(table, fields)


def _sound(table: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """The table without the inner values of fields that Arrow has inferred, of which only NULL or not is read.

    A list that Arrow infers and that begins with null has fewer values than its offsets say: they cannot be copied.
    """
    wanted = {field.name: field.type for field in fields}
    columns = [
        pa.chunked_array([_sound_values(chunk, wanted.get(name)) for chunk in column.chunks])
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.num_chunks
    ]
    return pa.table(columns, table.column_names) if len(columns) == table.num_columns else table


def _sound_values(values: pa.Array, wanted: pa.DataType | None) -> pa.Array:
    if values.type == wanted or not pa.types.is_nested(values.type):
        return values
    if wanted is None:
        return pc.if_else(pc.is_valid(values), True, None)
    if pa.types.is_list(wanted) and pa.types.is_list(values.type):
        inner_values = _sound_values(values.values, wanted.value_type)
        return pa.ListArray.from_arrays(values.offsets, inner_values, mask=pc.is_null(values))
    if not pa.types.is_struct(wanted) or not pa.types.is_struct(values.type):
        return values
    types = {field.name: field.type for field in wanted}
    inner = [_sound_values(values.field(i), types.get(field.name)) for i, field in enumerate(values.type)]
    return pa.StructArray.from_arrays(inner, [field.name for field in values.type], mask=pc.is_null(values))


def _old_rows_to_read(
    old: OldRows, images: pa.StructArray, are_deletes: Mask, columns: list[pa.Field], rule: OldRowRule
) -> OldRows:
    """The old rows that matter. Of all others Arrow reads only the key, which takes half as long."""
    key = [field for field in columns if field.name in rule.primary_key] or columns[:1]
    before = _rows(_read(_bytes_of(old.lines), len(old.of), key, "ignore", old.of))
    after = with_fields(images, [images.type.field(field.name) for field in key]).take(pa.array(old.of))
    is_read = ~rule.has_same_key(before, after) | rule.has_gaps(images)[old.of] | are_deletes[old.of]
    return old.chosen(is_read)


def _rows(table: pa.Table) -> pa.StructArray:
    return pa.StructArray.from_arrays([one_array(column) for column in table.columns], fields=list(table.schema))


def _two_sided(
    images: pa.StructArray,
    is_before: Mask,
    old: pa.StructArray | None = None,
    old_of: Indices | None = None,
    *,
    has_one: bool = True,
) -> pa.Table:
    """Columns before and after, each NULL where the event lacks this side, and ``image`` if one is enough for each.

    ``images`` are ``before`` where the mask says so, else ``after``; ``old`` are ``before`` of the events ``old_of``.
    """
    before = with_nulls(images, ~is_before)
    if old is not None and old_of is not None:
        place = np.where(is_before, np.arange(len(images)), -1)
        place[old_of] = len(images) + np.arange(len(old))
        before = pa.concat_arrays(_of_one_type(images, old)).take(pa.array(place, mask=place < 0))
    sides = {"before": before, "after": with_nulls(images, is_before)}
    return pa.table({**sides, "image": images} if has_one else sides)


def _of_one_type(one: pa.StructArray, other: pa.StructArray) -> list[pa.StructArray]:
    """Both with the fields of both. Of fields that Arrow has inferred in different ways, only NULL or not is read."""
    if one.type == other.type:
        return [one, other]
    fields = {field.name: field for field in (*one.type, *other.type)}
    shared = {field.name for field in one.type if field in list(other.type)}
    wanted = [field if name in shared else pa.field(name, pa.bool_()) for name, field in fields.items()]
    found = []
    for rows in (one, other):
        own = [rows.field(f.name) if rows.type.get_field_index(f.name) >= 0 else pa.nulls(len(rows)) for f in wanted]
        children = [
            values if f.name in shared else pc.if_else(pc.is_valid(values), True, None)
            for f, values in zip(wanted, own, strict=True)
        ]
        found.append(pa.StructArray.from_arrays(children, fields=wanted))
    return found


def _is_one_object(texts: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.and_(pc.starts_with(texts, b"{"), pc.ends_with(texts, b"}")))


def may_be_deep(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Texts with so many brackets that Arrow might exhaust the stack, because it builds unexpected columns
    recursively."""
    deep = np.zeros(len(texts), np.bool_)
    lengths = np.asarray(pc.binary_length(texts))
    for index in np.flatnonzero(lengths > _LEAST_DEEP_BYTES).tolist():
        text = texts[index].as_py()
        deep[index] = text.count(b"[") + text.count(b"{") > _MOST_BRACKETS
    return deep


def joined_lines(texts: pa.Array) -> pa.Buffer:
    """The texts with newlines between them."""
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(lists, b"\n")[0].as_buffer()


def _bytes_of(texts: pa.Array) -> pa.Buffer:
    """The texts one after the other, not copied."""
    first, last = np.frombuffer(texts.buffers()[1], np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
    return texts.buffers()[2].slice(first, last - first)
