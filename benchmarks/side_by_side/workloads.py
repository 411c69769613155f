"""What the systems are compared on: each workload is one declaration; its events and its result follow from it.

Events are Debezium JSON of one table, with the row before and after, as MySQL's binary log and PostgreSQL's REPLICA
IDENTITY FULL give it: Flink's ``debezium-json`` refuses an update without the row before. Decimals are text
(``decimal.handling.mode=string``) and times milliseconds, which all systems read without a function of their own.

A row is a pure function of its key and of the step that wrote it. So the result needs no memory but the last step of
each key, and it does not come from any of the systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SEED = 7
DELETED_SHARE = 0.1
NEW_SHARE = 0.5
FIRST_MOMENT_MS = 1_700_000_000_000
ZIPF_EXPONENT = 1.1

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer_id", pa.int64()),
        ("status", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("quantity", pa.int32()),
        ("note", pa.string()),
        ("created_at", pa.timestamp("ms")),
        ("updated_at", pa.timestamp("ms")),
        ("is_paid", pa.bool_()),
        ("address", pa.string()),
    ]
)

_STATES = ("created", "paid", "packed", "shipped", "delivered", "returned")


@dataclass(frozen=True, slots=True)
class Workload:
    """One topic and the table that it makes.

    ``keys`` is ``uniform``, ``zipf``, ``growing`` (every other event has a new key) or ``new`` (all are inserts).
    """

    name: str
    title: str
    keys: str
    events_per_key: int = 5
    events_per_commit: int = 50_000
    """For systems with batches."""
    checkpoint_ms: int = 1000
    """For systems with checkpoints."""
    share: float = 1.0
    """Of the events that were asked for."""
    table_count: int = 1

    @property
    def is_append(self) -> bool:
        """Whether the table has no key: every event is a row."""
        return self.keys == "new"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the source tables, and of the tables that they become. Keys belong to the tables in turn."""
        return tuple(f"orders_{n:02d}" for n in range(self.table_count)) if self.table_count > 1 else ("orders",)

    @property
    def is_skewed(self) -> bool:
        """Whether a few keys have most of the events."""
        return self.keys == "zipf"

    def event_count(self, asked: int) -> int:
        """How many events it has when so many were asked for."""
        return max(1, round(asked * self.share))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("uniform", "Updates, all keys alike", "uniform"),
        Workload("zipf", "Updates, few hot keys", "zipf"),
        Workload("growing", "Updates while the table grows", "growing"),
        Workload("append", "Inserts without a key", "new"),
        Workload("small", "Updates in small commits", "uniform", events_per_commit=2000, checkpoint_ms=100, share=0.05),
        Workload("tables", "Updates of 20 tables in one topic", "uniform", table_count=20, share=0.5),
    )
}


@dataclass(frozen=True, slots=True)
class Changes:
    """The events of a workload as numbers. The step of an event is its index; ``before`` is -1 where no row was."""

    keys: NDArray[np.int64]
    before: NDArray[np.int64]
    deletes: NDArray[np.bool_]
    last_steps: NDArray[np.int64]
    """By key: the step whose row is in the table at the end, or -1."""

    @property
    def row_count(self) -> int:
        """Of the table at the end."""
        return int(np.count_nonzero(self.last_steps >= 0))


def changes_of(workload: Workload, count: int) -> Changes:
    """The same ones each time."""
    rng = np.random.default_rng(SEED)
    keys = _keys(workload, count, rng)
    dice = rng.random(count)
    before = np.full(count, -1, np.int64)
    deletes = np.zeros(count, np.bool_)
    last = np.full(int(keys.max()) + 1, -1, np.int64)
    if workload.is_append:
        last[keys] = np.arange(count)
        return Changes(keys, before, deletes, last)
    for step, (key, die) in enumerate(zip(keys.tolist(), dice.tolist(), strict=True)):
        there = last[key]
        before[step] = there
        deletes[step] = there >= 0 and die < DELETED_SHARE
        last[key] = -1 if deletes[step] else step
    return Changes(keys, before, deletes, last)


