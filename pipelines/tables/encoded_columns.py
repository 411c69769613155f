"""What the log says of new columns whose values look encoded: their records carry no schema, and no type is declared.

Such values are stored as they come, which loses nothing and is hardly what anybody wants: decimals as base64, dates as
numbers of days. A whole database led into tables by one pattern would be full of them before somebody looks.
"""

from __future__ import annotations

import logging

from pipelines.config.table_rules import TargetRule
from pipelines.tables.observed_columns import Seen
from sinks.commit.table_sink import TableSink

log = logging.getLogger(__name__)

_MOST_NAMED = 30

_REMEDY = (
    "pipeline %s: records without an embedded schema have columns whose values look encoded, and they are stored as"
    " they come: %s. Switch schemas on in the connector (value.converter.schemas.enable=true), or declare types under"
    " columns.types of the rule (`/.*_at/: TIMESTAMP(6)` declares all columns that a pattern matches), and write into a"
    " new table (another `into`, with `backfill: true`): columns of a table that is there keep their form"
)


class EncodedColumns:
    """Gathers the columns of the tables that one look at records shows first; each is told once."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._told: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str], str] = {}

    def note(self, sink: TableSink, rule: TargetRule, seen: Seen) -> None:
        """Remember what a source table shows, before its table follows it; columns that hold rows are no news."""
        if not seen.looks:
            return
        has_rows = sink.table.snapshots.latest_id() is not None
        known = {*rule.declared(seen.looks), *(seen.key_columns or ()), *sink.table.schema.primary_keys}
        known |= {*sink.table.schema.column_names} if has_rows else set()
        for name in seen.looks.keys() - known:
            self._found.setdefault((sink.identifier, name), seen.looks[name])

    def tell(self) -> None:
        """One warning for all that is new."""
        news = {column: meaning for column, meaning in sorted(self._found.items()) if column not in self._told}
        self._found.clear()
        if not news:
            return
        self._told |= news.keys()
        named = [f"{table}.{name} ({meaning})" for (table, name), meaning in news.items()]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        log.warning(_REMEDY, self._pipeline, ", ".join(named[:_MOST_NAMED]) + more)
