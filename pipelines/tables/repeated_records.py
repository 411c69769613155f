"""What a record does to a table when it comes a second time, or behind newer ones."""

from __future__ import annotations

from paimon_table import Table
from paimon_table.merge.aggregation import DEFAULT_FUNCTION
from sinks.exchange.version_columns import HISTORY_OPTION
from sources.position_kinds import POSITION
from sources.wording import first_of

_IN_ANY_ORDER = frozenset(
    ("sum", "product", "count", "max", "min", "bool_or", "bool_and", "hll_sketch", "theta_sketch", "rbm32", "rbm64")
)
"""Aggregate functions whose result does not show in which order values came."""

_SHOWN = 5


def counted_again(table: Table) -> str | None:
    """What a record that comes twice does; None where its row ends up the same."""
    if not table.schema.primary_keys:
        return "each adds its row again"
    columns = table.write_traits.accumulating
    return f"each counts again in {', '.join(columns)}" if columns else None


def replaces_newer(table: Table) -> str | None:
    """Where a row that comes late replaces a newer one of its key: words for the columns, "" for the whole row.

    None where it loses against the newer one, or is put in its place.
    """
    options, schema = table.options, table.schema
    if not schema.primary_keys or HISTORY_OPTION in schema.options:
        return None
    if options.merge_engine == "first-row" or options.sequence_fields:
        return None
    values = [name for name in schema.column_names if name not in schema.primary_keys]
    named = options.field_options
    if options.merge_engine == "aggregation":
        functions = {
            name: named.of(name).aggregate_function or options.default_aggregate_function or DEFAULT_FUNCTION
            for name in values
        }
        ordered = [f"{name} ({of})" for name, of in functions.items() if of not in _IN_ANY_ORDER]
        return f" in {', '.join(first_of(ordered, _SHOWN, 'columns'))}" if ordered else None
    if options.merge_engine == "partial-update":
        grouped = {name for group in named.sequence_groups for name in (*group.sequence, *group.protected)}
        alone = [name for name in values if name not in grouped]
        if not alone:
            return None
        return f" in {', '.join(first_of(alone, _SHOWN, 'columns'))}, outside of any sequence group" if grouped else ""
    return ""


def places_deletes(table: Table) -> bool:
    """Whether deletes, too, have a place of their own in the order: elsewhere each gets that of the row that it meets.

    Versions and positions in the log of the source tell it.
    """
    return HISTORY_OPTION in table.schema.options or POSITION in table.options.sequence_fields
