"""What the log says of new columns whose values look encoded: their records carry no schema, and no type is declared.

Such values are stored as they come, which loses nothing and is hardly what anybody wants: decimals as base64, dates as
numbers of days. A whole database led into tables by one pattern would be full of them before somebody looks.
"""

from __future__ import annotations

import logging

from paimon_table.types import TIMESTAMPS, DataType, timestamp_unit
from pipelines.config.table_rules import TargetRule
from pipelines.tables.observed_columns import Seen
from sinks.commit.table_sink import TableSink

log = logging.getLogger(__name__)

_MOST_NAMED = 30
_UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

_REMEDY = (
    "pipeline %s: records without an embedded schema have columns whose values look encoded, and they are stored as"
    " they come: %s. Switch schemas on in the connector (value.converter.schemas.enable=true), or declare types under"
    " columns.types of the rule (a pattern such as `/.*_at/` declares all columns that it matches, which must all be"
    " of its type), and write into a new table (another `into`, with `backfill: true`): columns of a table that is"
    " there keep their form"
)

_MISREAD = (
    "pipeline %s: the declared types read numbers of these columns in another unit than they seem to count, which gives"
    " wrong times: %s. Declare the precision that the source column has, and write into a new table (another `into`,"
    " with `backfill: true`); if the connector has time.precision.mode=connect, say `time_precision: connect`"
)


class EncodedColumns:
    """Gathers the columns of the tables that one look at records shows first; each is told once."""

    def __init__(self, pipeline: str, *, precision_tells_unit: bool) -> None:
        self._pipeline = pipeline
        self._precision_tells_unit = precision_tells_unit
        self._told: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str], str] = {}
        self._misread: dict[tuple[str, str], str] = {}

    def note(self, sink: TableSink, rule: TargetRule, seen: Seen) -> None:
        """Remember what a source table shows, before its table follows it; columns that hold rows are no news."""
        if not seen.looks:
            return
        has_rows = sink.table.snapshots.latest_id() is not None
        known = {*rule.declared(seen.looks), *(seen.key_columns or ()), *sink.table.schema.primary_keys}
        known |= {*sink.table.schema.column_names} if has_rows else set()
        for name in seen.looks.keys() - known:
            self._found.setdefault((sink.identifier, name), seen.looks[name])

    def note_units(self, sink: TableSink, rule: TargetRule, seen: Seen) -> None:
        """Remember the declared columns whose numbers the declaration reads in another unit than they seem to have."""
        if not self._precision_tells_unit:
            return
        for name, declared in rule.declared(seen.looks).items():
            meaning = seen.looks.get(name)
            if meaning is not None and _is_other_unit(meaning, declared):
                said = f"declared {declared}, looks like {meaning}"
                self._misread.setdefault((sink.identifier, name), said)

    def tell(self) -> None:
        """One warning of each kind for all that is new."""
        for remedy, found in ((_REMEDY, self._found), (_MISREAD, self._misread)):
            news = {column: meaning for column, meaning in sorted(found.items()) if column not in self._told}
            found.clear()
            if news:
                self._told |= news.keys()
                named = [f"{table}.{name} ({meaning})" for (table, name), meaning in news.items()]
                more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
                log.warning(remedy, self._pipeline, ", ".join(named[:_MOST_NAMED]) + more)


def _is_other_unit(meaning: str, declared: DataType) -> bool:
    """Whether the precision of a declared timestamp reads the numbers in another unit than they seem to count."""
    if declared.root not in TIMESTAMPS or not meaning.startswith("epoch "):
        return False
    unit = timestamp_unit(declared.precision or 0)
    return not meaning.startswith(f"epoch {_UNIT_NAMES[unit]}:")
