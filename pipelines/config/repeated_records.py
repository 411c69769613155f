"""The effect of a record on a table if it arrives twice, or after newer records."""

from __future__ import annotations

from dataclasses import replace

from paimon_table import TableOptions, TableSchema
from paimon_table.merge.aggregation import accumulating_columns, ordered_columns
from paimon_table.options.option_parsing import parse_options
from paimon_table.types import DataField, string
from pipelines.config.assumed_types import known_schema
from pipelines.config.table_rules import TargetRule
from sinks.exchange.version_columns import HISTORY_OPTION
from sources.position_kinds import POSITION
from sources.wording import first_of

_SHOWN = 5
_OTHERS = "other columns"


def as_known(rule: TargetRule) -> tuple[TableSchema, TableOptions]:
    """Schema and options that a rule gives its table; one column stands for all that the file does not name."""
    schema = known_schema(rule, rule.options)
    schema = replace(schema, fields=(*schema.fields, DataField(len(schema.fields), _OTHERS, string())))
    return schema, parse_options(schema.options, schema)


def counted_again(schema: TableSchema, options: TableOptions) -> str | None:
    """The effect of a record that arrives twice; None if its row ends up the same."""
    if not schema.primary_keys:
        return "each adds its row again"
    columns = accumulating_columns(schema, options)
    return f"each counts again in {', '.join(columns)}" if columns else None


def replaces_newer(schema: TableSchema, options: TableOptions) -> str | None:
    """The columns, in words, in which a late row replaces a newer one of its key; "" for the whole row.

    None if the late row has no effect, or is put in its place.
    """
    if not schema.primary_keys or HISTORY_OPTION in schema.options:
        return None
    if options.merge_engine == "first-row" or options.sequence_fields:
        return None
    if options.merge_engine == "aggregation":
        ordered = [f"{name} ({function})" for name, function in ordered_columns(schema, options).items()]
        return f" in {', '.join(first_of(ordered, _SHOWN, 'columns'))}" if ordered else None
    if options.merge_engine == "partial-update":
        grouped = {name for g in options.field_options.sequence_groups for name in (*g.sequence, *g.protected)}
        alone = [name for name in schema.column_names if name not in schema.primary_keys and name not in grouped]
        if not alone:
            return None
        return f" in {', '.join(first_of(alone, _SHOWN, 'columns'))}, outside of any sequence group" if grouped else ""
    return ""


def places_deletes(schema: TableSchema, options: TableOptions) -> bool:
    """Whether deletes, too, have a place in the order; in other tables each gets the place of the row that it meets.

    Versions and source positions give deletes a place.
    """
    return HISTORY_OPTION in schema.options or POSITION in options.sequence_fields
