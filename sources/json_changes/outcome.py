"""Gathers the outcome of one batch's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from paimon_table.ids import Offset
from paimon_table.types import DataType
from sources.changes import (
    ChangeBatch,
    ControlRecord,
    DecodeCounts,
    Decoded,
    NewestRow,
    Observation,
    QuarantineRow,
    Refusal,
    ShownSchema,
    SourceTable,
    Truncation,
    in_arrival_order,
)
from sources.column_sources import place_key
from sources.decode_target import DecodeTarget
from sources.json_changes.exact_parse import parse_exactly
from sources.json_changes.taking import taken
from sources.observed_columns import MOST_RUNS, merged, merged_keys
from sources.record_rows import record_row, timestamp_ms_of
from sources.wording import truncated

T = TypeVar("T")

RECORD_FAULTS = (pa.ArrowException, ArithmeticError, RecursionError, ValueError, MalformedRecord)
"""Errors of decoding for values that it cannot handle; any other class is a bug that must not be hidden."""

_Columns: TypeAlias = tuple[tuple[str, DataType], ...]

Parse: TypeAlias = Callable[[str, int], Any]
"""Reads ``key`` or ``value`` at a position, as ``Outcome.parsed``."""


class KeyTexts:
    """The message keys of a batch as JSON texts, if the records have them in another form; each is read once."""

    def __init__(self, keys: pa.Array, read: Callable[[bytes, int], bytes], *, are_texts: bool = False) -> None:
        """``read`` gives the text of the key at a position, or raises MalformedRecord.

        ``are_texts``: keys stay as they are, and ``read`` only says whether one can be read.
        """
        self._keys = keys
        self._read = read
        self._are_texts = are_texts
        self._known: dict[int, bytes | MalformedRecord | None] = {}

    def texts(self, positions: npt.NDArray[np.int64]) -> pa.Array:
        """The keys at these positions as binary texts; NULL if there is none, or none that can be read."""
        if self._are_texts:
            return self._keys.take(pa.array(positions)).cast(pa.binary())
        found = [self._text(position) for position in positions.tolist()]
        return pa.array([None if isinstance(text, MalformedRecord) else text for text in found], pa.binary())

    def problem(self, position: int) -> str | None:
        """Why the key at a position cannot be read; None if it can."""
        found = self._text(position)
        return str(found) if isinstance(found, MalformedRecord) else None

    def _text(self, position: int) -> bytes | MalformedRecord | None:
        if position not in self._known:
            key = self._keys[position].as_py()
            try:
                self._known[position] = None if key is None else self._read(key, position)
            except MalformedRecord as error:
                self._known[position] = error
        return self._known[position]


def fault_text(error: BaseException) -> str:
    """Class and first line of an error."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


