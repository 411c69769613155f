"""What the decoder needs to know of the table that a source table leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.config.table_rules import TargetRule
from pipelines.tables.merged_sources import fed_by
from sinks.commit.table_sink import TableSink
from sources.changes import DecodeTarget, KeyRule, SourceTable
from sources.column_forms import OPTION, ColumnForms


def decode_target(
    sink: TableSink,
    source: SourceTable,
    rule: TargetRule,
    of_table: TargetRule,
    limits: Mapping[str, Any],
    *,
    is_retry: bool,
) -> DecodeTarget:
    """``rule`` is that of the source table; ``of_table`` that of the table, which says the types of its columns.

    ``limits`` say what becomes of columns that the table lacks (``Evolution.limits``). ``is_retry``: the records come
    without those around them, so that nothing tells which rows came before a TRUNCATE.
    """
    truncate = rule.schema_changes.truncate or "pause"
    table = sink.table
    traits = table.write_traits
    refused = traits.refused_deletes
    own = dict(of_table.own_columns)
    keys = KeyRule(sink.identifier, rule.primary_key is not None, sink.sources.get(fed_by(source), ()))
    return DecodeTarget(
        columns=tuple((f.name, f.type) for f in table.schema.fields if f.name not in own),
        primary_key=tuple(table.schema.primary_keys),
        emit_update_before=traits.wants_update_before or (rule.on_change == "log" and rule.before == "full"),
        counted_again=frozenset(traits.accumulating),
        declared=frozenset(of_table.declared(table.schema.column_names)),
        unstorable=traits.unstorable,
        keys=None if rule.on_change else keys,
        has_whole_before=rule.before == "full",
        refused_deletes=None if refused is None else refused.reason,
        refused_deletes_with=() if refused is None else refused.columns,
        on_truncate="pause" if truncate == "apply" and is_retry else truncate,
        deleted_at=of_table.deleted_at,
        on_change=rule.on_change,
        decimal_formats=rule.decimal_formats(table.schema.column_names),
        forms=ColumnForms.parsed(table.schema.options.get(OPTION)),
        **limits,
    )
