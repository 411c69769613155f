"""The details that the page shows on request: buckets, history, some rows and changes of a table; the newest bad
records.

Buckets come from memory. The rest is a bounded read from the storage, as plain data for JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pyarrow as pa

from paimon_table import BucketId, DataFileMeta, Table, TableState
from paimon_table.types import sql
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.config.config import PipelineConfig
from pipelines.prepared import own_tables
from pipelines.quarantine.selection import grouped
from pipelines.report.row_output import records
from pipelines.report.table_report import kinds_first, schema_versions, snapshot_rows
from pipelines.tables.target_names import TargetNames

BUCKETS_SHOWN = 200
SNAPSHOTS_SHOWN = 50
ROWS_SHOWN = 20
COLUMNS_SHOWN = 40
RECORDS_READ = 10_000
"""The newest records of a quarantine."""

LONGEST_VALUE = 500
"""Characters shown of a value, with their total number."""


def buckets(table: Table, state: TableState, *, with_values: bool) -> dict[str, Any]:
    """Sorted runs of every bucket, buckets with most runs first; an append table has files instead of runs.

    Without values the partitions are numbered instead of named: their names are values of rows.
    """
    of_partitions = sorted({bucket.partition for bucket in state.files}, key=table.context.partition_path)
    names = {
        partition: table.context.partition_path(partition)
        if with_values or not table.schema.partition_keys
        else f"partition {number}"
        for number, partition in enumerate(of_partitions, 1)
    }
    shown = [_bucket(names[bucket.partition], bucket, files) for bucket, files in state.files.items()]
    shown.sort(key=lambda one: (-len(one["runs"]), one["partition"], one["bucket"]))
    return {
        "count": len(shown),
        "max_level": table.options.num_levels - 1 if table.options.has_key else 0,
        "buckets": shown[:BUCKETS_SHOWN],
    }


def _bucket(partition: str, bucket: BucketId, files: Iterable[DataFileMeta]) -> dict[str, Any]:
    runs: dict[tuple[int, str], list[DataFileMeta]] = {}
    for file in files:
        runs.setdefault((file.level, file.file_name if file.level == 0 else ""), []).append(file)
    return {
        "partition": partition,
        "bucket": bucket.bucket,
        "runs": [
            {
                "level": level,
                "files": len(of_run),
                "bytes": sum(f.file_size_bytes for f in of_run),
                "rows": sum(f.row_count for f in of_run),
            }
            for (level, _), of_run in sorted(runs.items(), key=lambda item: item[0])
        ],
    }


def history(table: Table) -> dict[str, Any]:
    """The newest snapshots, and the versions of the schema with what each changed."""
    snapshots = snapshot_rows([*islice(table.snapshots.newest_first(), SNAPSHOTS_SHOWN)]).to_pylist()
    for row in snapshots:
        row["time"] = row["time"].isoformat(timespec="milliseconds")
    versions = schema_versions(table)
    versions[0][1].extend(f"+ {f.name} {sql(f.type)}" for f in versions[0][0].fields)
    schemas = [
        {"id": schema.id, "columns": len(schema.fields), "changes": changes} for schema, changes in reversed(versions)
    ]
    return {"snapshots": snapshots, "schemas": schemas, "options": dict(table.schema.options)}


def sample(table: Table) -> dict[str, Any]:
    """The first rows that a scan gives."""
    names = list(table.schema.column_names[:COLUMNS_SHOWN])
    rows = table.schema.arrow_schema.empty_table().select(names)
    for part in table.read(names):
        rows = pa.concat_tables([rows, part], promote_options="permissive").slice(0, ROWS_SHOWN)
        if rows.num_rows == ROWS_SHOWN:
            break
    return _shown(rows, len(table.schema.column_names))


def changes(table: Table) -> dict[str, Any]:
    """The last changes of the newest snapshot that has any; without a changelog, the rows as they were written."""
    names = list(table.schema.column_names[:COLUMNS_SHOWN])
    for number, snapshot in enumerate(table.snapshots.newest_first()):
        if number == SNAPSHOTS_SHOWN:
            break
        if snapshot.changelog_record_count or (
            table.options.changelog_producer == "none" and snapshot.delta_record_count
        ):
            for part in table.changes_of(snapshot, names):
                if part.num_rows:
                    return _shown(kinds_first(part.slice(0, ROWS_SHOWN), names, snapshot.id), len(names))
    return {"columns": [], "rows": [], "left_out": 0}


def bad_records(config: PipelineConfig) -> dict[str, Any]:
    """Groups with a few records each, among the newest records of the quarantine."""
    if config.source.on_bad_record == "fail":
        return {"files": 0, "read": 0, "groups": []}
    bad = DeadLetters(config)
    facts = bad.facts()
    newest = facts.newest(RECORDS_READ).in_file_order()
    names = TargetNames(config, lambda: own_tables(config).positions().known.items())
    groups = [
        {
            "table": group.table,
            "reason": group.reason,
            "count": group.count,
            "examples": [
                {
                    "place": f"{line.topic} {line.partition}:{line.offset}",
                    "reason": cut(line.reason),
                    "record": cut(line.text.decode(errors="replace")),
                }
                for line in group.examples
            ],
        }
        for group in grouped(bad.records(newest), names.of)
    ]
    return {"files": facts.file_count, "read": newest.file_count, "groups": groups}


def _shown(rows: pa.Table, column_count: int) -> dict[str, Any]:
    return {
        "columns": rows.column_names,
        "rows": [[cut(value) for value in record.values()] for record in records(rows)],
        "left_out": max(0, column_count - len(rows.column_names)),
    }


def cut(value: Any) -> str | None:
    """A plain value as text of bounded length; None for NULL."""
    if value is None:
        return None
    text = value if isinstance(value, str) else repr(value) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text):,} characters)"