class Outcome:
    """Grows while a batch is decoded; positions are row numbers of the batch."""

    def __init__(self, batch: pa.RecordBatch, parse: Parse | None = None, keys: KeyTexts | None = None) -> None:
        """``parse`` reads keys and values that are not JSON texts; ``keys`` has texts that represent message keys."""
        self._batch = batch
        self._parse = parse
        self._keys = keys
        self._quarantined: dict[int, tuple[str, SourceTable | None]] = {}
        self._source: SourceTable | None = None
        self._changes: dict[tuple[SourceTable, int], list[pa.Table]] = {}
        self._observations: dict[tuple[SourceTable, tuple[str, ...] | None], Observation] = {}
        self._schemas: dict[tuple[SourceTable, int], list[tuple[_Columns, npt.NDArray[np.int64]]]] = {}
        self._newest: dict[tuple[SourceTable, int], NewestRow] = {}
        self._refusals: dict[int, Refusal] = {}
        self._control: dict[tuple[str, str], ControlRecord] = {}
        self._counts = DecodeCounts()
        self._skipped: Counter[SourceTable] = Counter()
        self._truncations: dict[int, Truncation] = {}

    def quarantine(self, position: int, reason: str) -> None:
        """Quarantine the record; the first reason stays."""
        self._quarantined.setdefault(int(position), (reason, self._source))

    @contextmanager
    def of(self, source: SourceTable) -> Iterator[None]:
        """Records that go to quarantine inside the block belong to ``source``."""
        self._source = source
        try:
            yield
        finally:
            self._source = None

    def attempt(self) -> Outcome:
        """An outcome of the same batch and source for something that may fail; ``take`` it when it has not."""
        other = Outcome(self._batch, self._parse, self._keys)
        other._source = self._source
        return other

    def take(self, attempt: Outcome) -> None:
        """Adopt the outcome of an attempt."""
        for position, (reason, source) in attempt._quarantined.items():
            self._quarantined.setdefault(position, (reason, source))
        for place, tables in attempt._changes.items():
            self._changes.setdefault(place, []).extend(tables)
        for observation in attempt._observations.values():
            self.observe(observation)
        for place, schemas in attempt._schemas.items():
            self._schemas.setdefault(place, []).extend(schemas)
        for row in attempt._newest.values():
            self._keep_newest(row)
        self._refusals.update(attempt._refusals)
        self._truncations.update(attempt._truncations)
        for first in attempt._control.values():
            self._control.setdefault((first.topic, first.kind), first)
        self._counts += attempt._counts
        self._skipped += attempt._skipped

    def skip(self, source: SourceTable, records: int) -> None:
        """Count records of a source table that the pipeline leaves out."""
        self.count(skipped_tables=records)
        self._skipped[source] += records

    def count(self, **numbers: int) -> None:
        self._counts += DecodeCounts(**numbers)

    def note_control(self, topic: str, kind: str, position: int) -> None:
        """A control record of a kind; the first one of its topic is logged."""
        self.count(control=1)
        partition = self.cell("partition", position)
        self._control.setdefault((topic, kind), ControlRecord(topic, kind, partition, self.offset(position)))

    def observe(self, observation: Observation) -> None:
        """Keep one observation per source table and message key; one without a key belongs to any of the table."""
        source, key = observation.source, observation.key_columns
        alike = (at for at in self._observations if at[0] == source and (key is None or at[1] in (None, key)))
        at = next(alike, (source, key))
        seen = self._observations.get(at)
        if seen is not None:
            observation = replace(
                seen,
                columns=merged((seen.columns, observation.columns)),
                key_columns=merged_keys(seen.key_columns, observation.key_columns),
                key_only=merged((seen.key_only, observation.key_only)),
                has_rows=seen.has_rows or observation.has_rows,
                timestamp_ms=min(seen.timestamp_ms, observation.timestamp_ms),
                shapes=seen.shapes | observation.shapes,
            )
        self._observations.pop(at, None)
        self._observations[source, observation.key_columns] = observation

    def note_schema(
        self, source: SourceTable, partition: int, columns: _Columns, positions: npt.NDArray[np.int64]
    ) -> None:
        """Records of an observed source table have an embedded schema with these columns."""
        self._schemas.setdefault((source, partition), []).append((columns, positions))

    def _shown_schemas(self) -> dict[SourceTable, list[ShownSchema]]:
        """Per source table and partition the first schema, and each one that follows another one."""
        found: dict[SourceTable, list[ShownSchema]] = {}
        for (source, partition), schemas in self._schemas.items():
            positions = np.concatenate([of_schema for _, of_schema in schemas])
            numbers = np.repeat(np.arange(len(schemas)), [len(of_schema) for _, of_schema in schemas])
            order = np.argsort(positions)
            starts = order[np.r_[True, np.diff(numbers[order]) != 0]]
            runs = (np.flatnonzero(numbers[starts] == number) for number in range(len(schemas)))
            kept = np.unique(np.concatenate([np.r_[mine[: MOST_RUNS - 1], mine[-1:]] for mine in runs]))
            for at in starts[kept].tolist():
                position, (columns, _) = int(positions[at]), schemas[numbers[at]]
                offset, time_ms = self.offset(position), timestamp_ms_of(self._batch, position)
                firsts = {place_key(source.topic, partition): (offset, time_ms)}
                found.setdefault(source, []).append(ShownSchema(columns, time_ms, partition, offset, firsts))
        return found

    def note_newest(
        self,
        source: SourceTable,
        target: DecodeTarget,
        position: int,
        shown: Collection[str],
        comments: Mapping[str, str] | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        """Take a row and its columns; keeps the one with the highest offset of a partition."""
        left_out = target.left_out_of(shown)
        row = NewestRow(
            source,
            self.cell("partition", position),
            self.offset(position),
            timestamp_ms_of(self._batch, position),
            target.lacked_by(shown),
            comments or {},
            is_whole,
            left_out,
            target.knows_all(shown),
            target.masked.intersection(shown).union(left_out),
        )
        self._keep_newest(row)

    def _keep_newest(self, row: NewestRow) -> None:
        place = row.source, row.partition
        self._newest[place] = row.after(self._newest.get(place))

    def refuse(
        self,
        source: SourceTable,
        position: int,
        reason: str,
        *,
        is_rebuilt: bool = False,
        key: tuple[str, ...] = (),
    ) -> None:
        """``is_rebuilt``: the table may be rebuilt from the records after this one; ``key``: see ``Refusal``."""
        time = self.cell("timestamp", position) if is_rebuilt else None
        place = self.cell("partition", position), self.offset(position)
        self._refusals[position] = Refusal(source, *place, reason, time, key, self.timestamp_ms(position))

    def truncate(self, source: SourceTable, target: DecodeTarget, position: int, op_name: str) -> None:
        """Apply the table's policy to a TRUNCATE, for which the source has the word ``op_name``."""
        self.count(truncates=1)
        if target.on_truncate == "apply":
            self._truncations[position] = Truncation(source, self.cell("partition", position), self.offset(position))
        elif target.on_truncate == "pause":
            self.refuse(source, position, truncated(op_name, may_apply=target.may_truncate), is_rebuilt=True)

    def pass_over_changes(
        self, source: SourceTable, target: DecodeTarget, changes: npt.NDArray[np.int64], op_name: str
    ) -> None:
        """Count the updates and deletes, by position, for a table that takes only inserts; refuse the first by policy.

        ``op_name`` is the source's word for the operation of the first one.
        """
        self.count(changes=len(changes))
        if target.on_change == "fail":
            reason = (
                f"op {op_name}: the table is written with `mode: append` and has no key to find the row. Set "
                f"`on_change: skip` in the rule to leave out updates and deletes. To store them as separate rows "
                f"(`on_change: log`), or to apply them (`mode: upsert`), give the rule another `into`. Set `backfill: "
                f"true` for records that were already read. An existing table keeps its columns and its key"
            )
            self.refuse(source, int(changes[0]), reason)

    def add_changes(self, source: SourceTable, partition: int, rows: pa.Table, record_count: int) -> None:
        """Add change rows, and the number of their records."""
        if rows.num_rows:
            self._changes.setdefault((source, partition), []).append(rows)
            self.count(with_rows=record_count)

    def times_at(self, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Kafka's times of records by position, in milliseconds (int64)."""
        times = self._batch.column("timestamp").take(pa.array(positions))
        return times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())

    @property
    def offsets(self) -> pa.Array:
        """Of all records, by position."""
        return self._batch.column("offset")

    def offset(self, position: int) -> Offset:
        return Offset(self.cell("offset", position))

    def timestamp_ms(self, position: int) -> int:
        """Kafka's time of a record; 0 without one."""
        return timestamp_ms_of(self._batch, position) or 0

    def cell(self, column: str, position: int) -> Any:
        """One value of the batch of records."""
        return self._batch.column(column)[int(position)].as_py()

    def values_at(self, positions: npt.NDArray[np.int64]) -> pa.Array:
        """The values of some records, as they came."""
        return taken(self._batch.column("value"), positions)

    def keys_at(self, positions: npt.NDArray[np.int64]) -> pa.Array:
        """The message keys of some records, unchanged or as JSON texts that represent them."""
        if self._keys is not None:
            return self._keys.texts(positions)
        return self._batch.column("key").take(pa.array(positions))

    @property
    def has_key_texts(self) -> bool:
        """Whether ``keys_at`` gives JSON texts."""
        return self._keys is not None or self.is_json

    @property
    def is_json(self) -> bool:
        """Whether keys and values are JSON texts."""
        return self._parse is None

    def parsed(self, column: str, position: int) -> Any:
        """The JSON value of a key or value, None for an absent one; or a MalformedRecord with the reason."""
        if column == "key" and self._keys is not None:
            data = self._keys.texts(np.array([position]))[0].as_py()
        elif self._parse is not None:
            return self._parse(column, position)
        else:
            data = self.cell(column, position)
        return None if data is None else parse_exactly(data)

    def decoded(self) -> Decoded:
        quarantine = tuple(self._quarantine_rows())
        changes = (ChangeBatch(*key, in_arrival_order(parts)) for key, parts in self._changes.items())
        schemas = self._shown_schemas()
        return Decoded(
            changes=tuple(changes),
            quarantine=quarantine,
            observations=tuple(
                replace(one, schemas=tuple(schemas.get(one.source, ()))) for one in self._observations.values()
            ),
            refusals=tuple(refusal for _, refusal in sorted(self._refusals.items())),
            truncations=tuple(truncation for _, truncation in sorted(self._truncations.items())),
            counts=replace(self._counts, quarantined=len(quarantine)),
            skipped=tuple(self._skipped.items()),
            newest=tuple(self._newest.values()),
            control=tuple(self._control.values()),
        )

    def _quarantine_rows(self) -> Iterable[QuarantineRow]:
        for position, (reason, source) in sorted(self._quarantined.items()):
            yield record_row(self._batch, position, reason, source)
