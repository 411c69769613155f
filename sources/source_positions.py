"""Where in the log of its source an event stands, as a text whose bytes are in the order of the log.

A table with ``order_by: source_position`` stores this text in a column of its own and merges by it. Each kind of source
has its own form, made of the fields of ``source`` in an event. Positions of two kinds do not compare, so a table has
one kind: the kind of its first records.

    postgresql  lastCommitLsn . lsn             binlog    number of the file . pos . row
    sqlserver   commit_lsn . change_lsn . serial number  oracle    commit_scn . scn . rs_id . ssn
    mongodb     ts_ms . ord                     time      nanoseconds . offset of the record

``-`` stands for a part that an event lacks, and sorts before all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.position_kinds import FIELDS

Mask: TypeAlias = npt.NDArray[np.bool_]

_ABSENT = pa.scalar("-")
_WIDTH = 20
"""Digits of the largest number of 64 bits."""
_DIGITS = r"\A[0-9]{1,20}\z"
_SEQUENCE = r"\A\s*\[\s*(?:null|\"?(?P<commit>[0-9]{1,20})\"?)\s*,\s*(?:null|\"?(?P<lsn>[0-9]{1,20})\"?)\s*\]\s*\z"
_BINLOG = r"(?P<number>[0-9]{1,20})\z"
_SERVER_LSN = r"\A[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{4}\z"


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """Positions of events: the kind, as an index of ``KINDS``, and the text. -1 and NULL for an event without one."""

    kinds: npt.NDArray[np.int8]
    texts: pa.Array


@dataclass(frozen=True, slots=True)
class _Events:
    """The fields of events, texts or integers; a field that no event has is all NULL."""

    fields: Mapping[str, pa.Array]
    is_snapshot: pa.Array
    offsets: pa.Array

    def text(self, name: str, pattern: str) -> pa.Array:
        """A field where it has this form; otherwise NULL."""
        values = _as_texts(self.fields.get(name))
        if values is None:
            return pa.nulls(len(self.offsets), pa.string())
        return pc.if_else(pc.fill_null(pc.match_substring_regex(values, pattern), False), values, None)

    def number(self, name: str) -> pa.Array:
        return _padded(self.text(name, _DIGITS))

    def part(self, name: str, pattern: str, group: str) -> pa.Array:
        """The match of a group of the pattern in a field, as a number; NULL without a match."""
        values = _as_texts(self.fields.get(name))
        if values is None:
            return pa.nulls(len(self.offsets), pa.string())
        found = pc.struct_field(pc.extract_regex(values, pattern), group)
        return _padded(pc.if_else(pc.equal(found, ""), None, found))


def _padded(digits: pa.Array) -> pa.Array:
    return pc.utf8_lpad(digits, _WIDTH, "0")


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, ".")


def _or_absent(values: pa.Array) -> pa.Array:
    return pc.coalesce(values, _ABSENT)


def _postgresql(events: _Events) -> pa.Array:
    """The position sorts a transaction after those committed before it, whatever the places of its changes.

    A row of a snapshot without lastCommitLsn comes before every change. A change without it is from the first
    transaction that its connector has seen. Or its connector writes only its own place, which is used instead.
    """
    commit = events.part("sequence", _SEQUENCE, "commit")
    lsn = pc.coalesce(events.part("sequence", _SEQUENCE, "lsn"), events.number("lsn"))
    has_sequence = events.text("sequence", _SEQUENCE).is_valid()
    stands_in = pc.if_else(pc.and_(has_sequence, events.is_snapshot), _ABSENT, lsn)
    return _joined(pc.coalesce(commit, stands_in), lsn)


def _binlog(events: _Events) -> pa.Array:
    row = pc.coalesce(events.number("row"), _padded(pa.repeat("0", len(events.offsets))))
    return _joined(events.part("file", _BINLOG, "number"), events.number("pos"), row)


def _sqlserver(events: _Events) -> pa.Array:
    """A row of a snapshot has no change_lsn: it comes right before the transaction after which it was read."""
    commit, change = (pc.utf8_lower(events.text(name, _SERVER_LSN)) for name in ("commit_lsn", "change_lsn"))
    return _joined(commit, _or_absent(change), _or_absent(events.number("event_serial_no")))


def _oracle(events: _Events) -> pa.Array:
    scn = events.number("scn")
    commit = pc.coalesce(events.number("commit_scn"), scn)
    own = pc.if_else(events.is_snapshot, _ABSENT, scn)
    place = pc.utf8_trim_whitespace(events.text("rs_id", r"\S"))
    return _joined(commit, own, _or_absent(place), _or_absent(events.number("ssn")))


def _mongodb(events: _Events) -> pa.Array:
    seconds = pc.if_else(pc.match_substring_regex(events.number("ts_ms"), "[1-9]"), events.number("ts_ms"), None)
    return _joined(seconds, events.number("ord"))


def _time(events: _Events) -> pa.Array:
    finer = [
        pc.binary_join_element_wise(events.text(name, _DIGITS), zeros, "")
        for name, zeros in (("ts_ns", ""), ("ts_us", "0" * 3), ("ts_ms", "0" * 6))
    ]
    return _joined(_padded(pc.coalesce(*finer)), _padded(events.offsets.cast(pa.string())))


_MAKE: Sequence[Callable[[_Events], pa.Array]] = (_postgresql, _binlog, _sqlserver, _oracle, _mongodb, _time)
"""In the order of ``KINDS``."""


def source_positions(
    fields: Mapping[str, pa.Array], is_snapshot: Mask, offsets: pa.Array, kind: int | None = None
) -> SourcePositions:
    """The positions of events with these fields, texts or integers, some of which are rows of a snapshot.

    Of the given kind, or of each event's own kind.
    """
    events = _Events(fields, pa.array(is_snapshot), offsets)
    kinds = np.full(len(offsets), -1, np.int8)
    found = pa.nulls(len(offsets), pa.string())
    for number, make in enumerate(_MAKE):
        if kind not in (None, number):
            continue
        if not (kinds < 0).any():
            break
        made = make(events)
        kinds[(kinds < 0) & np.asarray(made.is_valid())] = number
        found = pc.coalesce(found, made)
    return SourcePositions(kinds, found)


def _as_texts(column: pa.Array | None) -> pa.Array | None:
    if column is None or column.null_count == len(column):
        return None
    if pa.types.is_string(column.type):
        return column
    return column.cast(pa.string()) if pa.types.is_integer(column.type) else None


def columns_of(sources: Sequence[Any]) -> dict[str, pa.Array]:
    """The fields of ``source`` objects that were parsed one by one."""
    found: dict[str, pa.Array] = {}
    for name in FIELDS:
        values = [_field_text(source.get(name)) if isinstance(source, Mapping) else None for source in sources]
        if any(value is not None for value in values):
            found[name] = pa.array(values, pa.string())
    return found


def _field_text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return str(value)
