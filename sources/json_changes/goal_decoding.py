"""Decodes the records of one source table for its goal: the steps that all formats share.

It first removes TRUNCATEs, changes that the table does not take, and records with unfit message keys. The format
decodes the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.changes import Observation, SourceTable
from sources.decode_target import Behind, DecodeTarget, Goal, KeyFields, KeyRule, Rejection
from sources.json_changes.change_rows import DELETE, TRUNCATE, UPDATE, Mask
from sources.json_changes.outcome import RECORD_FAULTS, Outcome, fault_text


class Part(Protocol):
    """Records of one source table in one topic partition, with their operations."""

    @property
    def positions(self) -> npt.NDArray[np.int64]: ...
    @property
    def ops(self) -> npt.NDArray[np.int8]: ...
    def chosen(self, mask: Mask) -> Self: ...


P = TypeVar("P", bound=Part)
P_contra = TypeVar("P_contra", bound=Part, contravariant=True)


class TableFormat(Protocol[P_contra]):
    """The part of a format in these steps, for one topic partition.

    ``op_names`` has the source's word for each operation code; ``key_words`` name the source of a record's key.
    ``event`` is a record parsed exactly or a MalformedRecord, and ``images`` has its rows. ``missing_row`` says why an
    event lacks the row that its operation needs. ``keys_of`` gives the keys, in the table's column names, each with its
    records. ``unusable_key`` is about a record without a key, or with a key without fields. ``observed`` are all
    columns of a source table; ``has_rows`` is added here.
    """

    @property
    def outcome(self) -> Outcome: ...
    @property
    def partition(self) -> int: ...
    @property
    def op_names(self) -> Sequence[str]: ...
    @property
    def key_words(self) -> str: ...
    def into(self, outcome: Outcome) -> Self: ...
    def fitted(self, target: DecodeTarget) -> DecodeTarget | Rejection: ...
    def event(self, part: P_contra, index: int) -> Any: ...
    def images(self, event: Any) -> Sequence[Mapping[str, Any]]: ...
    def missing_row(self, op: int, event: Any) -> str | None: ...
    def keys_of(self, part: P_contra, columns: set[str]) -> Iterator[tuple[KeyFields, Mask]]: ...
    def unusable_key(self, fields: KeyFields, rule: KeyRule, primary_key: Sequence[str]) -> str: ...
    def observed(self, source: SourceTable, parts: Sequence[P_contra]) -> Observation: ...
    def decode_known(self, source: SourceTable, target: DecodeTarget, parts: Sequence[P_contra]) -> None: ...


def decode_for_goal(
    form: TableFormat[P], source: SourceTable, parts: Sequence[P], goals: Mapping[SourceTable, Goal]
) -> None:
    """Decode records of one source table; a record that makes the code fail goes to quarantine."""
    parts = [part for part in parts if len(part.ops)]
    attempt = form.outcome.attempt()
    try:
        if parts:
            _decode(form.into(attempt), source, parts, goals)
    except pa.ArrowMemoryError:
        raise
    except RECORD_FAULTS as error:
        halves = _halved(parts)
        if not halves:
            reason = f"the record cannot be decoded: {fault_text(error)}; please report it"
            form.outcome.quarantine(int(parts[0].positions[0]), reason)
        for half in halves:
            decode_for_goal(form, source, half, goals)
    else:
        form.outcome.take(attempt)


def _halved(parts: Sequence[P]) -> tuple[Sequence[P], ...]:
    """The two halves of the records; empty for a single record."""
    if len(parts) > 1:
        return parts[: len(parts) // 2], parts[len(parts) // 2 :]
    count = len(parts[0].ops)
    is_first = np.arange(count) < count // 2
    return () if count == 1 else ([parts[0].chosen(is_first)], [parts[0].chosen(~is_first)])


def _decode(form: TableFormat[P], source: SourceTable, parts: Sequence[P], goals: Mapping[SourceTable, Goal]) -> None:
    count = sum(len(part.ops) for part in parts)
    if source not in goals:
        form.outcome.count(unknown_tables=count)
        for of_key in _by_key(form, parts):
            form.outcome.observe(_observed(form, source, of_key))
        return
    goal = goals[source]
    goal = form.fitted(goal) if isinstance(goal, DecodeTarget) else goal
    match goal:
        case None:
            form.outcome.skip(source, count)
        case Behind():
            form.outcome.count(tables_behind=count)
        case Rejection() as rejection:
            _reject(form, source, rejection, parts)
        case target:
            for step in (_without_truncates, _without_changes, _with_fit_keys):
                parts = [left for part in parts if len((left := step(form, source, target, part)).ops)]
            if parts:
                form.decode_known(source, target, parts)


def _by_key(form: TableFormat[P], parts: Sequence[P]) -> Iterable[list[P]]:
    """The records by the fields of their message keys: each key may be that of another table."""
    found: defaultdict[frozenset[str], list[P]] = defaultdict(list)
    for part in parts:
        for fields, mask in form.keys_of(part, set()):
            if mask.any():
                found[frozenset(fields or ())].append(part.chosen(mask))
    return found.values()


def _observed(form: TableFormat[P], source: SourceTable, parts: Sequence[P]) -> Observation:
    has_rows = any(not np.isin(part.ops, (DELETE, TRUNCATE)).all() for part in parts)
    first = min(int(part.positions.min()) for part in parts)
    return replace(form.observed(source, parts), has_rows=has_rows, timestamp_ms=form.outcome.timestamp_ms(first))


def _reject(form: TableFormat[P], source: SourceTable, rejection: Rejection, parts: Sequence[P]) -> None:
    """Quarantine the records; if the table can still be created, report their columns and count its deletes."""
    if rejection.is_unmade:
        seen = [one for of_key in _by_key(form, parts) if (one := _observed(form, source, of_key)).columns]
        for one in seen:
            form.outcome.observe(one)
        if rejection.is_empty and any(one.has_rows for one in seen):
            # They create the table, or give another reason.
            form.outcome.count(unknown_tables=sum(len(part.ops) for part in parts))
            return
    for part in parts:
        for index, (position, op) in enumerate(zip(part.positions.tolist(), part.ops.tolist(), strict=True)):
            event = form.event(part, index)
            if isinstance(event, MalformedRecord):
                form.outcome.quarantine(position, str(event))
            elif rejection.is_empty and op in (DELETE, TRUNCATE):
                form.outcome.count(without_table=1)
            else:
                missing = form.missing_row(op, event) if rejection.is_unmade and op != TRUNCATE else None
                form.outcome.quarantine(position, missing or rejection.reason)


def _without_truncates(form: TableFormat[P], source: SourceTable, target: DecodeTarget, part: P) -> P:
    truncates = part.ops == TRUNCATE
    for index in np.flatnonzero(truncates).tolist():
        position, event = int(part.positions[index]), form.event(part, index)
        if isinstance(event, MalformedRecord):
            form.outcome.quarantine(position, str(event))
        else:
            form.outcome.truncate(source, target, position, form.op_names[TRUNCATE])
    return part.chosen(~truncates)


def _without_changes(form: TableFormat[P], source: SourceTable, target: DecodeTarget, part: P) -> P:
    """Only the inserts, if a table without primary key takes nothing else."""
    if target.on_change in (None, "log"):
        return part
    changes = np.isin(part.ops, (UPDATE, DELETE))
    if changes.any():
        op_name = form.op_names[part.ops[np.argmax(changes)]]
        form.outcome.pass_over_changes(source, target, part.positions[changes], op_name)
    return part.chosen(~changes)


def _with_fit_keys(form: TableFormat[P], source: SourceTable, target: DecodeTarget, part: P) -> P:
    """The records whose key identifies rows of the table's primary key.

    The first key of a source table without keys so far is reported: later keys must agree with it.
    """
    rule, primary_key = target.keys, target.primary_key
    if rule is None:
        return part
    columns, outcome = {name for name, _ in target.columns}, form.outcome
    fit = np.ones(len(part.ops), np.bool_)
    first_keys: list[tuple[int, KeyFields]] = []
    for fields, mask in form.keys_of(part, columns):
        if rule.is_stated and not rule.first and fields and columns.issuperset(fields):
            first_keys.append((int(part.positions[mask].min()), fields))
        if rule.takes(fields, primary_key):
            continue
        fit &= ~mask
        if rule.is_earlier(fields):
            mask = _late(form, rule, part, mask)
        elif fields and rule.is_followed:
            mask = _from_first_row(form, part, mask)
        if not mask.any():
            continue
        first = int(np.argmax(mask))
        if not fields:
            reason = form.unusable_key(fields, rule, primary_key)
        elif rule.is_earlier(fields):
            reason = _earlier_key(form.key_words, fields, rule, primary_key)
        elif columns.union(*form.images(form.event(part, first))).issuperset(fields):
            reason = _changed_key(form.key_words, fields, rule, primary_key)
            outcome.refuse(source, int(part.positions[first]), reason, key=fields if rule.is_followed else ())
            if rule.is_followed:
                outcome.observe(_observed(form, source, [part.chosen(mask)]))
            continue
        else:
            reason = (
                f"{form.key_words} ({', '.join(fields)}) names a column that the row does not have; the primary key of"
                f" table {rule.table} is ({', '.join(primary_key)})"
            )
        for position in part.positions[mask].tolist():
            outcome.quarantine(position, reason)
    if first_keys:
        position, fields = min(first_keys)
        outcome.observe(Observation(source, (), fields, form.partition, outcome.offset(position)))
    return part.chosen(fit)


def _late(form: TableFormat[P], rule: KeyRule, part: P, mask: Mask) -> Mask:
    """Those of the records with the key of an earlier table that this one does not have."""
    stored = mask & (np.asarray(form.outcome.offsets)[part.positions] < rule.begin.get(form.partition, 0))
    form.outcome.count(already_stored=int(stored.sum()))
    return mask & ~stored


def _from_first_row(form: TableFormat[P], part: P, mask: Mask) -> Mask:
    """Those of the records from the first one with a row on: only this one shows the columns of a table.

    A new table would have nothing for the deletes before it.
    """
    is_row = mask & (part.ops != DELETE)
    is_before: Mask = mask & (np.cumsum(is_row) == 0)
    for index in np.flatnonzero(is_before).tolist():
        event = form.event(part, index)
        if isinstance(event, MalformedRecord):
            form.outcome.quarantine(int(part.positions[index]), str(event))
        else:
            form.outcome.count(without_table=1)
    return mask & ~is_before


def _earlier_key(named_by: str, fields: Sequence[str], rule: KeyRule, primary_key: Sequence[str]) -> str:
    """Why a table does not take records with the key of a table before it."""
    now, keyed = ", ".join(fields), ", ".join(primary_key)
    return (
        f"{named_by} is ({now}), as before the primary key of the source table became ({keyed}): the record is late, "
        f"and table {rule.table} may have newer rows. If the source table again has this key, {_into_new(now)}"
    )


def _into_new(key: str) -> str:
    """The remedy if the source table has another key than its Paimon table."""
    return (
        f"write it into a new table. Set another `into`, primary_key: [{key}], and `backfill: true` (or make a new "
        "snapshot of the connector)"
    )


def _changed_key(named_by: str, fields: Sequence[str], rule: KeyRule, primary_key: Sequence[str]) -> str:
    """Why a batch stops at a key with other fields than before."""
    now, keyed = ", ".join(fields), ", ".join(primary_key)
    if rule.is_followed:
        return (
            f"{named_by} is now ({now}), the primary key of table {rule.table} is ({keyed}): a new table continues "
            "with the new key"
        )
    before = f"was ({', '.join(rule.first)}) and " if rule.is_stated else ""
    text = (
        f"{named_by} {before}is now ({now}), the primary key of table {rule.table} is ({keyed}): rows with "
        "different keys would overwrite each other. If the primary key of the source table has changed, "
        f"{_into_new(now)}"
    )
    if set(fields) < set(primary_key):
        text += f". If ({keyed}) is meant, set primary_key: [{keyed}] in the rule"
    return text
