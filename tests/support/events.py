"""Seeded histories of Debezium events as `kcat -J` prints them, with the table content that they lead to."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sources.changes import RECORD_SCHEMA

Row = dict[str, Any]


@dataclass
class History:
    """Events of one source table: a random walk of inserts, updates, key changes and deletes."""

    table: str
    seed: int
    partitions: int = 2
    keys: int = 300
    regions: int = 0
    """With some, rows have a column ``region``, which updates change."""
    rows: dict[int, Row] = field(default_factory=dict)
    """Content of the source table after the events so far, by primary key."""
    events: list[tuple[int, Row | None, Row | None]] = field(default_factory=list)
    """(topic partition, message key, envelope or None for a tombstone) in order of production."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._step = 0

    @property
    def topic(self) -> str:
        return f"shop.public.{self.table}"

    def extend(self, changes: int) -> History:
        for _ in range(changes):
            self._step += 1
            key = self._random.randrange(self.keys)
            row = {
                "id": key,
                "name": f"name {self._step}",
                "amount": self._random.randrange(10_000),
                "step": self._step,
            }
            if self.regions:
                row["region"] = f"r{self._random.randrange(self.regions)}"
            dice = self._random.random()
            if key not in self.rows:
                self.rows[key] = row
                self._emit("c", key, None, row)
            elif dice < 0.75:
                self.rows[key] = row
                self._emit("u", key, None, row)
            elif dice < 0.9:
                self._delete(key)
            else:
                self._change_key(key)
        return self

    def _change_key(self, key: int) -> None:
        new_key = key + self.keys
        row = {**self.rows[key], "id": new_key, "step": self._step}
        self._delete(key)
        op = "u" if new_key in self.rows else "c"
        self.rows[new_key] = row
        self._emit(op, new_key, None, row)

    def _delete(self, key: int) -> None:
        self._emit("d", key, {**self.rows.pop(key), "name": ""}, None)
        self.events.append((key % self.partitions, {"id": key}, None))

    def _emit(self, op: str, key: int, before: Row | None, after: Row | None) -> None:
        source = {"version": "3.0", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_000 + self._step}
        source |= {"snapshot": "false", "db": "shop", "schema": "public", "table": self.table, "lsn": self._step}
        envelope = {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"]}
        self.events.append((key % self.partitions, {"id": key}, envelope))

    def lines(self) -> Iterator[str]:
        """The events as dump lines; offsets count per topic partition."""
        offsets = [0] * self.partitions
        for partition, key, envelope in self.events:
            record = {"topic": self.topic, "partition": partition, "offset": offsets[partition], "tstype": "create"}
            record |= {"ts": 1_700_000_000_000, "broker": 1, "key": json.dumps(key)}
            record["payload"] = None if envelope is None else json.dumps(envelope)
            offsets[partition] += 1
            yield json.dumps(record)


def write_dump(path: Path, histories: Sequence[History]) -> None:
    """One dump file per history."""
    path.mkdir(parents=True, exist_ok=True)
    for history in histories:
        (path / f"{history.topic}.jsonl").write_text("".join(line + "\n" for line in history.lines()))


def records_of(history: History) -> pa.RecordBatch:
    """The history's events as one Arrow batch of Kafka records."""
    lines = [json.loads(line) for line in history.lines()]
    rows = [
        {
            "topic": line["topic"],
            "partition": line["partition"],
            "offset": line["offset"],
            "timestamp": line["ts"] * 1000,
            "key": line["key"].encode(),
            "value": None if line["payload"] is None else line["payload"].encode(),
            "headers": None,
        }
        for line in lines
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
