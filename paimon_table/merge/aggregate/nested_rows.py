"""Arrays of rows as small tables: their keys, the meaning of NULL in a key, the order and identity of rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from paimon_table.errors import MalformedRecord
from paimon_table.merge.aggregate.ordering import NullsFirst
from paimon_table.options.field_options import FieldOptions
from paimon_table.rows.python_values import Identity, identity_of
from paimon_table.types import DataType, arrow_type, parse_type


@dataclass(frozen=True, slots=True)
class NestedRows:
    """The element type of one column and the options about it, as positions of fields."""

    column: str
    key: tuple[tuple[int, Identity | None], ...]
    null_strategy: str
    """The treatment of rows with a NULL in their key: ``merge`` = NULL is a value, ``ignore`` = left out, ``error``."""
    sequence: tuple[tuple[int, NullsFirst], ...]
    identity: Identity | None
    """The identity of whole rows."""

    def key_of(self, row: Any) -> Hashable | None:
        """The identity of the row's key; None if the row is left out."""
        key = tuple(row[at] if same is None else same(row[at]) for at, same in self.key)
        if self.null_strategy != "merge" and any(row[at] is None for at, _ in self.key):
            if self.null_strategy == "error":
                raise MalformedRecord(
                    f"column {self.column!r}: a nested key contains null values; correct the rows or set "
                    f"fields.{self.column}.nested-key-null-strategy to ignore or merge"
                )
            return None
        return key

    def replaces(self, row: Any, existing: Any) -> bool:
        """Whether a newer row replaces one of the same key: unless its sequence is smaller."""
        for at, order in self.sequence:
            new, old = order(row[at]), order(existing[at])
            if new != old:
                return new > old
        return True

    def identity_of(self, row: Any) -> Hashable:
        """The identity of the row by its content."""
        identity: Hashable = row if self.identity is None else self.identity(row)
        return identity


def nested_rows(
    column: str, row: DataType, key: Iterable[str], null_strategy: str, sequence: Iterable[str]
) -> NestedRows:
    """The rows of a column whose elements have the type ``row``; all names are fields of this type."""
    at = {field.name: i for i, field in enumerate(row.fields)}
    return NestedRows(
        column,
        tuple((at[name], identity_of(arrow_type(row.fields[at[name]].type))) for name in key),
        null_strategy,
        tuple((at[name], NullsFirst(row.fields[at[name]].type.root)) for name in sequence),
        identity_of(arrow_type(row)),
    )


def sample_rows(options: FieldOptions) -> DataType:
    """A column type whose rows have the fields in the options."""
    named = dict.fromkeys((*options.nested_key, *options.nested_sequence_fields, "any other field"))
    fields = ", ".join(f"`{name}` STRING" for name in named)
    return parse_type(f"ARRAY<ROW<{fields}>>")


def present(rows: Any) -> Any:
    """The rows that are not NULL."""
    return [row for row in rows if row is not None] if None in rows else rows
