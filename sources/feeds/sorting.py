"""Sorts the records of one topic partition by source table, from their heads.

Heads of one table differ only in their times, so each distinct head is judged once. Handles everything that is not a
record of a table: bad records go to quarantine, tombstones and control records are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.changes import SourceTable
from sources.debezium_json.envelopes import EnvelopeParser, Layout, VectorStretch
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.texts import Texts
from sources.decode_target import KeyFields
from sources.feeds.cut_objects import NOT_CUT, cut_object
from sources.feeds.feed import Bad, Feed, NoRows, OfTable, Strange, Verdict, images_in
from sources.feeds.record_reasons import strange_fields, strange_value
from sources.feeds.source_types import NO_TYPES, SourceTypes
from sources.json_changes.column_plan import Plan
from sources.json_changes.outcome import Outcome

_MOST_COMBINATIONS = 1 << 30
_SAMPLED = 8


@dataclass(frozen=True, slots=True)
class TableRecords:
    """Records of one source table: texts, operation codes, raw times, and per record the index of its key's columns in
    ``key_fields`` and of the types that it names in ``type_sets``.

    Texts do not have the object with the types; if its index is ``NOT_CUT``, it was not searched for.
    """

    texts: Texts
    ops: npt.NDArray[np.int8]
    keys: npt.NDArray[np.int32]
    types: npt.NDArray[np.int64]
    times: pa.Array
    key_fields: tuple[KeyFields, ...]
    type_sets: tuple[SourceTypes, ...]

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        return self.texts.positions

    def chosen(self, mask: npt.NDArray[np.bool_]) -> TableRecords:
        if mask.all():
            return self
        return self.taken(np.flatnonzero(mask))

    def taken(self, indices: npt.NDArray[np.int64]) -> TableRecords:
        return replace(
            self,
            texts=self.texts.taken(indices),
            ops=self.ops[indices],
            keys=self.keys[indices],
            types=self.types[indices],
            times=self.times.take(pa.array(indices)),
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """A source table, and the plan for its rows."""

    source: SourceTable
    plan: Plan


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Records whose rows Arrow has read together with their heads, by their positions, which rise."""

    positions: npt.NDArray[np.int64]
    table: pa.Table


@dataclass(frozen=True, slots=True)
class _Judged:
    """Records and their kinds: ``verdict_of`` has the index of each one's verdict."""

    texts: Texts
    verdicts: list[Verdict]
    verdict_of: npt.NDArray[np.int64]
    times: pa.Array
    types: npt.NDArray[np.int64]


