"""Statistics about the rows of a table, for the planners of engines.

Implements Paimon's ANALYZE: a file in ``statistics/`` has the number of rows and the statistics of columns. An ANALYZE
snapshot without changes names it. Later snapshots name it too, until the schema changes.

The durable steps are the statistics file, then the snapshot. An interruption between them leaves a file that no
snapshot names, which ``remove-orphans`` removes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.json_text import pretty
from paimon_table.maintenance.column_statistics import ColumnStatistics
from paimon_table.maintenance.job import Job
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_state import TableState
from paimon_table.nearest_name import did_you_mean
from paimon_table.scan.scan import TableScan
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The statistics of a snapshot, and the snapshot that names them."""

    snapshot_id: int
    row_count: int
    size_bytes: int
    columns: tuple[str, ...]


def analyze(table: Table, job: Job, columns: Sequence[str] | None = None) -> Analyzed | None:
    """Read the newest snapshot and publish its statistics, of these columns or of all.

    None for a table without snapshots. Raises ConfigError for missing columns. If the schema changes or others keep
    committing, raises CommitConflict and publishes nothing.
    """
    chosen = _chosen(table, columns)
    commit = job.commit_to(table)
    state = commit.refresh()
    snapshot = state.snapshot
    if snapshot is None:
        return None
    found, row_count = _gathered(table, snapshot, chosen, job)
    size_bytes = _merged_size(state, snapshot, row_count)
    if table.refreshed() is not table:
        raise CommitConflict(f"{table.paths.root}: the schema changed during the analysis; analyze the table again")
    document = _document(table, snapshot, row_count, size_bytes, found)
    name = f"stat-{job.environment.new_uuid()}-0"
    path = table.paths.statistics_file(name)
    table.io.write(path, pretty(document).encode())
    try:
        done = commit.analyze(next(job.identifiers), name)
    except CommitConflict:
        # Unreferenced: its only snapshot was not published.
        table.io.delete(path)
        raise
    published = done.analyze.id if done.analyze is not None else snapshot.id
    return Analyzed(published, row_count, size_bytes, tuple(chosen))


def _chosen(table: Table, columns: Sequence[str] | None) -> tuple[str, ...]:
    known = table.schema.column_names
    for name in columns or ():
        if name not in known:
            raise ConfigError(f"{table.paths.root} has no column {name!r}; {did_you_mean(name, known)}", column=name)
    return tuple(known) if columns is None else tuple(dict.fromkeys(columns))


def _gathered(
    table: Table, snapshot: Snapshot, names: Sequence[str], job: Job
) -> tuple[tuple[ColumnStatistics, ...], int]:
    """The statistics of the columns, and the number of rows."""
    found = tuple(ColumnStatistics(table.schema.field(name)) for name in names)
    scan = TableScan.make(table.context, list(names) or [table.schema.column_names[0]])
    splits = scan.plan(snapshot)
    job.progress.begin("read", sum(file.row_count for split in splits for file in split.files))
    row_count = 0
    for split in splits:
        for rows in scan.read(split):
            row_count += rows.num_rows
            _add(found, rows)
        job.progress.advance(sum(file.row_count for file in split.files))
    return found, row_count


def _add(found: Sequence[ColumnStatistics], rows: pa.Table) -> None:
    for statistics in found:
        statistics.add(rows.column(statistics.column.name))


def _merged_size(state: TableState, snapshot: Snapshot, row_count: int) -> int:
    """The bytes of the rows that readers see, estimated from the size of the files."""
    stored_bytes = sum(file.file_size_bytes for files in state.files.values() for file in files)
    stored_rows = snapshot.total_record_count
    return stored_bytes * row_count // stored_rows if stored_rows else 0


def _document(
    table: Table, snapshot: Snapshot, row_count: int, size_bytes: int, found: Sequence[ColumnStatistics]
) -> Mapping[str, object]:
    return {
        "snapshotId": snapshot.id,
        "schemaId": table.schema.id,
        "mergedRecordCount": row_count,
        "mergedRecordSize": size_bytes,
        "colStats": {statistics.column.name: statistics.to_json() for statistics in found},
    }
