"""The kinds of source positions as words: a table remembers the one of its first records, and has no other.

``source_positions`` makes positions of records; reading a pipeline file needs these words, and no Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_table.types import string

POSITION = "_tidemark_position"
"""The column (STRING) of a table; NULL in rows from before the table had it, which are the oldest."""
POSITION_TYPE = string()

NUMBERS = ("lsn", "pos", "row", "event_serial_no", "ssn", "ord", "ts_ms", "ts_us", "ts_ns")
TEXTS = ("sequence", "file", "change_lsn", "commit_lsn", "scn", "commit_scn", "rs_id")
FIELDS = (*NUMBERS, *TEXTS)
"""The fields of ``source`` in an event that positions are made of; numbers may come as texts and the other way."""

FORM_PREFIX = "position "
"""Prefix of the column's form (``sources.column_forms``): the kind of its positions follows."""


@dataclass(frozen=True, slots=True)
class PositionKind:
    """One form of positions, of these fields. ``needs`` describes what a record must have."""

    name: str
    fields: Sequence[str]
    needs: str


KINDS: Sequence[PositionKind] = (
    PositionKind("postgresql", ("sequence", "lsn"), "source.lsn or source.sequence"),
    PositionKind("binlog", ("file", "pos", "row"), "source.file, source.pos and source.row"),
    PositionKind("sqlserver", ("commit_lsn", "change_lsn", "event_serial_no"), "source.commit_lsn, source.change_lsn"),
    PositionKind("oracle", ("commit_scn", "scn", "rs_id", "ssn"), "source.scn and source.commit_scn"),
    PositionKind("mongodb", ("ts_ms", "ord"), "source.ts_ms and source.ord"),
    PositionKind("time", ("ts_ns", "ts_us", "ts_ms"), "source.ts_ms"),
)
"""The first one that an event has the fields for is its kind."""

NO_POSITION = (
    "order_by: source_position: the record has no place in the log of its source. Let the connector write it (of flat"
    " rows: add.fields=source.lsn, or source.file,source.pos,source.row and so on)"
)

TOMBSTONE = (
    "order_by: source_position: a record without a value has no position in the log of its source. Let the connector "
    "write deletes as rows (delete.tombstone.handling.mode=rewrite), and set `on_tombstone: skip` if tombstones follow"
)


def fields_of(kind: int | None) -> Sequence[str]:
    """The fields that positions of a kind are made of; all of them while no kind is known."""
    return FIELDS if kind is None else KINDS[kind].fields


def form_of(kind: int) -> str:
    """The form of the column of a table with positions of this kind."""
    return FORM_PREFIX + KINDS[kind].name


def kind_of(form: str | None) -> int | None:
    """The kind that a table remembers; None if it has none yet."""
    return next((number for number in range(len(KINDS)) if form_of(number) == form), None)


def joined_kinds(known: str, told: str) -> str:
    """The form of a table whose first records had two kinds at once: the earlier one in ``KINDS``."""
    names = [form_of(kind) for kind in range(len(KINDS))]
    return next((form for form in names if form in (known, told)), known)


def wrong_kind(wanted: int) -> str:
    """Why a record cannot be ordered in a table with positions of a kind."""
    kind = KINDS[wanted]
    return (
        "order_by: source_position: the record does not have its place in the source's log in the form of the "
        f"table's first records ({kind.name}). Let the connector write {kind.needs} (of flat rows: add.fields), or "
        "give the topic a separate table"
    )
