"""The metadata fields of a row: those that ExtractNewRecordState adds to rows and headers (``add.fields``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from sources.places_of_change import UNKNOWN_PLACE, PlaceOfChange, place_of_change
from sources.position_kinds import FIELDS

DELETED_FIELD = "__deleted"
"""Written by ``rewrite``, whatever the prefix is: the text true or false."""
OPERATION_HEADER = "__debezium-operation"
"""The header of ``operation.header``, which older connectors write."""

_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION = ("id", "total_order", "data_collection_order")
_SOURCE = (
    *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence", "schema", "table"),
    *("collection", "keyspace_name", "table_name", "txId", "lsn", "xmin", "origin", "origin_lsn"),
    *("server_id", "gtid", "file", "pos", "row", "thread", "query"),
    *("change_lsn", "commit_lsn", "event_serial_no", "change_table"),
    *("scn", "commit_scn", "lcr_position", "rs_id", "ssn", "redo_thread", "user_name", "row_id", "redo_sql"),
    *("start_scn", "start_ts_ms", "commit_ts_ms", "ord", "h", "tord", "stxnid", "lsid", "txnNumber", "wallTime"),
    *("shard", "vgtid", "keyspace", "value_capture_type", "transaction_tag", "commit_ts", "cluster", "begin_lsn"),
)


class Role(StrEnum):
    """The metadata that Tidemark reads; other fields are known only by name."""

    OP = "op"
    DATABASE = "db"
    SCHEMA = "schema"
    TABLE = "table"
    TIME_MS = "ts_ms"
    TIME_US = "ts_us"
    TIME_NS = "ts_ns"
    DELETED = "deleted"


TIMES: Mapping[Role, int] = {Role.TIME_MS: 1, Role.TIME_US: 1000, Role.TIME_NS: 1_000_000}
"""The roles that say when a change was made, each with its parts of a millisecond."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """One entry of ``add.fields``: the struct of the envelope that has the field, and the name that it gets."""

    struct: str
    field: str
    name: str

    @property
    def role(self) -> Role | None:
        try:
            role = Role(self.field)
        except ValueError:
            return None
        if self.struct == "transaction" or role is Role.DELETED:
            return None
        return role if role in TIMES or (role is Role.OP) == (self.struct == "") else None


def _stated(prefix: str, add_fields: str) -> list[_Reference]:
    """The entries as the connector reads them: ``field``, ``struct.field``, either with ``:name``."""
    references = []
    for entry in filter(None, (part.strip() for part in add_fields.split(","))):
        path, _, renamed = entry.partition(":")
        struct, dot, field = path.rpartition(".")
        if not dot:
            struct = "" if field in _ENVELOPE else "transaction" if field in _TRANSACTION else "source"
        name = renamed or (f"{struct}_{field}" if dot else field)
        references.append(_Reference(struct, field, prefix + name))
    return references


def _all_known(prefix: str) -> list[_Reference]:
    known = ",".join(
        [
            *(f"source.{field}" for field in _SOURCE),
            *(f"transaction.{field}" for field in _TRANSACTION),
            *_TRANSACTION,
            *_SOURCE,
            *_ENVELOPE,
        ]
    )
    return _stated(prefix, known)


@dataclass(frozen=True)
class Metadata:
    """The metadata fields of rows, or of headers, under a connector's settings."""

    prefix: str = "__"
    add_fields: str = "auto"
    is_of_connector: bool = True
    """Whether a connector writes the rows. If not, every field is a column, and every object is a row."""
    is_of_headers: bool = False
    """Headers hold no columns: without a prefix all known names are metadata there."""

    @cached_property
    def roles(self) -> Mapping[str, Role]:
        """By field name its role; of two names for one role the earlier one counts first.

        The time of the change in the source counts before the one at which the connector read it.
        """
        references = sorted(self._references, key=lambda reference: reference.struct != "source")
        found = {reference.name: reference.role for reference in references}
        marks = {DELETED_FIELD: Role.DELETED} if self.is_of_connector else {}
        return marks | {name: role for name, role in found.items() if role is not None}

    @cached_property
    def names(self) -> frozenset[str]:
        """All metadata fields."""
        return frozenset({*self.named(Role.DELETED), *(reference.name for reference in self._references)})

    @cached_property
    def source_names(self) -> Mapping[str, Sequence[str]]:
        """For each field of ``source`` that positions need, the fields of rows that have it."""
        found: dict[str, list[str]] = {}
        for reference in self._references:
            if reference.struct == "source" and reference.field in FIELDS:
                found.setdefault(reference.field, []).append(reference.name)
        return found | {role.value: names for role in TIMES if (names := self.named(role))}

    @cached_property
    def place_names(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """For each part of the envelope's ``source`` and ``transaction``, the fields of rows with it.

        If a row has two fields for one part, the field that names its struct counts.
        """
        found: dict[str, dict[str, list[str]]] = {"source": {}, "transaction": {}}
        for reference in self._references:
            if reference.struct in found:
                found[reference.struct].setdefault(reference.field, []).append(reference.name)
        times = {role.value: list(self.named(role)) for role in TIMES}
        return {"source": found["source"] | times, "transaction": found["transaction"]}

    @cached_property
    def _references(self) -> list[_Reference]:
        if not self.is_of_connector:
            return []
        if self.add_fields != "auto":
            return _stated(self.prefix, self.add_fields)
        return _all_known(self.prefix) if self.prefix or self.is_of_headers else []

    def named(self, role: Role) -> tuple[str, ...]:
        """The fields with a role, in order of precedence."""
        return tuple(name for name, of in self.roles.items() if of is role)


NO_METADATA = Metadata(is_of_connector=False)


def metadata(prefix: str, add_fields: str, *, is_of_headers: bool = False) -> Metadata:
    """The metadata under the options of the format, where ``none`` stands for an empty prefix."""
    return Metadata("" if prefix == "none" else prefix, add_fields, is_of_headers=is_of_headers)


@dataclass(frozen=True)
class FlatRows:
    """The shape of rows without an envelope (see ``sources.debezium_json.record_shapes``)."""

    metadata: Metadata
    is_kept: bool = False
    """Metadata fields are columns too, except the one that marks deleted rows."""
    has_old_rows: bool = False

    @property
    def source_names(self) -> Mapping[str, Sequence[str]]:
        return self.metadata.source_names

    def event(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        row = {name: field for name, field in value.items() if not self.is_metadata(name)}
        return {"after": row}

    def place(self, payload: Any) -> PlaceOfChange:
        if not isinstance(payload, Mapping):
            return UNKNOWN_PLACE
        structs = self.metadata.place_names.items()
        return place_of_change(
            {struct: {field: _first(payload, names) for field, names in of.items()} for struct, of in structs}
        )

    def is_metadata(self, name: str) -> bool:
        return name in (self.metadata.named(Role.DELETED) if self.is_kept else self.metadata.names)

    def row_of_struct(self, struct: Mapping[str, Any]) -> Mapping[str, Any]:
        """The struct of an embedded schema without metadata fields."""
        fields = [f for f in struct["fields"] if not (isinstance(f, Mapping) and self._is_metadata(f.get("field")))]
        return {**struct, "fields": fields}

    def _is_metadata(self, name: Any) -> bool:
        return isinstance(name, str) and self.is_metadata(name)


WHOLE_ROWS = FlatRows(NO_METADATA)
"""Rows in which all fields count: plain rows, and message keys in place of the rows that they delete."""


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of these fields that has one."""
    return next((row[name] for name in names if row.get(name) is not None), None)
