"""Which tables need the old row of an update, -U, before the new one: those that would count both otherwise.

Aggregation adds every row that comes. An update is right there only if its old row is taken back first, which not every
function can. Sequence groups of partial-update get no -U: in one flush with its new row it would be lost.
"""

from __future__ import annotations

from paimon_table.merge.aggregation import aggregation
from paimon_table.options import TableOptions
from paimon_table.schema import TableSchema


def can_retract(schema: TableSchema, options: TableOptions) -> bool:
    """Whether the table aggregates and takes a -U row in all its columns (functions may ignore it).

    False where a -U would be dropped (``ignore-delete``) or take its kind from a column (``rowkind.field``).
    """
    if options.ignore_delete or options.rowkind_field is not None:
        return False
    if options.merge_engine != "aggregation":
        return False
    functions = aggregation(schema, options).functions
    return all(functions[name].can_retract for name in schema.column_names if name not in schema.primary_keys)
