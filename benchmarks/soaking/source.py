"""The simulated source of the soak: random changes of a few tables as records of Kafka, and the rows that they lead to.

Every table has its expected final rows in ``rows``, kept by the source's own rules and not by code of the pipeline. The
seed decides all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.stack.topics import TopicRecord

Row = dict[str, Any]

KEYS = 2_000
DAYS = ("2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04")
UNDECLARED_LIMIT = 1 << 63
"""The first integer that a BIGINT, the type of undeclared integers, does not hold."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: its rule in the pipeline file, and what its source does."""

    name: str
    rule: Mapping[str, Any]
    key: tuple[str, ...] = ("id",)
    deletes: bool = True
    only_inserts: bool = False
    has_day: bool = False
    moves: bool = False
    """Rows get another day now and then."""
    leaves_out: bool = False
    """Updates bring NULL for values that they leave as they are, which partial-update keeps."""

    @property
    def topic(self) -> str:
        return f"soak.{self.name}"

    @property
    def table(self) -> str:
        return f"lake.{self.name}"


KINDS = (
    Kind("orders", {"options": {"bucket": 2, "changelog-producer": "lookup"}}),
    Kind("clicks", {"mode": "append", "options": {"bucket": -1}}, only_inserts=True, deletes=False),
    Kind("carts", {"options": {"bucket": -1, "dynamic-bucket.target-row-num": 700, "deletion-vectors.enabled": True}}),
    Kind(
        "visits",
        {
            "primary_key": ["day", "id"],
            "partition_by": ["day"],
            "schema_changes": {"add": "pause"},
            "options": {"bucket": 1},
        },
        key=("day", "id"),
        has_day=True,
    ),
    Kind(
        "profiles",
        {"options": {"bucket": 1, "merge-engine": "partial-update", "changelog-producer": "lookup"}},
        deletes=False,
        leaves_out=True,
    ),
    Kind("stock", {"partition_by": ["day"], "options": {"bucket": -1}}, has_day=True, moves=True),
    Kind("returns", {"backfill": True, "options": {"bucket": 1}}),
)
"""``visits`` refuses new columns until its rule is fixed; the rule of ``returns`` comes while the pipeline runs."""


@dataclass(slots=True)
class Source:
    """One source table. Not thread safe."""

    kind: Kind
    random: Random
    keys: int = KEYS
    rows: dict[int, Row] = field(default_factory=dict)
    """By id, as the table must have them in the end."""
    has_note: bool = False
    """From now on rows have a column ``note``."""
    has_large_numbers: bool = False
    """From now on some numbers need a wider type."""
    _steps: int = 0

    def fill(self) -> list[TopicRecord]:
        """Bring the table to the number of rows that it keeps: the same as it has after many changes."""
        if self.kind.only_inserts:
            return self.change(100)
        share = 0.8 if self.kind.deletes else 1.0
        return [self._put(key) for key in range(self.keys) if self.random.random() < share]

    def change(self, count: int) -> list[TopicRecord]:
        """That many random changes; with deletes about four of five keys have a row."""
        records: list[TopicRecord] = []
        for _ in range(count):
            key = self._steps if self.kind.only_inserts else self.random.randrange(self.keys)
            if key in self.rows and self.kind.deletes and self.random.random() < 0.25:
                records += self._delete(key)
            else:
                records.append(self._put(key))
        return records

    def columns(self) -> list[str]:
        """Those that rows of the table have now."""
        names = dict.fromkeys(name for row in self.rows.values() for name in row)
        return list(names)

    def _put(self, key: int) -> TopicRecord:
        self._steps += 1
        before, row = self.rows.get(key), self._row(key)
        if before is not None and self.kind.leaves_out:
            self.rows[key] = {**before, **{name: value for name, value in row.items() if value is not None}}
        else:
            self.rows[key] = row
        return self._record(row, "c" if before is None else "u", before, row)

    def _delete(self, key: int) -> list[TopicRecord]:
        row = self.rows.pop(key)
        event = self._record(row, "d", row, None)
        return [event, TopicRecord(event.key, None)]

    def _row(self, key: int) -> Row:
        row: Row = {"id": key}
        if self.kind.has_day:
            row["day"] = DAYS[self.random.randrange(len(DAYS)) if self.kind.moves else key % len(DAYS)]
        number: int | None = self.random.randrange(1 << 40)
        if self.has_large_numbers and self.random.random() < 0.2:
            number = UNDECLARED_LIMIT + self._steps
        if self.kind.leaves_out and key in self.rows and self.random.random() < 0.5:
            number = None
        row |= {"n": number, "name": f"{self.kind.name} {self._steps} " + "x" * self.random.randrange(60)}
        if self.has_note:
            row["note"] = f"note {self._steps}"
        return row

    def _record(self, row: Row, op: str, before: Row | None, after: Row | None) -> TopicRecord:
        message_key = {name: row[name] for name in self.kind.key}
        source = {"db": "soak", "schema": "public", "table": self.kind.name, "ts_ms": 1_700_000_000_000 + self._steps}
        value = {"before": before, "after": after, "op": op, "source": source}
        return TopicRecord(json.dumps(message_key).encode(), json.dumps(value).encode(), partition=None)


def bad_record(random: Random) -> TopicRecord:
    """A record that cannot be decoded."""
    return TopicRecord(b'{"id": 1}', b'{"op": "c", "after": ' + random.randbytes(4).hex().encode())


def pipeline_text(
    servers: str, root: str, interval: str, port: int, kinds: Sequence[Kind], *, accepts_columns: bool
) -> str:
    """The pipeline file over the tables of ``kinds``, as JSON, which is YAML."""
    rules = []
    for kind in kinds:
        rule = {"match": {"topic": kind.topic}, "into": kind.table, **kind.rule}
        if accepts_columns:
            rule.pop("schema_changes", None)
        rules.append(rule)
    document = {
        "version": 1,
        "name": "soak",
        "source": {
            "kafka": {
                "bootstrap_servers": servers,
                "topics": {"include": [r"soak\..*"]},
                "max_records_per_batch": 20_000,
                "group_id": "tidemark-soak",
            },
            "format": "debezium-json",
        },
        "trigger": {"interval": interval},
        "checkpoint": f"{root}/checkpoint",
        "catalog": {"warehouse": f"{root}/warehouse"},
        "metrics": {"port": port},
        "spark": {"master": "local[2]", "spark.driver.memory": "1g"},
        "defaults": {
            "options": {
                "snapshot.num-retained.min": 5,
                "snapshot.num-retained.max": 20,
                "snapshot.time-retained": "10s",
            }
        },
        "tables": rules,
    }
    return json.dumps(document, indent=2)
