"""Which tables need the old row (-U) of an update before the new one, and which tables refuse retracts.

Aggregation adds every row. So an update is correct only if a -U first retracts the old row, which not every function
supports. Sequence groups of partial-update get no -U, because a flush that also has the new row would lose it.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.merge.aggregation import aggregation
from paimon_table.merge.partial_update import partial_update
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema


def can_retract(schema: TableSchema, options: TableOptions) -> bool:
    """Whether the table aggregates and accepts a -U row in all its columns (functions may ignore it).

    False if the table drops a -U (``ignore-delete``) or takes the row kind from a column (``rowkind.field``).
    """
    if options.ignore_delete or options.rowkind_field is not None:
        return False
    if options.merge_engine != "aggregation":
        return False
    functions = aggregation(schema, options).functions
    return all(functions[name].can_retract for name in schema.column_names if name not in schema.primary_keys)


@dataclass(frozen=True, slots=True)
class RefusedDeletes:
    """Why a stored -D would make its key unreadable at the next merge."""

    reason: str
    columns: tuple[str, ...] = ()
    """Only a -D with a value in one of these columns has this effect; if empty, every -D has it."""


def refused_deletes(schema: TableSchema, options: TableOptions) -> RefusedDeletes | None:
    """Why the engine refuses deletes (-D). The check needs no stored row.

    None if the engine accepts deletes, or if the table drops them earlier. Also None with ``rowkind.field``, where a
    column marks the deletes, and with groups that remove rows, where only a -D older than its row fails.
    """
    if options.ignore_delete or options.rowkind_field is not None:
        return None
    match options.merge_engine:
        case "first-row":
            return RefusedDeletes("first-row accepts no deletes: set ignore-delete to ignore them")
        case "aggregation" if not options.aggregation_remove_record_on_delete:
            return _of_functions(_not_retracting(schema, options))
        case "partial-update":
            return _of_partial_update(schema, options)
    return None


def takes_update_before(schema: TableSchema, options: TableOptions) -> bool:
    """Whether the key of a stored -U stays readable."""
    if options.merge_engine == "aggregation":
        return not _not_retracting(schema, options)
    return options.merge_engine != "partial-update" or _of_partial_update(schema, options) is None


def _of_partial_update(schema: TableSchema, options: TableOptions) -> RefusedDeletes | None:
    engine = partial_update(schema, options)
    if engine.remove_on_delete or engine.remove_on_groups:
        return None
    if not engine.groups:
        return RefusedDeletes(
            "partial-update accepts no deletes by default: set ignore-delete to ignore them,"
            " partial-update.remove-record-on-delete to remove the whole row, or fields.<column>.sequence-group to"
            " clear the columns of groups"
        )
    failing = {name for name, function in engine.aggregates.items() if not function.can_retract}
    groups = [group for group in engine.groups if failing & {*group.protected}]
    return _of_functions(
        [name for group in groups for name in group.protected if name in failing],
        tuple(name for group in groups for name in group.sequence),
    )


def _not_retracting(schema: TableSchema, options: TableOptions) -> list[str]:
    functions = aggregation(schema, options).functions
    keys = schema.primary_keys
    return [name for name in schema.column_names if name not in keys and not functions[name].can_retract]


def _of_functions(names: list[str], columns: tuple[str, ...] = ()) -> RefusedDeletes | None:
    if not names:
        return None
    options = ", ".join(f"fields.{name}.ignore-retract" for name in names)
    return RefusedDeletes(
        f"the aggregate function of {', '.join(names)} cannot retract a delete: set {options} to keep the values, or "
        "ignore-delete to drop deletes",
        columns,
    )
