"""The output of `tidemark table tags | branches | consumers list`, as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa

from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import Consumer
from paimon_table.history.tags import Tag

_TIME = pa.timestamp("ms", "UTC")


def tag_rows(tags: Sequence[Tag]) -> pa.Table:
    """One row per tag; ``created`` is from the clock of its creator."""
    snapshots = [tag.snapshot for tag in tags]
    return pa.table({
        "tag": pa.array([tag.name for tag in tags], pa.string()),
        "snapshot": pa.array([s.id for s in snapshots], pa.int64()),
        "time": pa.array([s.time_ms for s in snapshots], _TIME),
        "schema": pa.array([s.schema_id for s in snapshots], pa.int64()),
        "rows": pa.array([s.total_record_count for s in snapshots], pa.int64()),
        "created": pa.array([tag.created for tag in tags], pa.timestamp("ms")),
        "retained": pa.array([None if tag.retained is None else _text(tag.retained) for tag in tags], pa.string()),
    })  # fmt: skip


def _text(length: timedelta) -> str:
    seconds = int(length.total_seconds())
    for unit, of_unit in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds and seconds % of_unit == 0:
            return f"{seconds // of_unit} {unit}"
    return f"{seconds} s"


def branch_rows(branches: BranchStore) -> pa.Table:
    """One row per branch; a branch without rows has no snapshots."""
    names = sorted(branches.names())
    newest = [branches.snapshots(name).latest() for name in names]
    return pa.table({
        "branch": pa.array(names, pa.string()),
        "earliest_snapshot": pa.array([branches.snapshots(name).earliest_id() for name in names], pa.int64()),
        "latest_snapshot": pa.array([None if s is None else s.id for s in newest], pa.int64()),
        "time": pa.array([None if s is None else s.time_ms for s in newest], _TIME),
        "rows": pa.array([None if s is None else s.total_record_count for s in newest], pa.int64()),
        "tags": pa.array([len(branches.tags(name).names()) for name in names], pa.int64()),
    })  # fmt: skip


def consumer_rows(consumers: Sequence[Consumer]) -> pa.Table:
    """One row per consumer."""
    return pa.table({
        "consumer": pa.array([c.name for c in consumers], pa.string()),
        "next_snapshot": pa.array([c.next_snapshot for c in consumers], pa.int64()),
        "moved": pa.array([c.modified_ms for c in consumers], _TIME),
    })  # fmt: skip