def _keys(workload: Workload, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    key_count = max(1, count // workload.events_per_key)
    match workload.keys:
        case "new":
            return np.arange(count, dtype=np.int64)
        case "growing":
            is_new = rng.random(count) < NEW_SHARE
            is_new[0] = True
            there = np.cumsum(is_new)
            return np.where(is_new, there - 1, (rng.random(count) * there).astype(np.int64))
        case "uniform":
            return rng.integers(0, key_count, count)
        case "zipf":
            weights = np.arange(1, key_count + 1) ** -ZIPF_EXPONENT
            ranks = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(count), side="right")
            return rng.permutation(key_count)[np.minimum(ranks, key_count - 1)]
    raise ValueError(f"workload {workload.name}: no such keys as {workload.keys}")


def records(changes: Changes, tables: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each Kafka record, in order."""
    columns = (changes.keys.tolist(), changes.before.tolist(), changes.deletes.tolist())
    for step, (key, before_step, is_delete) in enumerate(zip(*columns, strict=True)):
        before = "null" if before_step < 0 else _row_text(key, before_step)
        after = "null" if is_delete else _row_text(key, step)
        op = "d" if is_delete else "c" if before_step < 0 else "u"
        source = _source_text(step, tables[key % len(tables)])
        value = (
            f'{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":"{op}",'
            f'"ts_ms":1700000000123,"ts_us":1700000000123456,"ts_ns":1700000000123456789}}'
        )
        yield b'{"id":%d}' % key, value.encode()


def expected_rows(changes: Changes, tables: Sequence[str]) -> dict[str, pa.Table]:
    """The tables at the end by name, each ordered by id."""
    ids = np.flatnonzero(changes.last_steps >= 0)
    owners = ids % len(tables)
    return {name: _rows(changes, ids[owners == number]) for number, name in enumerate(tables)}


def _rows(changes: Changes, ids: NDArray[np.int64]) -> pa.Table:
    steps = changes.last_steps[ids]
    pairs = list(zip(ids.tolist(), steps.tolist(), strict=True))
    moments = FIRST_MOMENT_MS + steps
    columns = [
        pa.array(ids),
        pa.array(ids % 5000),
        pa.array([_STATES[step % 6] for _, step in pairs]),
        pa.array([Decimal(_cents(step)).scaleb(-2) for _, step in pairs], pa.decimal128(10, 2)),
        pa.array(steps % 50).cast(pa.int32()),
        pa.array([_note(key, step) for key, step in pairs]),
        pa.array(moments - ids).cast(pa.timestamp("ms")),
        pa.array(moments).cast(pa.timestamp("ms")),
        pa.array(steps % 2 == 1),
        pa.array([_address(key) for key, _ in pairs]),
    ]
    return pa.table(columns, schema=SCHEMA)


def _row_text(key: int, step: int) -> str:
    cents, moment = _cents(step), FIRST_MOMENT_MS + step
    return (
        f'{{"id":{key},"customer_id":{key % 5000},"status":"{_STATES[step % 6]}",'
        f'"amount":"{cents // 100}.{cents % 100:02d}","quantity":{step % 50},"note":"{_note(key, step)}",'
        f'"created_at":{moment - key},"updated_at":{moment},"is_paid":{"true" if step % 2 else "false"},'
        f'"address":"{_address(key)}"}}'
    )


def _cents(step: int) -> int:
    return step * 7919 % 1_000_003


def _note(key: int, step: int) -> str:
    noise = (key * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return f"order {key} step {step} {noise:016x}"


def _address(key: int) -> str:
    return f"{key % 977} Long Street, Town {key % 313}"


def _source_text(step: int, table: str) -> str:
    return (
        '{"version":"3.7.0.Final","connector":"postgresql","name":"bench","ts_ms":1700000000000,"snapshot":"false",'
        f'"db":"bench","sequence":"[\\"{step + 1000}\\",\\"{step + 1001}\\"]","ts_us":1700000000000000,'
        '"ts_ns":1700000000000000000,"schema":"public",'
        f'"table":"{table}","txId":{step},"lsn":{step + 1001},"xmin":null}}'
    )
