"""The output of `tidemark table` about a table, other than its rows, as Arrow tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from rich.text import Text

from paimon_table import BucketId, DataFileMeta, Snapshot, Table, TableSchema
from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.types import sql
from pipelines.report.output import SNAPSHOT_ID, RowFormat
from pipelines.report.row_output import cell_text, print_table, rich_table
from pipelines.report.safe_text import json_line, shown
from pipelines.tables.column_changes import column_differences
from pipelines.tables.continued_tables import known_continuation
from pipelines.views.table_shape import table_shape

ROW_KIND = "_row_kind"
_COUNTED_ROWS = 10_000_000
"""Stored rows up to which a table is read to count its rows, a few seconds."""


def kinds_first(rows: pa.Table, columns: Sequence[str] | None, snapshot_id: int | None) -> pa.Table:
    """Changes for printing: `_row_kind`, `_snapshot_id` on request, then the requested columns."""
    words = pa.array([kind.short for kind in RowKind])
    kinds = words.take(rows.column(VALUE_KIND).cast(pa.int32()))
    values = rows.drop_columns([VALUE_KIND])
    values = values.select(list(columns)) if columns is not None else values
    names, arrays = [ROW_KIND], [kinds]
    if snapshot_id is not None:
        names.append(SNAPSHOT_ID)
        arrays.append(pa.array(np.full(rows.num_rows, snapshot_id, np.int64)))
    return pa.table([*arrays, *values.columns], names=[*names, *values.column_names])


def all_snapshots(table: Table) -> list[Snapshot]:
    """The snapshots that have not expired, oldest first."""
    earliest, latest = table.snapshots.earliest_id(), table.snapshots.latest_id()
    if earliest is None or latest is None:
        return []
    found = (table.snapshots.find(snapshot_id) for snapshot_id in range(earliest, latest + 1))
    return [snapshot for snapshot in found if snapshot is not None]


def snapshot_rows(snapshots: Sequence[Snapshot]) -> pa.Table:
    """One row per snapshot."""
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "id": (pa.int64(), [s.id for s in snapshots]),
        "kind": (pa.string(), [str(s.commit_kind) for s in snapshots]),
        "user": (pa.string(), [s.commit_user for s in snapshots]),
        "identifier": (pa.int64(), [s.commit_identifier for s in snapshots]),
        "time": (pa.timestamp("ms", "UTC"), [s.time_ms for s in snapshots]),
        "schema": (pa.int64(), [s.schema_id for s in snapshots]),
        "rows": (pa.int64(), [s.total_record_count for s in snapshots]),
        "added_rows": (pa.int64(), [s.delta_record_count for s in snapshots]),
        "changelog_rows": (pa.int64(), [s.changelog_record_count or 0 for s in snapshots]),
    }
    return _table(columns)


def schema_rows(table: Table) -> pa.Table:
    """One row per version of the schema, with what differs from the one before it."""
    versions = schema_versions(table)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "id": (pa.int64(), [schema.id for schema, _ in versions]),
        "time": (pa.timestamp("ms", "UTC"), [schema.time_ms for schema, _ in versions]),
        "columns": (pa.int32(), [len(schema.fields) for schema, _ in versions]),
        "changes": (pa.string(), ["; ".join(changes) or "the first" for _, changes in versions]),
    }
    return _table(columns)


def schema_versions(table: Table) -> list[tuple[TableSchema, list[str]]]:
    """The versions of the schema, oldest first, each with what differs from the one before it."""
    versions = [table.context.schemas[id_] for id_ in sorted(table.context.schemas)]
    one = known_continuation(versions[0])
    return [
        (versions[0], [] if one is None else [one.words(versions[0].primary_keys)]),
        *((after, _differences(before, after)) for before, after in pairwise(versions)),
    ]


def _differences(before: TableSchema, after: TableSchema) -> list[str]:
    """Columns, then options; comments and the like under one word."""
    found = [words for _, words in column_differences(before, after)]
    names = sorted({*before.options, *after.options})
    changed = [(name, after.options.get(name)) for name in names if before.options.get(name) != after.options.get(name)]
    found += [f"option {name} reset" if value is None else f"option {name} = {value}" for name, value in changed]
    return found or ["comments or keys"]


def file_rows(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """One row per live data file of a snapshot, by partition, bucket, level and key."""
    files = _sorted_files(table, snapshot)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "partition": (pa.string(), [_partition_text(table, bucket) for bucket, _ in files]),
        "bucket": (pa.int32(), [bucket.bucket for bucket, _ in files]),
        "level": (pa.int32(), [file.level for _, file in files]),
        "rows": (pa.int64(), [file.row_count for _, file in files]),
        "deletes": (pa.int64(), [file.delete_row_count for _, file in files]),
        "bytes": (pa.int64(), [file.file_size_bytes for _, file in files]),
        "min_key": (pa.string(), [_key_text(table, file.min_key) for _, file in files]),
        "max_key": (pa.string(), [_key_text(table, file.max_key) for _, file in files]),
        "min_sequence": (pa.int64(), [file.min_sequence_number for _, file in files]),
        "max_sequence": (pa.int64(), [file.max_sequence_number for _, file in files]),
        "schema": (pa.int64(), [file.schema_id for _, file in files]),
        "file": (pa.string(), [file.file_name for _, file in files]),
    }
    return _table(columns)


def show_table(table: Table, output: RowFormat) -> None:
    """Print the table as a whole; JSON is one object."""
    facts = table_facts(table)
    match output:
        case RowFormat.JSON:
            sys.stdout.write(json_line(facts) + "\n")
        case RowFormat.TABLE:
            _print_facts(facts)
        case RowFormat.CSV | RowFormat.VERTICAL:
            raise ConfigError(f"--format {output}: `table show` prints several things, not rows; use table or json")


def table_facts(table: Table) -> dict[str, Any]:
    """Path, columns, keys, options, newest snapshot, and sums over the live files."""
    latest = table.snapshots.latest()
    state, schema = table.state(latest), table.schema
    shape = table_shape(state, table.options)
    return {
        "path": table.paths.root,
        "schema_id": schema.id,
        "comment": schema.comment,
        "columns": [{"name": f.name, "type": sql(f.type), "description": f.description} for f in schema.fields],
        "primary_key": list(schema.primary_keys),
        "partition_by": list(schema.partition_keys),
        "options": dict(schema.options),
        "snapshot": None if latest is None else _snapshot_facts(latest),
        "partitions": len({bucket.partition for bucket in state.files}),
        "buckets": shape.buckets,
        "files": shape.files,
        "file_bytes": shape.size_bytes,
        "file_rows": shape.stored_rows,
        "rows": _live_row_count(table, shape.stored_rows),
        "waiting_rows": shape.waiting_rows,
        "levels": {str(level): of_level.files for level, of_level in shape.levels.items()},
    }


def _live_row_count(table: Table, stored_rows: int) -> int | None:
    """Rows that a scan gives; None for tables that are too large to read for it, or cannot be read."""
    if stored_rows > _COUNTED_ROWS:
        return None
    key = list(table.schema.primary_keys or table.schema.column_names[:1])
    try:
        return sum(int(part.num_rows) for part in table.read(key))
    except UnsupportedFeature:
        return None


def waiting_text(count: int, path: str) -> str:
    """How many rows wait, and for what."""
    note = f"{count:,} rows wait in postponed buckets ('bucket' = -2); readers see them after a compaction"
    return f"{note}: tidemark table compact {path}"


def _snapshot_facts(snapshot: Snapshot) -> dict[str, Any]:
    row: dict[str, Any] = snapshot_rows([snapshot]).to_pylist()[0]
    row["time"] = row["time"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {**row, "properties": dict(snapshot.properties)}


def _print_facts(facts: dict[str, Any]) -> None:
    columns = rich_table([("column", False), ("type", False), ("key", False)])
    for column in facts["columns"]:
        name = column["name"]
        roles = [
            role
            for role, names in (("primary", facts["primary_key"]), ("partition", facts["partition_by"]))
            if name in names
        ]
        columns.add_row(Text(shown(name)), Text(shown(column["type"])), ", ".join(roles))
    print_table(columns)
    state = rich_table([("", False), ("", False)])
    state.show_header = False
    snapshot = facts["snapshot"]
    lines: dict[str, Any] = {
        "path": facts["path"],
        "schema": facts["schema_id"],
        "options": ", ".join(f"{k} = {v}" for k, v in facts["options"].items()) or "none",
        "snapshot": "none" if snapshot is None else f"{snapshot['id']} ({snapshot['kind']}, {snapshot['time']})",
        "rows": "not counted" if facts["rows"] is None else f"{facts['rows']:,}",
        "buckets": f"{facts['buckets']} with data in {facts['partitions']} partition(s)",
        "files": f"{facts['files']} with {facts['file_rows']:,} stored rows, {facts['file_bytes']:,} bytes",
        "files per level": ", ".join(f"{level}: {n}" for level, n in facts["levels"].items()) or "none",
    }
    if facts["waiting_rows"]:
        lines["waiting"] = waiting_text(facts["waiting_rows"], facts["path"])
    for name, value in lines.items():
        state.add_row(Text(name, style="bold"), Text(shown(cell_text(value))))
    sys.stdout.write("\n")
    print_table(state)


def _sorted_files(table: Table, snapshot: Snapshot | None) -> list[tuple[BucketId, DataFileMeta]]:
    state = table.state(snapshot)
    files = [(bucket, file) for bucket, of_bucket in state.files.items() for file in of_bucket]
    return sorted(files, key=lambda item: (item[0].partition, item[0].bucket, item[1].level, item[1].file_name))


def _partition_text(table: Table, bucket: BucketId) -> str:
    return table.context.partition_path(bucket.partition)


def _key_text(table: Table, key: bytes) -> str | None:
    """The values of a serialized key, joined by commas; None if the file has none."""
    values = table.context.key_values(key)
    return None if values is None else ", ".join("NULL" if value is None else str(value) for value in values)


def _table(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    return pa.table({name: pa.array(values, type_) for name, (type_, values) in columns.items()})
