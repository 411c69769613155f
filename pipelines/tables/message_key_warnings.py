"""What the log says when the primary key of a table does not fit the message keys of its source tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import layout_of
from pipelines.tables.merged_sources import told
from sinks.commit.table_sink import TableSink

log = logging.getLogger(__name__)


class MessageKeyWarnings:
    """Warnings about keys, each once per table: shards would repeat them for every source table."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()
        """Identifier of the table, and what was said of it."""

    def note(self, sink: TableSink, rule: TargetRule, message_key: Sequence[str], topic: str) -> None:
        """Warn where events depend on whole old rows, or rows of several keys or sources become one."""
        primary_key = sink.table.schema.primary_keys
        if not primary_key:
            return
        is_computed = any(name in rule.columns.computed for name in primary_key)
        if rule.changes_rows:
            primary_key = layout_of(rule, sink.table.schema).key_inputs(primary_key)
        beyond = [name for name in primary_key if message_key and name not in message_key]
        if beyond and rule.before is None:
            self._tell(
                (sink.identifier, f"beyond {beyond}"),
                topic,
                f"primary key column {beyond[0]} of table {sink.identifier} is not in the message key; updates and"
                " deletes that do not bring the whole old row (PostgreSQL: REPLICA IDENTITY FULL, and `before: full` in"
                " the rule) go to quarantine",
            )
        outside = [name for name in message_key if name not in primary_key]
        if outside:
            self._tell(
                (sink.identifier, f"outside {outside}"),
                topic,
                f"{outside[0]} of the message key ({', '.join(message_key)}) is not in the primary key"
                f" ({', '.join(primary_key)}) of table {sink.identifier}: rows that differ in it alone become one row",
            )
        if (
            rule.merge_sources == "disjoint_keys"
            and message_key
            and not (beyond or is_computed)
            and len(sink.sources) > 1
        ):
            first, second, *_ = map(told, sink.sources)
            self._tell(
                (sink.identifier, "sources"),
                topic,
                f"table {sink.identifier} takes rows of several source tables ({first}, {second}) as `merge_sources:"
                f" disjoint_keys`, and its primary key ({', '.join(primary_key)}) has nothing beside their message key."
                " Tidemark does not check that: rows with the same key overwrite each other. Unless they are parts of"
                " one table, put a column that tells them apart into primary_key",
            )

    def _tell(self, about: tuple[str, str], topic: str, text: str) -> None:
        if about not in self._told:
            self._told.add(about)
            log.warning("%s: %s", topic, text)
