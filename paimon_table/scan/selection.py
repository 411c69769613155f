"""The request of a scan: columns and a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from paimon_table.scan.pruning import referenced_columns
from paimon_table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Selection:
    """The result columns, in this order, for rows for which the predicate is true (None: all rows)."""

    columns: tuple[str, ...]
    predicate: pc.Expression | None = None
    tested: tuple[str, ...] = ()
    """Columns that the predicate needs."""

    @staticmethod
    def of(schema: TableSchema, columns: Sequence[str] | None, predicate: pc.Expression | None) -> Selection:
        """Columns None means all columns; raises ConfigError for columns and predicates that do not fit the schema."""
        tested = () if predicate is None else referenced_columns(predicate, schema.arrow_schema)
        return Selection(checked_columns(schema, columns), predicate, tested)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that the result and the predicate need."""
        return tuple(dict.fromkeys((*self.columns, *self.tested)))


def checked_columns(schema: TableSchema, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The requested columns, by default all columns; raises ConfigError for unknown names."""
    return schema.column_names if columns is None else tuple(schema.field(name).name for name in columns)
