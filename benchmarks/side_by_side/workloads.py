"""The workloads of the comparison: each is one declaration, from which its events and its result follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from benchmarks.side_by_side.columns import KEY, KEY_TYPE, ORDERS, SHIPMENTS, Column, EventKind, folded


@dataclass(frozen=True, slots=True)
class Workload:
    """One topic and the table that it makes.

    ``keys`` is ``uniform``, ``zipf``, ``growing`` (every other event has a new key) or ``new`` (all are inserts).
    """

    name: str
    title: str
    keys: str
    kinds: tuple[EventKind, ...] = (ORDERS,)
    """The events of the topic. Those of several kinds come in any order, and none is a delete."""
    events_per_key: int = 5
    events_per_commit: int = 50_000
    """For systems with batches."""
    checkpoint_ms: int = 1000
    """For systems with checkpoints."""
    is_paced: bool = True
    """Tidemark's batches take as long as a checkpoint; else they have ``events_per_commit``."""
    share: float = 1.0
    """Of the events that were asked for."""
    table_count: int = 1

    @property
    def is_append(self) -> bool:
        """Whether the table has no key: every event is a row."""
        return self.keys == "new"

    @property
    def merge_engine(self) -> Literal["deduplicate", "partial-update", "aggregation"]:
        """What makes one row of the events of a key, in Paimon's words."""
        if any(column.fold != "last" for column in self.columns):
            return "aggregation"
        return "deduplicate" if len(self.kinds) == 1 else "partial-update"

    @property
    def is_insert_only(self) -> bool:
        """Whether no event changes an earlier one: sums would have to take the earlier values out."""
        return self.is_append or self.merge_engine == "aggregation"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables. Keys belong to the tables in turn."""
        return self.source_tables(self.kinds[0])

    def source_tables(self, kind: EventKind) -> tuple[str, ...]:
        """The source tables of a kind, in the order of the tables that they become."""
        name = kind.source_table
        return tuple(f"{name}_{n:02d}" for n in range(self.table_count)) if self.table_count > 1 else (name,)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All but the key."""
        return tuple(column for kind in self.kinds for column in kind.columns)

    @property
    def schema(self) -> pa.Schema:
        """Of its tables."""
        return pa.schema([(KEY, KEY_TYPE), *((column.name, column.type) for column in self.columns)])

    @property
    def is_skewed(self) -> bool:
        """Whether a few keys have most of the events."""
        return self.keys == "zipf"

    def event_count(self, asked: int) -> int:
        """How many events it has for a requested number."""
        return max(1, round(asked * self.share))


def by_name(*workloads: Workload) -> Mapping[str, Workload]:
    """The workloads under their names."""
    return {workload.name: workload for workload in workloads}


PAYMENTS = folded(ORDERS, {"amount": "sum", "quantity": "max"}, count="payments")
WORKLOADS = by_name(
    Workload("uniform", "Updates over uniform keys", "uniform"),
    Workload("zipf", "Updates over a few hot keys", "zipf"),
    Workload("growing", "Updates of a growing table", "growing"),
    Workload("append", "Inserts without a key", "new"),
    Workload(
        "small",
        "Updates in small commits",
        "uniform",
        events_per_commit=2000,
        checkpoint_ms=100,
        is_paced=False,
        share=0.05,
    ),
    Workload("large", "Updates in large commits", "uniform", events_per_commit=500_000, checkpoint_ms=5000, share=2.0),
    Workload("tables", "Updates of 20 tables in one topic", "uniform", table_count=20, share=0.5),
    Workload("wide", "Two sources that fill one wide row", "uniform", kinds=(ORDERS, SHIPMENTS), events_per_key=10),
    Workload("aggregation", "Sum, maximum, last value and count per key", "uniform", kinds=(PAYMENTS,)),
)
