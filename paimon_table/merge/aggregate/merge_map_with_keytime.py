"""merge_map_with_keytime: a map of rows. For each key the row with the greatest time text wins, the older one on ties.

A NULL row removes its key, until a later row with any time restores it. Rows without time are left out.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Self

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.function import Accumulator
from paimon_table.merge.aggregate.merge_map import Entries, Entry, MapAccumulator
from paimon_table.options.field_options import FieldOptions, field_option
from paimon_table.options.names import TS_FIELD
from paimon_table.rows.python_values import Identity, identity_of
from paimon_table.types import CHARACTERS, DataField, DataType, Root, arrow_type, parse_type


@dataclass(frozen=True, slots=True)
class MergeMapWithKeyTime(ColumnFunction):
    """Cannot retract."""

    time_at: int
    """Position of the time among the fields of the row."""
    identity: Identity | None
    """Of the keys."""

    name: ClassVar[str] = "merge_map_with_keytime"
    can_retract: ClassVar[bool] = False
    settings: ClassVar[tuple[str, ...]] = (TS_FIELD,)

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        time = "time" if options.ts_field is None else options.ts_field
        return parse_type(f"MAP<STRING, ROW<`any other field` STRING, `{time}` STRING>>")

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        value = field.type.value
        fields = () if value is None or value.root is not Root.ROW else value.fields
        cls.check(len(fields) >= 2, field, options, "a MAP whose value type is a ROW of at least 2 fields")
        names = [f.name for f in fields]
        time = names[-1] if options.ts_field is None else options.ts_field
        if time not in names:
            option = field_option(field.name, TS_FIELD)
            raise ConfigError(
                f"option {option!r}: timestamp field {time!r} is not found in the ROW; its fields are: "
                f"{', '.join(names)}",
                option=option,
                column=field.name,
            )
        time_at = names.index(time)
        is_text = fields[time_at].type.root in CHARACTERS
        cls.check(is_text, field, options, f"rows whose time field {time!r} is a text")
        assert field.type.key is not None
        return cls(field.name, field.type, time_at, identity_of(arrow_type(field.type.key)))

    def accumulator(self) -> Accumulator:
        return MapAccumulator(self.identity, self._put, self.refuse_retract)

    def _put(self, entries: Entries, key: Hashable, entry: Entry) -> None:
        row = entry[1]
        if row is None:
            entries.pop(key, None)
            return
        time = row[self.time_at]
        if time is None:
            return
        _, existing = entries.get(key, (None, None))
        if existing is None or existing[self.time_at] is None or _is_later(time, existing[self.time_at]):
            entries[key] = entry


def _is_later(time: str, other: str) -> bool:
    """Whether a time is greater. As in Java, texts are compared by UTF-16 code units."""
    return time.encode("utf-16-be") > other.encode("utf-16-be")
