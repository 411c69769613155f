"""Checks, filters, numbers and buffers the rows of a bucket.

Implements Paimon's steps before its write buffer: column defaults, ``rowkind.field``, ``ignore-delete``,
``ignore-update-before``, NOT NULL columns and nested fields. Rows that are not ignored get sequence numbers in arrival
order. Values in columns of the function ``count`` are replaced by their count. A partition that cannot have a directory
is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.data_files.bucket_files import row_schema
from paimon_table.errors import BrokenInvariant, MalformedRecord
from paimon_table.merge.aggregate.sum import counted
from paimon_table.merge.aggregation import counted_columns
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.paths import check_directory_names
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import DELETE_TIME, TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind, are_adds
from paimon_table.rows.gather import concat
from paimon_table.rows.nested_nulls import forbidden_nulls, forbids_nested_nulls
from paimon_table.schema.column_defaults import column_defaults, with_defaults
from paimon_table.surroundings import now_ms


class IncomingRows:
    """Buffer of one bucket."""

    def __init__(
        self,
        ctx: TableContext,
        bucket: BucketId,
        next_sequence_number: int,
        *,
        is_final: bool = True,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        """Without ``is_final`` the rows arrive in their bucket again later, so values are not counted yet."""
        self._options = ctx.options
        self._root = ctx.paths.root
        self._partition_path = ctx.partition_path(bucket.partition)
        self._name = f"bucket {bucket.bucket} of {ctx.paths.root}"
        self._schema = row_schema(ctx.schema)
        self._strict = {field.name for field in self._schema if forbids_nested_nulls(field.type)}
        self._defaults = column_defaults(ctx.schema)
        self._counted = counted_columns(ctx.schema, ctx.options) if is_final else ()
        self._next = next_sequence_number
        keeps_deletes = ctx.options.keep_deletes_ms is not None and ctx.schema.has_column(DELETE_TIME)
        self._clock_ms = clock_ms if keeps_deletes else None
        self._buffer: list[pa.Table] = []
        self.size_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._buffer

    def add(self, rows: pa.Table) -> None:
        """Append rows in arrival order: all columns of the table and ``_VALUE_KIND``, in any column order.

        Raises MalformedRecord, and keeps none of the rows, for values that the table cannot store.
        """
        rows = with_defaults(rows, self._defaults)
        kinds = row_kinds(rows, self._options, self._name)
        keep = kept_kinds(kinds, self._options)
        if keep is not None:
            rows, kinds = rows.filter(pa.array(keep)), kinds[keep]
        if rows.num_rows == 0:
            return
        if not self._options.has_key:
            self._check_adds(kinds)
        check_directory_names(self._root, self._partition_path)
        numbers = np.arange(self._next, self._next + rows.num_rows, dtype=np.int64)
        self._next += rows.num_rows
        columns = {SEQUENCE_NUMBER: pa.array(numbers), VALUE_KIND: pa.array(kinds)}
        if self._clock_ms is not None:
            columns[DELETE_TIME] = self._delete_times(kinds, self._clock_ms())
        numbered = counted(self._conform(rows, columns), self._counted)
        self._buffer.append(numbered)
        self.size_bytes += numbered.nbytes

    def _delete_times(self, kinds: npt.NDArray[np.int8], now_ms: int) -> pa.Array:
        """The arrival time of each delete, from which a kept delete expires."""
        times = pa.array(np.full(len(kinds), now_ms, np.int64), mask=kinds != RowKind.DELETE)
        return times.cast(self._schema.field(DELETE_TIME).type)

    def take(self) -> pa.Table | None:
        """All buffered rows in arrival order, with sequence numbers; None without rows. Empties the buffer."""
        if not self._buffer:
            return None
        rows = concat(self._buffer)
        self._buffer, self.size_bytes = [], 0
        return rows

    def _conform(self, rows: pa.Table, system: dict[str, pa.Array]) -> pa.Table:
        columns, missing = [], dict[str, int]()
        for field in self._schema:
            if field.name not in system and field.name not in rows.column_names:
                raise BrokenInvariant(f"rows for {self._name} lack column {field.name!r}; decode them with its schema")
            column = system.get(field.name)
            column = rows.column(field.name) if column is None else column
            if column.type != field.type:
                raise BrokenInvariant(
                    f"rows for {self._name} have {column.type} in column {field.name!r}, but the table has "
                    f"{field.type}; decode them with the table's current schema"
                )
            if not field.nullable and column.null_count:
                missing[field.name] = column.null_count
            if field.name in self._strict:
                self._check_nested(column, field.name)
            columns.append(column)
        for name, count in missing.items():
            raise MalformedRecord(
                f"cannot write null to non-null column({name}): {count} rows have no value; let the column take NULL "
                f"(in Spark: ALTER TABLE ... ALTER COLUMN {name} DROP NOT NULL)",
                columns=tuple(missing),
            )
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _check_nested(self, column: pa.ChunkedArray, name: str) -> None:
        wrong = forbidden_nulls(column, name)
        if wrong is not None:
            raise MalformedRecord(
                f"cannot write null to non-null field({wrong.path}) in column {name!r} of {self._name}: {wrong.count} "
                "values are missing. Quarantine their rows or use a type that takes NULL there"
            )

    def _check_adds(self, kinds: npt.NDArray[np.int8]) -> None:
        adds = are_adds(kinds)
        if adds.all():
            return
        first = RowKind(int(kinds[~adds][0])).name
        raise MalformedRecord(
            f"{self._name} belongs to an append table, whose rows have no key for {first} to find them: it accepts "
            "only INSERT and UPDATE_AFTER. Add a primary key to the table, or leave such rows out"
        )


def row_kinds(rows: pa.Table, options: TableOptions, place: str) -> npt.NDArray[np.int8]:
    """The kind of each row. If a column has the kinds, raises MalformedRecord, which names the ``place``, for invalid
    ones."""
    if options.rowkind_field is None:
        kinds: npt.NDArray[np.int8] = rows.column(VALUE_KIND).to_numpy()
        return kinds
    return _parsed_kinds(rows.column(options.rowkind_field), place)


def kept_kinds(kinds: npt.NDArray[np.int8], options: TableOptions) -> npt.NDArray[np.bool_] | None:
    """Which rows are not ignored; None if all are kept."""
    if options.ignore_delete:
        keep = are_adds(kinds)
    elif options.ignore_update_before:
        keep = kinds != RowKind.UPDATE_BEFORE
    else:
        return None
    return None if keep.all() else keep


def _parsed_kinds(texts: pa.ChunkedArray, table: str) -> npt.NDArray[np.int8]:
    """Row kinds from the texts +I -U +U -D, in any case."""
    if texts.null_count:
        raise MalformedRecord(f"row kind cannot be null: {texts.null_count} rows for {table}; quarantine them")
    kinds = pc.index_in(pc.utf8_upper(texts), pa.array([kind.short for kind in RowKind]))
    if kinds.null_count:
        wrong = texts.filter(kinds.is_null())[0].as_py()
        raise MalformedRecord(f"unsupported short string {wrong!r} for row kind, for {table}; use +I, -U, +U or -D")
    parsed: npt.NDArray[np.int8] = kinds.to_numpy().astype(np.int8)
    return parsed
