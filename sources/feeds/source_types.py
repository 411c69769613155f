"""The types of a source table's columns, as the records of a format name them, and their meaning for a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_table.types import TIMESTAMPS, DataType, Root
from sources.changes import ObservedColumn
from sources.feeds.feed_options import FeedOptions
from sources.feeds.mysql_types import FINEST_MOMENT, LATIN1_BYTES, MysqlType, Text, fitted, mysql_type
from sources.feeds.mysql_values import Rewriting, is_zero_date
from sources.json_changes.change_rows import Events, Rows
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.values.connect_types import ConnectColumn
from sources.values.encodings import Encoding, Kind
from sources.values.form_texts import form_text


@dataclass(frozen=True, slots=True)
class SourceTypes:
    """Columns with their types, by name; empty if the record names no types."""

    columns: tuple[tuple[str, str], ...]
    is_told: bool = True

    @classmethod
    def of(cls, types: Mapping[str, str] | None) -> SourceTypes:
        """From the types of one record; None for a record that names none."""
        return NO_TYPES if types is None else cls.of_object(types)

    @classmethod
    def of_object(cls, found: Mapping[str, Any]) -> SourceTypes:
        """From an object with types as texts, in any order: some writers shuffle it."""
        return cls(tuple(sorted((name, text) for name, text in found.items() if isinstance(text, str))))

    def schema(self, options: FeedOptions, binary: Encoding = LATIN1_BYTES) -> EmbeddedSchema | None:
        """The types in the form of an embedded schema; None if the records name no types.

        ``binary`` says how bytes are written.
        """
        if not self.is_told:
            return None
        return EmbeddedSchema(tuple(self._column(name, text, options, binary) for name, text in self.columns))

    def _column(self, name: str, text: str, options: FeedOptions, binary: Encoding) -> ConnectColumn:
        meant = mysql_type(text)
        encoding = binary if meant.encoding is LATIN1_BYTES else meant.encoding
        return ConnectColumn(name, column_type(meant, options), encoding, pa.string())

    def lacks_width(self, names: Sequence[str]) -> bool:
        """Whether the values of one of these columns show its type."""
        return any(name in names and not mysql_type(text).has_width for name, text in self.columns)

    def rules(self, types: Mapping[str, DataType], options: FeedOptions) -> dict[str, Rewriting]:
        """How to rewrite the texts of columns with these types; unchanged columns have no rule.

        If the records name no type for a column, the table's type shows whether it holds moments or dates.
        """
        meant = {name: MysqlType(t, Text.INSTANT) for name, t in types.items() if t.root in _DATES}
        meant |= {name: mysql_type(text) for name, text in self.columns}
        rules = {name: Rewriting(m, types[name], options) for name, m in meant.items() if name in types}
        return {name: rule for name, rule in rules.items() if not rule.is_idle}

    def rewritten(
        self, events: Events, types: Mapping[str, DataType], options: FeedOptions, raw: Collection[str] = ()
    ) -> Events:
        """Events with the texts of their images rewritten for columns of these types.

        The columns ``raw`` were read without types before: they keep the numbers of words.
        """
        rules = self.rules(types, options)
        rules = {n: rule for n, rule in rules.items() if n not in raw or rule.meant.text not in (Text.ENUM, Text.SET)}
        if not rules:
            return events
        if events.images is None:
            before, after = (_rewritten_rows(rows, rules) for rows in (events.before, events.after))
            return Events(events.positions, events.ops, before, after)
        images = _rewritten_rows(events.images, rules)
        assert isinstance(images, pa.StructArray)
        before, after = (_masked_as(images, side) for side in (events.before, events.after))
        return Events(events.positions, events.ops, before, after, images)

    def observed(
        self,
        names: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
        votes: int,
        options: FeedOptions,
        binary: Encoding,
    ) -> Iterator[ObservedColumn]:
        """Columns as records of ``rows`` show them; for a type without a width the values show it."""
        by_name = {} if (schema := self.schema(options, binary)) is None else schema.by_name
        for name, text in self.columns:
            if name not in names:
                continue
            meant, column = mysql_type(text), by_name[name]
            t: DataType | None = column.type
            if not meant.has_width:
                t = _of_values(meant, (row.get(name) for row in rows), options)
            yield ObservedColumn(name, t, None if t is None else votes, form_text(column.encoding))


_DATES = (Root.DATE, *TIMESTAMPS)

NO_TYPES = SourceTypes((), is_told=False)


def column_type(meant: MysqlType, options: FeedOptions) -> DataType:
    """The Paimon type: a moment is an instant once the time zone is known."""
    return _zoned(meant.type, meant, options)


def _zoned(t: DataType, meant: MysqlType, options: FeedOptions) -> DataType:
    if meant.text is Text.INSTANT and options.has_zone and t.root is Root.TIMESTAMP:
        return replace(t, root=Root.TIMESTAMP_LTZ)
    return t


def _of_values(meant: MysqlType, values: Iterable[Any], options: FeedOptions) -> DataType | None:
    """The type that values show; None without values, because the scale of a decimal or the fraction of a moment is
    unknown.

    Zero dates show no fraction: a column with nothing else has the finest.
    """
    given = [value for value in values if isinstance(value, str)]
    if not given:
        return None
    texts = [text for text in given if not is_zero_date(text)] or [FINEST_MOMENT]
    return _zoned(fitted(meant, texts), meant, options)


def _rewritten_rows(rows: Rows, rules: Mapping[str, Rewriting]) -> Rows:
    if isinstance(rows, list):
        return [row if row is None else _rewritten_object(row, rules) for row in rows]
    children = [
        rules[f.name].of_values(rows.field(i)) if f.name in rules else rows.field(i) for i, f in enumerate(rows.type)
    ]
    return pa.StructArray.from_arrays(children, fields=list(rows.type), mask=rows.is_null())


def _rewritten_object(row: Mapping[str, Any], rules: Mapping[str, Rewriting]) -> Mapping[str, Any]:
    changed = {name: rule.of_value(row[name]) for name, rule in rules.items() if isinstance(row.get(name), str)}
    return {**row, **changed} if changed else row


def _masked_as(images: pa.StructArray, side: Rows) -> pa.StructArray:
    assert isinstance(side, pa.StructArray)
    children = [images.field(i) for i in range(images.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(images.type), mask=side.is_null())


def binary_encoding(binary_format: str) -> Encoding:
    """How the bytes of a format are written, by its option ``binary_format``."""
    return LATIN1_BYTES if binary_format == "latin1" else Encoding(Kind.FORMATTED)
