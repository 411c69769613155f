"""A format for tests: every record's value is one row as a JSON object, a tombstone deletes the row of its key.

Made of what sources have for any format; no word of it is known outside of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.changes import Decoded, Observation, SourceTable
from sources.decode_target import DecodeTarget, Goal
from sources.format_options import option
from sources.formats import RecordFormat
from sources.json_changes.change_rows import DELETE, UPDATE, Events
from sources.json_changes.column_plan import plan_columns
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.gaps import NoGaps
from sources.json_changes.observing import all_columns, changed_by_values, key_fields
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.json_changes.table_rows import TableRows
from sources.values.value_forms import ValueForms

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlainPolicies:
    """Options of the format besides the forms of values."""

    on_tombstone: str = option("delete", "What a record without a value does.", "ignore")


@dataclass(frozen=True, slots=True)
class PlainJsonDecoder:
    """See ``sources.decode_target.Decoder``."""

    policies: PlainPolicies
    forms: ValueForms

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        outcome = Outcome(batch)
        for topic, partition, positions in topic_partitions(batch):
            source = SourceTable(topic, None, None, topic)
            rows = self._parsed(batch, positions.tolist(), outcome)
            target = targets.get(source)
            if not rows:
                continue
            if source not in targets:
                outcome.count(unknown_tables=len(rows))
                images = [row for row in rows.values() if row is not None]
                self._observe(batch, source, partition, rows, all_columns(None, images, len(rows)), outcome)
            elif not isinstance(target, DecodeTarget):
                outcome.skip(source, len(rows))
            else:
                plan = plan_columns(target, None, self.forms)
                self._decode(batch, TableRows(source, partition, target, plan, NoGaps(), outcome, _lacks_none), rows)
        return outcome.decoded()

    def _parsed(self, batch: pa.RecordBatch, positions: list[int], outcome: Outcome) -> dict[int, Row | None]:
        """By position the row of each good record; None deletes that of its key."""
        rows: dict[int, Row | None] = {}
        for position in positions:
            value = batch.column("value")[position].as_py()
            if value is None and self.policies.on_tombstone == "ignore":
                outcome.count(tombstones=1)
                continue
            try:
                rows[position] = None if value is None else parse_json(value)
            except MalformedRecord as error:
                outcome.quarantine(position, str(error))
        return rows

    def _decode(self, batch: pa.RecordBatch, table: TableRows, rows: dict[int, Row | None]) -> None:
        positions = np.array(list(rows), np.int64)
        ops = np.array([DELETE if row is None else UPDATE for row in rows.values()], np.int8)
        keys = [_key(batch, position) if row is None else None for position, row in rows.items()]
        events = table.storable(Events(positions, ops, keys, list(rows.values())))
        converted = table.add([table.change_rows(events)])
        told = table.telling([events], converted).tolist()
        images = [row for position in told if (row := rows[position]) is not None]
        columns = changed_by_values(images, table.target, self.forms)
        self._observe(batch, table.source, table.partition, told, columns, table.outcome)

    def _observe(self, batch: pa.RecordBatch, source: SourceTable, partition: int, positions: Any, columns: Any,
                 outcome: Outcome) -> None:  # fmt: skip
        if columns:
            first = min(positions)
            keys = key_fields(_key(batch, first))
            outcome.observe(Observation(source, columns, keys, partition, outcome.offset(first)))


def _key(batch: pa.RecordBatch, position: int) -> Row:
    key: Row = parse_json(batch.column("key")[position].as_py())
    return key


PLAIN_JSON = RecordFormat("rows as JSON objects", (PlainPolicies, ValueForms), PlainJsonDecoder)


def _lacks_none(_: str, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """See ``Lacks``: every record has all columns."""
    return np.zeros(len(positions), np.bool_)
