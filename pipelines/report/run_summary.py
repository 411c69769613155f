"""The result of a finished `run --once` in its tables, for the summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_table import Table
from paimon_table.errors import TidemarkError
from paimon_table.row_kind import VALUE_KIND, RowKind
from pipelines.catchup.shown_standing import TableStanding
from pipelines.config.config import PipelineConfig
from pipelines.report.run_totals import Totals
from pipelines.report.summary import RunSummary, TableSample, TableSummary
from pipelines.report.table_report import all_snapshots, kinds_first
from pipelines.views.table_shape import table_shape
from sources.loss import Losses

SAMPLE_ROWS = 5
SAMPLE_COLUMNS = 8
COUNTED_ROWS = 2_000_000
"""Stored rows up to which a table is read to count its rows; counting must not take longer than a small run."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The result of one pipeline of a run."""

    config: PipelineConfig
    written_tables: Callable[[], Mapping[str, Table]]
    """The tables that the pipeline has written in this run or before, by identifier; looks at the storage."""
    totals: Totals
    losses: Losses = field(default_factory=Losses)
    """Records that were lost before they were read."""
    standings: Mapping[str, TableStanding] = field(default_factory=dict)
    """Tables that do not have all that was read."""
    waited_s: float = 0.0
    """How long it has waited for trouble to pass."""
    unfinished: tuple[str, ...] = ()
    """The parts of the source that could not be read to their end, or that lead to no table."""
    why_nothing: str | None = None
    """Why there was nothing to read; None if the tables had it all."""


def summarize(done: FinishedRun, file: str, *, is_complete: bool = True) -> RunSummary:
    """The state of the tables that the pipeline has written and the totals of the run; ``file`` is the pipeline's."""
    tables, summaries, unread = done.written_tables(), [], {}
    for name in sorted(tables):
        try:
            summaries.append(_table_summary(name, tables[name]))
        except (TidemarkError, OSError) as error:  # the run has still done its work
            unread[name] = str(error)
    largest = max(summaries, key=lambda s: (s.changelog_row_count, s.row_count), default=None)
    return RunSummary(
        done.config.name,
        done.totals,
        tuple(summaries),
        None if largest is None else _readable_sample(largest.identifier, tables[largest.identifier], unread),
        done.config.quarantine,
        unread,
        tuple(map(str, done.losses.newest)),
        tuple(standing.summary for standing in done.standings.values()),
        done.waited_s,
        done.unfinished,
        done.why_nothing,
        is_complete,
        file,
        done.config.catalog.type == "rest",
    )


def _readable_sample(identifier: str, table: Table, unread: dict[str, str]) -> TableSample | None:
    """The sample; None if the table cannot be read, which ``unread`` then says."""
    try:
        return _sample(identifier, table)
    except (TidemarkError, OSError) as error:
        unread[identifier] = str(error)
        return None


def _table_summary(identifier: str, table: Table) -> TableSummary:
    snapshots = all_snapshots(table)
    latest = snapshots[-1] if snapshots else None
    shape = table_shape(table.state(latest), table.options)
    is_counted = shape.stored_rows <= COUNTED_ROWS
    key = list(table.schema.trimmed_primary_keys[:1])
    return TableSummary(
        identifier,
        table.paths.root,
        sum(part.num_rows for part in table.read(key)) if is_counted else shape.stored_rows,
        shape.buckets,
        len(snapshots),
        sum(snapshot.changelog_record_count or 0 for snapshot in snapshots),
        is_counted,
        shape.waiting_rows,
    )


def _sample(identifier: str, table: Table) -> TableSample:
    """The first rows that a scan gives, and some of the newest changes; the first columns of wide tables."""
    names = list(table.schema.column_names[:SAMPLE_COLUMNS])
    rows = _first_rows(table, names)
    has_changes = table.options.changelog_producer != "none"
    changes = _newest_changes(table, names) if has_changes else None
    return TableSample(identifier, rows, changes, tuple(table.schema.column_names[SAMPLE_COLUMNS:]))


def _first_rows(table: Table, names: list[str]) -> pa.Table:
    for part in table.read(names):
        if part.num_rows:
            return part.slice(0, SAMPLE_ROWS)
    return table.schema.arrow_schema.empty_table().select(names)


def _newest_changes(table: Table, names: list[str]) -> pa.Table | None:
    """Changes of the newest snapshot that has any (a COMPACT snapshot may hold the changes of its APPEND)."""
    for snapshot in reversed(all_snapshots(table)):
        if snapshot.changelog_record_count:
            part = next((rows for rows in table.changes_of(snapshot, names) if rows.num_rows), None)
            return None if part is None else kinds_first(part.take(_instructive(part)), names, None)
    return None


def _instructive(changes: pa.Table) -> pa.Array:
    """Positions of the last change of every kind, an update with the row before it."""
    kinds = changes.column(VALUE_KIND).to_numpy()
    chosen: set[int] = set()
    for kind in RowKind:
        found = np.flatnonzero(kinds == kind)
        if len(found):
            chosen.add(int(found[-1]))
    updated = np.flatnonzero(kinds == RowKind.UPDATE_AFTER)
    if len(updated) and updated[-1] and kinds[updated[-1] - 1] == RowKind.UPDATE_BEFORE:
        chosen.add(int(updated[-1]) - 1)
    for position in range(len(kinds) - 1, -1, -1):
        if len(chosen) >= SAMPLE_ROWS:
            break
        chosen.add(position)
    return pa.array(sorted(chosen), pa.int64())
