"""What a finished `run --once` left in its tables, for the summary."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pyarrow as pa

from paimon_table.changelog_scan import read_changes
from paimon_table.scan import read_table
from paimon_table.table import Table
from paimon_table.table_state import load_state
from pipelines.config import PipelineConfig
from pipelines.progress import ProgressLine
from pipelines.summary import RunSummary, TableSample, TableSummary
from pipelines.table_report import all_snapshots, kinds_first

SAMPLE_ROWS = 5
SAMPLE_COLUMNS = 8


def summarize(config: PipelineConfig, tables: Mapping[str, Table], progress: ProgressLine) -> RunSummary:
    """The state of the tables and the totals of the run. Reads the tables' snapshots, and the keys of their rows.

    ``tables`` are those that the run touched; those that rules name without placeholders are added when they exist.
    """
    shown = dict(tables)
    for rule in config.tables:
        if "{" not in rule.into and rule.into not in shown:
            name = config.target_rule(rule).target(None, None, None, "")
            table = Table.open_if_exists(name.path_in(config.catalog.warehouse), config.catalog.options)
            if table is not None:
                shown[rule.into] = table
    summaries = tuple(_table_summary(name, shown[name]) for name in sorted(shown))
    largest = max(summaries, key=lambda s: (s.changelog_row_count, s.row_count), default=None)
    return RunSummary(
        config.name,
        progress.record_count,
        progress.quarantined_count,
        progress.seconds,
        summaries,
        None if largest is None else _sample(largest.identifier, shown[largest.identifier]),
        config.quarantine,
    )


def _table_summary(identifier: str, table: Table) -> TableSummary:
    snapshots = all_snapshots(table)
    state = load_state(table.io, table.paths, snapshots[-1] if snapshots else None)
    key = list(table.schema.trimmed_primary_keys[:1])
    return TableSummary(
        identifier,
        table.paths.root,
        sum(part.num_rows for part in read_table(table, key)),
        len(state.files),
        len(snapshots),
        sum(snapshot.changelog_record_count or 0 for snapshot in snapshots),
    )


def _sample(identifier: str, table: Table) -> TableSample:
    """The first rows that a scan gives, and the newest changes; the first columns of wide tables."""
    names = list(table.schema.column_names[:SAMPLE_COLUMNS])
    rows = _first_rows(table, names)
    latest = table.snapshots.latest_id()
    if table.options.changelog_producer == "none" or latest is None:
        return TableSample(identifier, rows, None)
    return TableSample(identifier, rows, _newest_changes(table, latest, names))


def _first_rows(table: Table, names: list[str]) -> pa.Table:
    for part in read_table(table, names):
        if part.num_rows:
            return part.slice(0, SAMPLE_ROWS)
    return table.schema.arrow_schema.empty_table().select(names)


def _newest_changes(table: Table, latest: int, names: list[str]) -> pa.Table | None:
    """The last changes of the newest snapshot that has any; a COMPACT snapshot may hold those of its APPEND."""
    for snapshot_id in range(latest, max(0, latest - 10), -1):
        last: deque[pa.Table] = deque(maxlen=1)
        last.extend(kinds_first(rows, names, None) for _, rows in read_changes(table, snapshot_id, snapshot_id))
        if last and last[0].num_rows:
            return last[0].slice(max(0, last[0].num_rows - SAMPLE_ROWS))
    return None