class RecordSorter:
    """Sorts the texts of one topic partition."""

    def __init__(
        self, feed: Feed, topic: str, message_keys: MessageKeys, outcome: Outcome, expected: Expected | None = None
    ) -> None:
        """``expected`` is the only source table of the topic that has a target, if there is one."""
        self.parsed: list[ParsedRows] = []
        self._expected = expected
        self._feed = feed
        self._topic = topic
        self._message_keys = message_keys
        self._outcome = outcome
        self._parts: dict[SourceTable, list[TableRecords]] = {}
        self._key_fields: list[KeyFields] = []
        self._key_codes: dict[KeyFields, int] = {}

    def sort(self, texts: Texts) -> dict[SourceTable, TableRecords]:
        """The records of each source table, in order of first sight."""
        texts, types, type_sets = self._without_types(texts)
        plan = self._plan_at_once(texts)
        layout = Layout(lambda _: list(self._feed.head_schema), lambda _: [])
        if plan:
            layout = Layout(self._fields_at_once, partial(images_in, self._feed))
        for stretch in EnvelopeParser(texts.values, plan, layout=layout).stretches():
            indices = np.arange(stretch.start, stretch.start + stretch.size)
            if isinstance(stretch, VectorStretch):
                if plan:
                    self.parsed.append(ParsedRows(texts.positions[indices], stretch.table))
                self._take(self._judge_vectors(texts.taken(indices), stretch.table, types[indices]))
            else:
                self._take(self._judge_values(texts.taken(indices), stretch.values, types[indices]))
        return {
            source: replace(_joined(parts), key_fields=tuple(self._key_fields), type_sets=type_sets)
            for source, parts in self._parts.items()
        }

    def _plan_at_once(self, texts: Texts) -> Plan:
        """The plan for reading heads and rows together, if some texts all belong to the expected table."""
        if self._expected is None or not len(texts.positions):
            return ()
        for index in np.linspace(0, len(texts.positions) - 1, _SAMPLED).astype(int).tolist():
            value = texts.parsed(index)
            verdict = self._feed.verdict(self._feed.head_of(value), self._topic) if isinstance(value, dict) else None
            if not isinstance(verdict, OfTable) or verdict.source != self._expected.source:
                return ()
        return self._expected.plan

    def _fields_at_once(self, plan: Plan) -> list[pa.Field]:
        return [*self._feed.head_schema, *self._feed.image_fields(plan)]

    def _without_types(self, texts: Texts) -> tuple[Texts, npt.NDArray[np.int64], tuple[SourceTypes, ...]]:
        """The texts without the object that names types, the index of its types for each text, and these types."""
        if self._feed.types_field is None:
            return texts, np.zeros(len(texts.positions), np.int64), (NO_TYPES,)
        cut = cut_object(texts.values, self._feed.types_field)
        named = [SourceTypes.of_object(found) for found in cut.objects]
        sets = dict.fromkeys(named)
        index = {types: i for i, types in enumerate(sets)}
        codes = np.array([index[types] for types in named] + [NOT_CUT], np.int64)
        return Texts(cut.texts, texts.positions), codes[cut.object_of], tuple(sets)

    def _judge_vectors(self, texts: Texts, table: pa.Table, types: npt.NDArray[np.int64]) -> _Judged:
        columns = self._feed.heads(table)
        firsts, verdict_of = distinct_rows([*columns.values()], len(texts.positions))
        heads = [{name: column[first].as_py() for name, column in columns.items()} for first in firsts.tolist()]
        verdicts = [self._feed.verdict(head, self._topic) for head in heads]
        return _Judged(texts, verdicts, verdict_of, self._feed.raw_times(table), types)

    def _judge_values(self, texts: Texts, values: tuple[Any, ...], types: npt.NDArray[np.int64]) -> _Judged:
        verdicts: list[Verdict] = []
        times: list[Any] = []
        for index, value in enumerate(values):
            if isinstance(value, dict):
                verdicts.append(self._feed.verdict(self._feed.head_of(value), self._topic))
                times.append(self._feed.raw_time_of(value))
            else:
                raw = self._outcome.cell("value", int(texts.positions[index]))
                is_none = value is None
                verdicts.append(NoRows("") if is_none else Bad(strange_value(value, raw, self._feed.tool)))
                times.append(None)
        return _Judged(texts, verdicts, np.arange(len(values)), pa.array(times, self._feed.time_type), types)

    def _take(self, judged: _Judged) -> None:
        by_source: dict[SourceTable, list[int]] = {}
        for index, verdict in enumerate(judged.verdicts):
            if isinstance(verdict, OfTable):
                by_source.setdefault(verdict.source, []).append(index)
            else:
                members = judged.texts.positions[judged.verdict_of == index].tolist()
                self._without_rows(verdict, members)
        for source, indices in by_source.items():
            members = np.flatnonzero(np.isin(judged.verdict_of, indices))
            texts, of = judged.texts.taken(members), judged.verdict_of[members]
            told = {i: v for i in indices if isinstance(v := judged.verdicts[i], OfTable)}
            ops = np.zeros(len(judged.verdicts), np.int8)
            ops[list(told)] = [v.op for v in told.values()]
            keys = self._keys(texts, of, {i: v.key for i, v in told.items()}, len(judged.verdicts))
            times = judged.times.take(pa.array(members))
            records = TableRecords(texts, ops[of], keys, judged.types[members], times, (), ())
            self._parts.setdefault(source, []).append(records)

    def _keys(
        self, texts: Texts, of: npt.NDArray[np.int64], told: dict[int, KeyFields], count: int
    ) -> npt.NDArray[np.int32]:
        """The codes of the keys in the records; if they have none, the message keys may."""
        codes = np.zeros(count, np.int32)
        codes[list(told)] = [self._key_code(key) for key in told.values()]
        found = codes[of]
        unsaid = np.isin(of, [i for i, key in told.items() if key is None])
        if unsaid.any():
            positions = texts.positions[unsaid]
            raw_codes = self._message_keys.codes(positions)
            meant = np.zeros(len(self._message_keys.fields), np.int32)
            for code in np.unique(raw_codes).tolist():
                first = int(positions[np.flatnonzero(raw_codes == code)[0]])
                fields = self._message_keys.fields[code]
                meant[code] = self._key_code(self._feed.key_of(fields, self._outcome.cell("key", first)))
            found[unsaid] = meant[raw_codes]
        return found

    def _key_code(self, key: KeyFields) -> int:
        code = self._key_codes.setdefault(key, len(self._key_fields))
        if code == len(self._key_fields):
            self._key_fields.append(key)
        return code

    def _without_rows(self, verdict: Verdict, positions: list[int]) -> None:
        for position in positions:
            if isinstance(verdict, Bad):
                self._outcome.quarantine(position, verdict.reason)
            elif isinstance(verdict, Strange):
                value = self._outcome.parsed("value", position)
                self._outcome.quarantine(position, strange_fields(value, self._feed.tool))
            elif isinstance(verdict, NoRows) and not verdict.kind:
                self._outcome.count(tombstones=1)
            elif isinstance(verdict, NoRows):
                self._outcome.note_control(self._topic, verdict.kind, position)


def _joined(parts: list[TableRecords]) -> TableRecords:
    """All parts of one source table as one, in arrival order."""
    if len(parts) == 1:
        return parts[0]
    positions = np.concatenate([part.texts.positions for part in parts])
    joined = TableRecords(
        Texts(pa.concat_arrays([part.texts.values for part in parts]), positions),
        np.concatenate([part.ops for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.types for part in parts]),
        pa.concat_arrays([part.times for part in parts]),
        (),
        (),
    )
    return joined.taken(np.argsort(positions, kind="stable"))


def distinct_rows(columns: Sequence[pa.Array], count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first row of each distinct combination of values, and which combination each row has."""
    codes, size = np.zeros(count, np.int64), 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) < 2:
            continue
        codes, size = codes * len(encoded.dictionary) + np.asarray(encoded.indices), size * len(encoded.dictionary)
        if size > _MOST_COMBINATIONS:
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
            size = int(codes.max(initial=0)) + 1
    if size == 1:
        return np.zeros(min(count, 1), np.int64), codes
    _, firsts, of_row = np.unique(codes, return_index=True, return_inverse=True)
    return firsts, of_row.reshape(-1)
