"""Which snapshot is read, and with which schema: the newest one, or one chosen by its id or by a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from paimon_table.errors import ConfigError
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.reading_options import reading_options


def chosen_snapshot(
    ctx: TableContext, snapshot_id: int | None, timestamp_ms: int | None
) -> tuple[Snapshot | None, TableContext]:
    """The snapshot of this id, or the newest one not after the time, and the table with the schema to read it with.

    A snapshot that was asked for is read with its own schema, the newest one with the latest. None before the first
    snapshot. Raises ConfigError where the table has no such snapshot.
    """
    snapshot = _snapshot(ctx, snapshot_id, timestamp_ms)
    travels = snapshot_id is not None or timestamp_ms is not None
    return (snapshot, ctx) if not travels or snapshot is None else as_of(ctx, snapshot)


def as_of(ctx: TableContext, snapshot: Snapshot) -> tuple[Snapshot, TableContext]:
    """A snapshot, such as that of a tag, and the table with the schema that it was written with."""
    if snapshot.schema_id == ctx.schema.id:
        return snapshot, ctx
    schema = ctx.schemas[snapshot.schema_id]
    return snapshot, replace(ctx, schema=schema, options=reading_options(schema))


def _snapshot(ctx: TableContext, snapshot_id: int | None, timestamp_ms: int | None) -> Snapshot | None:
    snapshots = ctx.snapshots
    for what, number in {"snapshot id": snapshot_id, "timestamp (ms since 1970)": timestamp_ms}.items():
        if number is not None and not isinstance(number, int):
            raise ConfigError(f"a {what} is an integer, not {number!r}")
    if snapshot_id is not None and timestamp_ms is not None:
        raise ConfigError("both a snapshot id and a timestamp were given; choose the snapshot by one of them")
    if snapshot_id is not None:
        found = snapshots.find(snapshot_id)
        if found is None:
            earliest, latest = snapshots.earliest_id(), snapshots.latest_id()
            raise ConfigError(
                f"{ctx.paths.root} has no snapshot {snapshot_id}; it has the snapshots {earliest} to {latest}"
            )
        return found
    if timestamp_ms is not None:
        found = snapshots.at_or_before(timestamp_ms)
        if found is None:
            raise ConfigError(_too_early(ctx, timestamp_ms))
        return found
    return snapshots.latest()


def _too_early(ctx: TableContext, timestamp_ms: int) -> str:
    earliest = ctx.snapshots.earliest_id()
    text = f"{ctx.paths.root} has no snapshot at or before {_iso(timestamp_ms)}"
    if earliest is None:
        return f"{text}: it has none at all"
    return f"{text}; its earliest one is of {_iso(ctx.snapshots.read(earliest).time_ms)}: choose a later time"


def _iso(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms since 1970"
