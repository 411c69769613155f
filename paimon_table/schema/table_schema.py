"""One version of a table's schema and its file form (``schema/schema-<id>``).

Implements Paimon's schema JSON, version 3, and the creation rules: field ids, reserved names, key columns NOT NULL.
Rules that depend on the meaning of table options live in ``table_validation``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.json_text import as_text, as_whole_number, pretty
from paimon_table.known_values import Packed, once_for_each
from paimon_table.option_declaration import Declaration, listed
from paimon_table.row_kind import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.schema.schema_options import BUCKET_KEY, PARTITION, PRIMARY_KEY, PRIMARY_KEY_NULLABLE
from paimon_table.types import DataField, DataType, arrow_schema, assign_ids, field_from_json, field_json

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED_NAMES = frozenset({SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "_ROW_ID", "rowkind"})
"""Column names that belong to the format; so does every name that begins with ``_KEY_``."""

_VERSION = 3


@dataclass(frozen=True, slots=True)
class TableSchema(Packed):
    """Columns, keys and options of a table. ``id`` is the number of the schema file, dense from 0."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    """Largest field id ever used, nested ones included; never decreases."""
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None = None
    time_ms: int = 0

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key without partition columns: the merge key inside one bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns whose hash chooses the bucket: option ``bucket-key`` (split at commas, not trimmed) or the key."""
        declared = self.options.get(BUCKET_KEY.name)
        return tuple(declared.split(",")) if declared else self.trimmed_primary_keys

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        return _key_fields(self)

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        return tuple(self.field(name) for name in self.partition_keys)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of all columns in table order, with nullability."""
        return _arrow_schema(self)

    def field(self, name: str) -> DataField:
        """The column ``name``; raises ConfigError if the table has none."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise ConfigError(
            f"column {name!r} can not be found in the table schema; columns are: {', '.join(self.column_names)}",
            column=name,
        )

    def has_column(self, name: str) -> bool:
        return any(f.name == name for f in self.fields)


@once_for_each
def _key_fields(schema: TableSchema) -> tuple[DataField, ...]:
    return tuple(schema.field(name) for name in schema.trimmed_primary_keys)


@once_for_each
def _arrow_schema(schema: TableSchema) -> pa.Schema:
    return arrow_schema(schema.fields)


def create_schema(
    columns: Sequence[tuple[str, DataType]],
    primary_keys: Sequence[str],
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_ms: int = 0,
) -> TableSchema:
    """Schema 0 of a new table; assigns field ids and makes key columns NOT NULL (unless ``primary-key.nullable``).

    As in SQL, the options ``primary-key`` and ``partition`` set the keys, and do not stay in the options. Raises
    ConfigError for names and keys that Paimon refuses.
    """
    kept = dict(options or {})
    primary = _keys(PRIMARY_KEY, primary_keys, kept)
    partition = _keys(PARTITION, partition_keys, kept)
    _check_names([name for name, _ in columns])
    fields, highest = assign_ids(columns)
    if not PRIMARY_KEY_NULLABLE.value_in(kept):
        fields = tuple(replace(f, type=f.type.with_nullable(False)) if f.name in primary else f for f in fields)
    schema = TableSchema(0, fields, highest, partition, primary, kept, comment, time_ms)
    check_keys(schema)
    return schema


def _keys(option: Declaration, given: Sequence[str], options: dict[str, str]) -> tuple[str, ...]:
    stated = options.pop(option.name, None)
    if stated is None:
        return tuple(given)
    if given:
        raise ConfigError(
            f"option {option.name!r} repeats the keys {list(given)}; remove the option", option=option.name
        )
    return listed(stated)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ConfigError("a table needs at least one column; add columns")
    for name in names:
        check_name(name)
    _check_distinct("columns", names)


def check_name(name: str) -> None:
    """Raises ConfigError for a column name that is blank or that the format reserves."""
    if not name.strip():
        raise ConfigError(f"column name {name!r} is blank; give it a name", column=name)
    if name in RESERVED_NAMES:
        raise ConfigError(f"column name {name!r} is reserved by the table format; rename the column", column=name)
    if name.startswith(KEY_PREFIX):
        raise ConfigError(
            f"column name {name!r} begins with the reserved prefix {KEY_PREFIX}; rename the column", column=name
        )


def _check_distinct(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"{name!r} appears twice among the {what}; keep one")
        seen.add(name)


def check_keys(schema: TableSchema) -> None:
    """Refuse keys that name no column, repeat one, have a nested type or leave one row per partition."""
    for what, names in (("partition", schema.partition_keys), ("primary key", schema.primary_keys)):
        _check_distinct(f"{what} fields", names)
        for name in names:
            if not schema.has_column(name):
                raise ConfigError(
                    f"{what} field {name!r} is not a column; columns are: {', '.join(schema.column_names)}"
                )
            key_type = schema.field(name).type
            if key_type.is_nested:
                raise ConfigError(
                    f"the type {key_type} in {what} field {name!r} is unsupported; use a column of an atomic type"
                )
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise ConfigError(
            f"primary key {list(schema.primary_keys)} should not be the same as the partition fields: each partition "
            "would have a single row. Add a column to the primary key"
        )


def to_json(schema: TableSchema) -> str:
    """The text of the schema file, keys in Java's order."""
    document: dict[str, Any] = {
        "version": _VERSION,
        "id": schema.id,
        "fields": [field_json(f) for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        document["comment"] = schema.comment
    document["timeMillis"] = schema.time_ms
    return pretty(document)


def from_json(data: str | bytes, path: str = "a schema file") -> TableSchema:
    """Read a schema file of version 1, 2 or 3; older versions get the defaults of their time as options.

    Raises CorruptFile, which names ``path``, for anything else.
    """
    try:
        document = json.loads(data)
        version = as_whole_number(document.get("version", 1))
        options = {str(key): str(value) for key, value in document["options"].items()}
        if version <= 1:
            options.setdefault("bucket", "1")
        if version <= 2:
            options.setdefault("file.format", "orc")
        fields = tuple(field_from_json(f) for f in document["fields"])
        _check_once("name of two columns", [f.name for f in fields])
        _check_once("id of two columns", [f.id for f in fields])
        return TableSchema(
            id=as_whole_number(document["id"]),
            fields=fields,
            highest_field_id=as_whole_number(document["highestFieldId"]),
            partition_keys=_names(document["partitionKeys"]),
            primary_keys=_names(document["primaryKeys"]),
            options=options,
            comment=document.get("comment"),
            time_ms=as_whole_number(document.get("timeMillis", 0)),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise CorruptFile(f"{path} is not readable as a schema ({error!r}); restore it from a backup") from error


def _names(listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list):
        raise ValueError("the keys are not a list")
    names = tuple(map(as_text, listed))
    _check_once("column of two places in the key", names)
    return names


def _check_once(what: str, listed: Sequence[object]) -> None:
    twice = [one for one, count in Counter(listed).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is the {what}")
