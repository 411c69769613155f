"""The facts about a source table's target that the decoder needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pipelines.config.column_rules import first_of
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import declared_hidden, forms_of_source, layout_of, sources_decoded
from pipelines.tables.continued_tables import continuation_of
from pipelines.tables.merged_sources import fed_by, feeds_alone, names_of
from sinks.commit.table_sink import TableSink
from sources.changes import SourceTable
from sources.column_forms import OPTION, ColumnForms
from sources.decode_target import DecodeTarget, KeyRule
from sources.position_kinds import POSITION


def decode_target(
    sink: TableSink,
    source: SourceTable,
    rule: TargetRule,
    of_table: TargetRule,
    limits: Mapping[str, Any],
    now_ms: int = 0,
    *,
    is_retry: bool,
) -> DecodeTarget:
    """``rule`` is the rule of the source table; ``of_table`` is the rule of the table and has its column types.

    ``limits`` say how to treat columns that the table lacks (``Evolution.limits``). ``is_retry``: the records come
    without their neighbours, so nothing shows which rows came before a TRUNCATE.
    """
    truncate = rule.schema_changes.truncate or "pause"
    table = sink.table
    traits, row_key = table.write_traits, rule.row_key(table.schema.primary_keys)
    refused = traits.refused_deletes
    own = dict(of_table.own_columns)
    names = names_of(sink, source)
    tells_schemas = rule.columns.hides or (of_table.schema_changes.follows_order and feeds_alone(of_table, sink))
    before, is_stated = continuation_of(sink.identifier, table.schema.options), rule.primary_key is not None
    keys = KeyRule(
        sink.identifier,
        is_stated,
        sink.sources.get(fed_by(source), ()),
        is_followed=rule.schema_changes.primary_key == "new_table" and not is_retry,
        earlier=() if before is None or is_stated else before.earlier,
        begin={} if before is None or is_retry else before.begin_in(source.topic, sink.topic_ids),
    )
    target = DecodeTarget(
        columns=tuple((f.name, f.type) for f in table.schema.fields if f.name not in own),
        primary_key=row_key,
        emit_update_before=traits.wants_update_before or (rule.on_change == "log" and rule.before == "full"),
        counted_again=frozenset(traits.accumulating),
        declared=frozenset(of_table.declared(table.schema.column_names)),
        unstorable=traits.unstorable,
        keys=None if rule.on_change else keys,
        has_whole_before=rule.before == "full",
        refused_deletes=None if refused is None else refused.reason,
        refused_deletes_with=() if refused is None else refused.columns,
        follows_retypes=of_table.schema_changes.retype not in (None, "cast"),
        on_truncate="pause" if truncate == "apply" and is_retry else truncate,
        may_truncate=all(
            one is None for one in (of_table.merge_sources, of_table.on_change, of_table.deleted_at, of_table.versions)
        ),
        deleted_at=of_table.deleted_at,
        ordering=of_table.order_columns,
        sequence=tuple(name for name in table.options.sequence_fields if name not in {*row_key, POSITION}),
        versions=None if of_table.versions is None else of_table.versions.key,
        on_change=rule.on_change,
        decimal_formats=rule.decimal_formats(table.schema.column_names),
        paths=rule.columns.column_paths,
        renamed=names.renamed,
        past=names.past,
        masked=frozenset(rule.columns.mask),
        drops=partial(first_of, rule.columns.drop) if rule.columns.drop else None,
        tells_schemas=tells_schemas or bool(names.renamed or names.past),
        **limits,
    )
    if rule.changes_rows:
        target = _with_transform(target, sink, rule, now_ms)
    forms = ColumnForms.parsed(table.schema.options.get(OPTION))
    return replace(target, forms=forms_of_source(rule, forms, (*dict(target.columns), POSITION)))


def _with_transform(target: DecodeTarget, sink: TableSink, rule: TargetRule, now_ms: int) -> DecodeTarget:
    """The target in the columns of the source, with the transform that turns its rows into rows of the table."""
    from pipelines.tables.row_transforms import tells_events, tells_places, transform_of

    transform, layout = transform_of(rule, sink.table, now_ms, target), layout_of(rule, sink.table.schema)
    types = sources_decoded(rule, sink.table)
    columns = rule.columns
    stored = {name: columns.stored_as(name) for name in types}
    needs_old = rule.where is not None or any(name in columns.computed for name in target.primary_key)
    return replace(
        target,
        columns=tuple(types.items()),
        primary_key=layout.key_inputs(target.primary_key),
        nullable_key=layout.nullable_key_inputs(target.primary_key) if rule.before == "full" else frozenset(),
        emit_update_before=target.emit_update_before or (needs_old and rule.before == "full"),
        counted_again=frozenset(name for name, into in stored.items() if into in target.counted_again),
        declared=frozenset(n for n, into in stored.items() if into in target.declared) | declared_hidden(rule).keys(),
        unstorable={
            name: target.unstorable[into]
            for name, into in stored.items()
            if into is not None and into in target.unstorable
        },
        refused_deletes_with=tuple(name for name, into in stored.items() if into in target.refused_deletes_with),
        decimal_formats=rule.decimal_formats(types),
        leaves_out=partial(_is_left_out, columns.keep, columns.drop, layout.mentioned),
        refused={columns.source_of(name) or name: why for name, why in target.refused.items()} | columns.clashes,
        tells_events=tells_events(rule, transform),
        tells_places=tells_places(transform),
        awaited=frozenset(name.lower() for name in layout.unfed),
        joined=frozenset(transform.inputs()) if rule.joins_parts(sink.table.schema.options) else frozenset(),
        transform=transform,
    )


def _is_left_out(keep: Sequence[str], drop: Sequence[str], mentioned: frozenset[str], name: str) -> bool:
    """The function gets only the lists: rules contain secrets."""
    return name.lower() not in mentioned and (first_of(drop, name) or (bool(keep) and not first_of(keep, name)))
