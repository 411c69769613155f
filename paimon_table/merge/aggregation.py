"""The aggregation engine: every column of a key is reduced by its own function, in merge order.

Implements Paimon's aggregation merge function. The merged row is an INSERT with the sequence number of the newest
version. With ``aggregation.remove-record-on-delete`` a -D replaces the accumulated values by its own and, if it is the
newest version, deletes the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from paimon_table.merge.aggregate.folding import aggregate, fold
from paimon_table.merge.aggregate.function import AggregateFunction, Mask
from paimon_table.merge.aggregate.picked import PickingFunction
from paimon_table.merge.aggregate.registry import aggregate_function, function_class
from paimon_table.merge.aggregate.segments import Chosen, choose, ends, lengths, replace, validity
from paimon_table.merge.sort import KeyGroups
from paimon_table.options.field_options import AGGREGATING, FieldOptions
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind, are_retracts
from paimon_table.rows.chunks import one_array
from paimon_table.rows.gather import gather
from paimon_table.rows.words import Indices
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField

DEFAULT_FUNCTION = "last_non_null_value"


def function_names(schema: TableSchema, options: TableOptions) -> Mapping[str, str]:
    """The name of each column's function under this engine.

    Columns of the primary key never aggregate. If ``sequence.field`` names them, Java uses ``last_value``; here a
    retract would then leave the key without a value.
    """
    named = options.field_options
    names = {}
    for field in schema.fields:
        if field.name in schema.primary_keys:
            names[field.name] = "primary-key"
        elif field.name in options.sequence_fields:
            names[field.name] = "last_value"
        else:
            own = named.of(field.name).aggregate_function
            names[field.name] = own or options.default_aggregate_function or DEFAULT_FUNCTION
    return names


def aggregation(schema: TableSchema, options: TableOptions) -> Aggregation:
    """The engine of a table; raises ConfigError if a function does not fit its column."""
    names = function_names(schema, options)
    functions = {
        field.name: aggregate_function(names[field.name], field, _options_of(field, schema, options))
        for field in schema.fields
    }
    return Aggregation(functions, options.aggregation_remove_record_on_delete)


def _options_of(field: DataField, schema: TableSchema, options: TableOptions) -> FieldOptions:
    """None for columns of the primary key: with ``ignore-retract`` a lone retract would leave the key without value."""
    return FieldOptions() if field.name in schema.primary_keys else options.field_options.of(field.name)


def counted_columns(schema: TableSchema, options: TableOptions) -> tuple[str, ...]:
    """The columns of function ``count``, under this engine or in a sequence group: see ``aggregate.sum``."""
    names = function_names(schema, options)
    counted = [name for name in schema.column_names if names[name] == "count"]
    match options.merge_engine:
        case "aggregation":
            return tuple(counted)
        case "partial-update":
            protected = {name for group in options.field_options.sequence_groups for name in group.protected}
            return tuple(name for name in counted if name in protected)
    return ()


def accumulating_columns(schema: TableSchema, options: TableOptions) -> tuple[str, ...]:
    """The columns whose function would count a repeated stored value again, as in sums and lists."""
    if options.merge_engine not in AGGREGATING:
        return ()
    names = function_names(schema, options)
    return tuple(name for name in schema.column_names if function_class(names[name]).accumulates)


def ordered_columns(schema: TableSchema, options: TableOptions) -> Mapping[str, str]:
    """The columns outside of the key whose value depends on the order of arrival, with their functions."""
    names = function_names(schema, options)
    values = (name for name in schema.column_names if name not in schema.primary_keys)
    return {name: names[name] for name in values if not function_class(names[name]).is_commutative}


@dataclass(frozen=True, slots=True)
class _Versions:
    """The versions of each key that count, in merge order."""

    indices: Indices
    """Their row numbers."""
    starts: Indices
    kinds: npt.NDArray[np.int8]
    is_retract: Mask | None
    passes: Mask
    """Keys whose only version stays unchanged."""
    restarted: Mask
    """Keys that start with a -D: its values are the initial accumulated values."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """See ``MergeFunction``."""

    functions: Mapping[str, AggregateFunction]
    """By column, for all columns of the table."""
    remove_record_on_delete: bool

    def merge(self, rows: pa.Table, groups: KeyGroups, single_passes: bool = True) -> pa.Table:
        if len(groups.starts) == 0:
            return rows.schema.empty_table()
        if single_passes and len(groups.starts) == len(groups.indices):
            return gather(rows, groups.indices)
        versions = self._versions(rows, groups, single_passes)
        columns = _picked_columns(self._picking(rows, versions), rows, versions)
        for name in rows.column_names:
            if name not in columns and name not in (SEQUENCE_NUMBER, VALUE_KIND):
                columns[name] = _reduced(self.functions[name], rows.column(name), versions)
        last = ends(versions.starts, len(versions.indices))
        columns[SEQUENCE_NUMBER] = rows.column(SEQUENCE_NUMBER).take(pa.array(versions.indices[last]))
        columns[VALUE_KIND] = pa.array(np.where(versions.passes, versions.kinds[last], np.int8(RowKind.INSERT)))
        _check_not_null(columns, rows.schema)
        return pa.Table.from_arrays([columns[name] for name in rows.column_names], schema=rows.schema)

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(columns)

    def _versions(self, rows: pa.Table, groups: KeyGroups, single_passes: bool) -> _Versions:
        indices, starts = groups.indices, groups.starts
        kinds = rows.column(VALUE_KIND).to_numpy()[indices]
        is_alone = lengths(starts, len(indices)) == 1
        passes = is_alone if single_passes else np.zeros(len(starts), np.bool_)
        restarted = np.zeros(len(starts), np.bool_)
        if self.remove_record_on_delete and (kinds == RowKind.DELETE).any():
            deletes = np.where(kinds == RowKind.DELETE, np.arange(len(kinds)), -1)
            newest_delete = np.maximum.reduceat(deletes, starts)
            keep = np.arange(len(kinds)) >= np.repeat(newest_delete, lengths(starts, len(kinds)))
            counts = np.add.reduceat(keep.astype(np.int64), starts)
            indices, kinds, starts = indices[keep], kinds[keep], np.cumsum(counts) - counts
            passes = passes | ((newest_delete >= 0) & (counts == 1))
            restarted = (newest_delete >= 0) & ~passes
        is_retract = are_retracts(kinds)
        is_retract[starts[passes | restarted]] = False
        return _Versions(indices, starts, kinds, is_retract if is_retract.any() else None, passes, restarted)

    def _picking(self, rows: pa.Table, versions: _Versions) -> dict[str, PickingFunction]:
        """The columns whose values are picked from whole rows, with their functions."""
        if versions.restarted.any():
            return {}
        chosen = ((name, self.functions.get(name)) for name in rows.column_names)
        return {name: function for name, function in chosen if isinstance(function, PickingFunction)}


def _check_not_null(columns: Mapping[str, pa.Array | pa.ChunkedArray], schema: pa.Schema) -> None:
    for field in schema:
        if not field.nullable and columns[field.name].null_count:
            raise MalformedRecord(
                f"retracts leave column {field.name!r} without a value, which is NOT NULL; make the column nullable or "
                f"set fields.{field.name}.ignore-retract=true"
            )


def _picked_columns(
    functions: Mapping[str, PickingFunction], rows: pa.Table, versions: _Versions
) -> dict[str, pa.Array | pa.ChunkedArray]:
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name, function in functions.items():
        column = rows.column(name)
        is_valid = validity(column)[versions.indices] if function.needs_validity and column.null_count else None
        picked = function.pick(is_valid, versions.starts, len(versions.indices), versions.is_retract)
        columns[name] = column.take(pa.array(versions.indices[picked.positions], mask=picked.is_null))
    return columns


def _reduced(function: AggregateFunction, column: pa.ChunkedArray, versions: _Versions) -> pa.Array:
    """The values of one column; passing keys keep their value without a call of the function."""
    values = one_array(column).take(pa.array(versions.indices))
    untouched = np.zeros_like(versions.passes) if function.keeps_single else versions.passes
    ordinary = ~(untouched | versions.restarted)
    if ordinary.all():
        return aggregate(function, values, versions.starts, versions.is_retract)
    result = values.take(pa.array(versions.starts))
    if ordinary.any():
        chosen = _versions_of(ordinary, values, versions)
        result = replace(result, ordinary, aggregate(function, chosen.values, chosen.starts, chosen.is_retract))
    if versions.restarted.any():
        chosen = _versions_of(versions.restarted, values, versions)
        folded = fold(function, chosen.values, chosen.starts, chosen.is_retract, from_first=True)
        result = replace(result, versions.restarted, folded)
    return result


def _versions_of(keys: Mask, values: pa.Array, versions: _Versions) -> Chosen:
    mine = np.repeat(keys, lengths(versions.starts, len(values)))
    return choose(values, versions.starts, versions.is_retract, mine)
