"""Chooses the snapshot to read and its schema: the newest one, or one by its id, a time or a stored option."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.metadata.snapshot import Snapshot, from_json
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.reading_options import reading_options

_SCAN_MODE, _SCAN_TAG, _SCAN_VERSION = "scan.mode", "scan.tag-name", "scan.version"
_SCAN_SNAPSHOT, _SCAN_TIME = "scan.snapshot-id", "scan.timestamp-millis"

_CHOOSING_ROWS = frozenset({
    "scan.timestamp", "scan.watermark", "scan.creation-time-millis", "scan.file-creation-time-millis",
    "incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag",
})  # fmt: skip
_CHOOSING_MODES = frozenset({"compacted-full", "from-creation-timestamp", "from-file-creation-time", "incremental"})


def chosen_snapshot(
    ctx: TableContext, snapshot_id: int | None, timestamp_ms: int | None
) -> tuple[Snapshot | None, TableContext]:
    """The snapshot of this id, or the newest one not after the time, and the table with the schema to read it with.

    A requested snapshot is read with its own schema, the newest one with the latest schema. None before the first
    snapshot. Raises ConfigError if the table has no such snapshot.
    """
    snapshot = _snapshot(ctx, snapshot_id, timestamp_ms)
    travels = snapshot_id is not None or timestamp_ms is not None
    return (snapshot, ctx) if not travels or snapshot is None else as_of(ctx, snapshot)


def stored_snapshot(ctx: TableContext) -> Snapshot | None:
    """The snapshot that the table's options select for batch readers, as in Paimon; None if they select none.

    Raises ConfigError if the table has no such snapshot, UnsupportedFeature for options that select rows in another
    way.
    """
    options = ctx.schema.options
    for name in sorted(options):
        if name in _CHOOSING_ROWS or (name == _SCAN_MODE and options[name].strip().lower() in _CHOOSING_MODES):
            raise UnsupportedFeature(
                f"{ctx.paths.root} has option {name!r} = {options[name]!r}, which chooses the rows of readers "
                "and is not supported. Name a snapshot, a tag or a time, or remove the option (ALTER TABLE ... RESET)",
                option=name,
            )
    if _SCAN_TAG in options:
        return _tagged(ctx, options[_SCAN_TAG], _SCAN_TAG)
    version = options.get(_SCAN_VERSION)
    if version is not None and (not version.isdecimal() or ctx.io.exists(ctx.paths.tag_file(version))):
        return _tagged(ctx, version, _SCAN_VERSION)
    snapshot_id = options.get(_SCAN_SNAPSHOT, version)
    moment = options.get(_SCAN_TIME)
    if snapshot_id is not None:
        return _snapshot(ctx, _number(ctx, _SCAN_SNAPSHOT, snapshot_id), None)
    return None if moment is None else _snapshot(ctx, None, _number(ctx, _SCAN_TIME, moment))


def _tagged(ctx: TableContext, name: str, option: str) -> Snapshot:
    path = ctx.paths.tag_file(name)
    try:
        return from_json(ctx.io.read(path), path)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{ctx.paths.root} has no tag {name!r}, which its option {option!r} names; create it or remove the option",
            option=option,
        ) from error


def _number(ctx: TableContext, option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(
            f"{ctx.paths.root} has option {option!r} = {text!r}, which is not a number; correct or remove the option",
            option=option,
        ) from error


def as_of(ctx: TableContext, snapshot: Snapshot) -> tuple[Snapshot, TableContext]:
    """A snapshot, such as that of a tag, and the table with the snapshot's schema."""
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
        return f"{text}: it has no snapshots"
    return f"{text}; its earliest one is of {_iso(ctx.snapshots.read(earliest).time_ms)}: choose a later time"


def _iso(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms since 1970"
