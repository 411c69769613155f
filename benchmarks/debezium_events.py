"""Debezium events made without a database, as the PostgreSQL connector would write them, in lines of `kcat -J`.

The form (key order, encodings, snapshot marks, tombstones, headers of key changes) follows topics recorded from
connector 3.7 with the JSON converter and schemas switched off.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from kafka.partitioner.default import murmur2

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = date(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
CONTEXT_HEADERS = (
    *("__debezium.context.connectorLogicalName", "shop"),
    *("__debezium.context.taskId", "0"),
    *("__debezium.context.connectorName", "postgresql"),
    *("__debezium.context.runId", "019b8a4c-2f60-7c11-9d3e-5a7b10c4e2d8"),
)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class SourceTable:
    """A table of the simulated database; `full_identity` is REPLICA IDENTITY FULL. Compared by identity.

    `columns` has, for every column, the value that the connector writes if PostgreSQL's log has only the key of a
    deleted row. That is NULL if the column may be NULL, else an invented value.
    """

    name: str
    key: tuple[str, ...]
    columns: Row
    partitions: int
    full_identity: bool = False

    @property
    def topic(self) -> str:
        return f"shop.public.{self.name}"

    def key_of(self, row: Row) -> dict[str, Any]:
        return {name: row[name] for name in self.key}

    def only_key(self, row: Row) -> dict[str, Any]:
        """Return the row as the connector knows it from the key alone."""
        return {**self.columns, **self.key_of(row)}


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row before and after a change: None before an insert and after a delete."""

    table: SourceTable
    before: Row | None
    after: Row | None

    @property
    def changes_key(self) -> bool:
        if self.before is None or self.after is None:
            return False
        return self.table.key_of(self.before) != self.table.key_of(self.after)


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed transaction."""

    time: datetime
    changes: tuple[RowChange, ...]


@dataclass(slots=True)
class EventLog:
    """Turns commits into Kafka records; keeps the rising numbers (transaction, log position, offsets)."""

    transaction_id: int = 734
    position: int = 26566280
    last_commit_position: int | None = None
    _offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def snapshot(self, time: datetime, tables: Mapping[SourceTable, Sequence[Row]]) -> Iterator[tuple[str, str]]:
        """Yield (topic, line) for the `r` events of the first rows of all tables, which all share one position."""
        last_table = list(tables)[-1]
        is_first = True
        for table, rows in tables.items():
            for index, row in enumerate(rows):
                mark = "first" if is_first else "true"
                if index == 0 and not is_first:
                    mark = "first_in_data_collection"
                if index == len(rows) - 1:
                    mark = "last" if table is last_table else "last_in_data_collection"
                source = self._source(table, time, mark)
                yield self._record(table, time, table.key_of(row), _envelope(None, _encoded(row), source, "r", time))
                is_first = False

    def live(self, commit: Commit) -> Iterator[tuple[str, str]]:
        """Yield (topic, line) for a transaction: one event a change, and a tombstone after every delete."""
        self.transaction_id += 1
        for change in commit.changes:
            self.position += 8 * (7 + self.transaction_id % 23)
            yield from self._events(change, commit.time)
        self.position += 56
        self.last_commit_position = self.position

    def _events(self, change: RowChange, time: datetime) -> Iterator[tuple[str, str]]:
        table, before, after = change.table, change.before, change.after
        source = self._source(table, time, "false")
        if change.changes_key:
            assert before is not None and after is not None
            new_key, old_key = _json(table.key_of(after)), _json(table.key_of(before))
            yield from self._delete(table, before, source, time, ("__debezium.newkey", new_key))
            envelope = _envelope(None, _encoded(after), source, "c", time)
            yield self._record(table, time, table.key_of(after), envelope, ("__debezium.oldkey", old_key))
        elif after is None:
            assert before is not None
            yield from self._delete(table, before, source, time)
        elif before is None:
            envelope = _envelope(None, _encoded(after), source, "c", time)
            yield self._record(table, time, table.key_of(after), envelope)
        else:
            known = _encoded(before) if table.full_identity else None
            yield self._record(table, time, table.key_of(after), _envelope(known, _encoded(after), source, "u", time))

    def _delete(
        self, table: SourceTable, row: Row, source: Row, time: datetime, headers: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, str]]:
        known = row if table.full_identity else table.only_key(row)
        yield self._record(table, time, table.key_of(row), _envelope(_encoded(known), None, source, "d", time), headers)
        yield self._record(table, time, table.key_of(row), None, headers)

    def _source(self, table: SourceTable, time: datetime, snapshot: str) -> dict[str, Any]:
        time_us = _micros(time)
        last = None if self.last_commit_position is None else str(self.last_commit_position)
        return {
            "version": "3.7.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": time_us // 1000,
            "snapshot": snapshot,
            "db": "shop",
            "sequence": _json([last, str(self.position)]),
            "ts_us": time_us,
            "ts_ns": time_us * 1000,
            "schema": "public",
            "table": table.name,
            "txId": self.transaction_id,
            "lsn": self.position,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }

    def _record(
        self, table: SourceTable, time: datetime, key: Row, payload: Row | None, headers: tuple[str, ...] = ()
    ) -> tuple[str, str]:
        key_text = _json(key)
        partition = (murmur2(key_text.encode()) & 0x7FFFFFFF) % table.partitions
        offset = self._offsets.get((table.topic, partition), 0)
        self._offsets[table.topic, partition] = offset + 1
        line = {
            "topic": table.topic,
            "partition": partition,
            "offset": offset,
            "tstype": "create",
            "ts": _micros(time) // 1000 + 120,
            "broker": 1,
            "headers": [*headers, *CONTEXT_HEADERS],
            "key": key_text,
            "payload": None if payload is None else _json(payload),
        }
        return table.topic, _json(line)


def _envelope(before: Row | None, after: Row | None, source: Row, operation: str, time: datetime) -> dict[str, Any]:
    time_us = _micros(time) + 96_413
    return {
        "before": before,
        "after": after,
        "source": source,
        "transaction": None,
        "op": operation,
        "ts_ms": time_us // 1000,
        "ts_us": time_us,
        "ts_ns": time_us * 1000 + 571,
    }


def _encoded(row: Row) -> dict[str, Any]:
    return {name: _encoded_value(value) for name, value in row.items()}


def _encoded_value(value: Any) -> Any:
    match value:
        case Decimal():
            return _decimal_bytes(value)
        case datetime() if value.tzinfo is None:
            return _micros(value.replace(tzinfo=UTC))
        case datetime():
            return zoned_text(value)
        case date():
            return (value - EPOCH_DAY).days
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value


def zoned_text(value: datetime) -> str:
    """Return io.debezium.time.ZonedTimestamp: UTC, the fraction without trailing zeros."""
    text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{value.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


def _decimal_bytes(value: Decimal) -> str:
    """Return org.apache.kafka.connect.data.Decimal as JSON: the unscaled value, two's complement, in base64."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    unscaled = int(value.scaleb(-exponent))
    size_bytes = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size_bytes, "big", signed=True)).decode()


def _micros(time: datetime) -> int:
    return (time - EPOCH) // MICROSECOND


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
