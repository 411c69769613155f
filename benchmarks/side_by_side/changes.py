"""The events of a workload and the tables that they make, both from the same numbers.

Events are Debezium JSON of one topic, with the row before and after, as MySQL's binary log and PostgreSQL's REPLICA
IDENTITY FULL give it: Flink's ``debezium-json`` refuses an update without the row before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.side_by_side.columns import KEY, Column, Numbers
from benchmarks.side_by_side.workloads import Workload

SEED = 7
DELETED_SHARE = 0.1
NEW_SHARE = 0.5
ZIPF_EXPONENT = 1.1


@dataclass(frozen=True, slots=True)
class Changes:
    """The events of a workload as numbers. The step of an event is its index; ``before`` is -1 where no row was."""

    keys: Numbers
    kinds: Numbers
    before: Numbers
    deletes: NDArray[np.bool_]
    last_steps: Numbers
    """By kind and key: the step whose values are in the table at the end, or -1."""

    @property
    def ids(self) -> Numbers:
        """The keys of the table at the end."""
        return np.flatnonzero((self.last_steps >= 0).any(axis=0))

    @property
    def row_count(self) -> int:
        """Of the table at the end; an append table has one row for each key, too."""
        return len(self.ids)


def changes_of(workload: Workload, count: int) -> Changes:
    """The same ones each time."""
    rng = np.random.default_rng(SEED)
    keys = _keys(workload, count, rng)
    dice = rng.random(count)
    kind_count = len(workload.kinds)
    kinds = rng.integers(0, kind_count, count) if kind_count > 1 else np.zeros(count, np.int64)
    before = np.full(count, -1, np.int64)
    deletes = np.zeros(count, np.bool_)
    last = np.full((kind_count, int(keys.max()) + 1), -1, np.int64)
    if workload.is_insert_only:
        np.maximum.at(last, (kinds, keys), np.arange(count))
        return Changes(keys, kinds, before, deletes, last)
    deleted_share = DELETED_SHARE if kind_count == 1 else 0.0
    for step, (key, kind, die) in enumerate(zip(keys.tolist(), kinds.tolist(), dice.tolist(), strict=True)):
        there = last[kind, key]
        before[step] = there
        deletes[step] = there >= 0 and die < deleted_share
        last[kind, key] = -1 if deletes[step] else step
    return Changes(keys, kinds, before, deletes, last)


def _keys(workload: Workload, count: int, rng: np.random.Generator) -> Numbers:
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


def records(workload: Workload, changes: Changes) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each Kafka record, in order."""
    texts = [kind.text for kind in workload.kinds]
    sources = [workload.source_tables(kind) for kind in workload.kinds]
    columns = (changes.keys.tolist(), changes.kinds.tolist(), changes.before.tolist(), changes.deletes.tolist())
    for step, (key, kind, before_step, is_delete) in enumerate(zip(*columns, strict=True)):
        before = "null" if before_step < 0 else texts[kind](key, before_step)
        after = "null" if is_delete else texts[kind](key, step)
        op = "d" if is_delete else "c" if before_step < 0 else "u"
        source = _source_text(step, sources[kind][key % workload.table_count])
        value = (
            f'{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":"{op}",'
            f'"ts_ms":1700000000123,"ts_us":1700000000123456,"ts_ns":1700000000123456789}}'
        )
        yield b'{"id":%d}' % key, value.encode()


def _source_text(step: int, table: str) -> str:
    return (
        '{"version":"3.7.0.Final","connector":"postgresql","name":"bench","ts_ms":1700000000000,"snapshot":"false",'
        f'"db":"bench","sequence":"[\\"{step + 1000}\\",\\"{step + 1001}\\"]","ts_us":1700000000000000,'
        '"ts_ns":1700000000000000000,"schema":"public",'
        f'"table":"{table}","txId":{step},"lsn":{step + 1001},"xmin":null}}'
    )


def expected_rows(workload: Workload, changes: Changes) -> dict[str, pa.Table]:
    """The tables at the end by name, each ordered by id."""
    ids = changes.ids
    columns: list[pa.Array] = [pa.array(ids)]
    for number, kind in enumerate(workload.kinds):
        steps = changes.last_steps[number, ids]
        columns += [
            _last(column, ids, steps) if column.fold == "last" else _folded(column, changes, number)
            for column in kind.columns
        ]
    rows = pa.table(columns, schema=workload.schema)
    owners = pa.array(ids % workload.table_count)
    return {name: rows.filter(pc.equal(owners, number)) for number, name in enumerate(workload.tables)}


def _last(column: Column, ids: Numbers, steps: Numbers) -> pa.Array:
    values = _array(column, ids, steps)
    return pc.if_else(pa.array(steps >= 0), values, pa.scalar(None, column.type))


def _folded(column: Column, changes: Changes, kind: int) -> pa.Array:
    """Of all events of the only kind, by key in rising order; none of them is a delete."""
    steps = np.flatnonzero(changes.kinds == kind)
    events = pa.table({KEY: changes.keys[steps], "value": _array(column, changes.keys[steps], steps)})
    function = "sum" if column.fold == "count" else column.fold
    made = events.group_by(KEY).aggregate([("value", function)]).sort_by(KEY)
    return made[f"value_{function}"].combine_chunks().cast(column.type)


def _array(column: Column, ids: Numbers, steps: Numbers) -> pa.Array:
    values = column.values(ids, steps)
    if isinstance(values, np.ndarray):
        return pa.array(values).cast(column.type)
    return pa.array(values, column.type)
