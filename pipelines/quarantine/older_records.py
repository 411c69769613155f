"""Late records: whether a table's merge puts them in their place, or they would undo later changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import Table
from paimon_table.row_kind import VALUE_KIND, RowKind
from pipelines.config.repeated_records import places_deletes, replaces_newer
from pipelines.quarantine.overtaken import History, Key, keys_of
from sources.change_columns import OFFSET_COLUMN, ORDERED_COLUMN
from sources.changes import ChangeBatch, DecodeCounts, Decoded, QuarantineRow, SourceTable
from sources.decode_target import Decoder, Goal, TopicFormats, decoder_under
from sources.record_rows import rows_at

EVEN_IF_OLDER = "--even-if-older"

_LATE_DELETE = (
    "a delete has no sequence value, so it could remove a newer row of its key. Check the row, then retry with "
    f"{EVEN_IF_OLDER}, or drop the record"
)


def refusal(identifier: str, table: Table) -> str | None:
    """Why a record that is older than the rows of the table would undo later changes; None if it would not."""
    where = replaces_newer(table.schema, table.options)
    if where is None:
        return None
    return (
        f"table {identifier} has no sequence.field, so a late record replaces newer rows of its key{where}. "
        f"Check whether the rows have changed since, then retry with {EVEN_IF_OLDER}, or drop the record"
    )


class LateRecords:
    """Finds the records of a slice that would undo later changes in their tables."""

    def __init__(
        self,
        table_of: Callable[[SourceTable], tuple[str, Table] | None],
        step_of: Callable[[str, int, int], tuple[str, int] | None],
        user: str,
    ) -> None:
        """``table_of`` gives the table of a source table, ``step_of`` the step that first quarantined the record.

        ``user`` commits the slice: its own commits are not newer than its records.
        """
        self._table_of = table_of
        self._step_of = step_of
        self._user = user
        self._histories: dict[str, History] = {}

    def held(self, change: ChangeBatch) -> dict[int, str]:
        """By offset the reason why a record must wait."""
        found = self._table_of(change.source)
        if found is None or not found[1].schema.primary_keys:
            return {}
        identifier, table = found
        rows, keys = change.rows, keys_of(change.rows, table.schema.primary_keys)
        is_placed = places_deletes(table.schema, table.options)
        of_order, of_delete = refusal(identifier, table), None if is_placed else _LATE_DELETE
        is_delete_of_source = pc.equal(rows.column(VALUE_KIND), RowKind.DELETE)
        if ORDERED_COLUMN in rows.column_names:
            is_delete_of_source = pc.and_not(is_delete_of_source, rows.column(ORDERED_COLUMN))
        deletes = is_delete_of_source.to_pylist()
        judged = [
            (offset, key, of_delete if is_delete else of_order)
            for offset, key, is_delete in zip(rows.column(OFFSET_COLUMN).to_pylist(), keys, deletes, strict=True)
        ]
        held: dict[int, str] = {}
        asked = {key for _, key, why in judged if why is not None}
        for offset, key, why in judged:
            if why is not None and self._is_overtaken(identifier, table, change, offset, key, asked):
                held.setdefault(offset, why)
        return held

    def _is_overtaken(
        self, identifier: str, table: Table, change: ChangeBatch, offset: int, key: Key, asked: Collection[Key]
    ) -> bool:
        """Whether the row of the key may have changed since the record was read."""
        if identifier not in self._histories:
            self._histories[identifier] = History(table, self._user)
        history, step = self._histories[identifier], self._step_of(change.source.topic, change.partition, offset)
        since = None if step is None else history.before(*step)
        return since is None or key in history.touched_since(since, asked)


@dataclass(frozen=True, slots=True)
class WithoutLateRecords:
    """A ``Decoder`` that quarantines records which would undo later changes."""

    decoder: Decoder
    late: LateRecords

    def under(self, formats: TopicFormats) -> WithoutLateRecords:
        """See ``sources.decode_target.FindsFormats``."""
        return replace(self, decoder=decoder_under(self.decoder, formats))

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``Decoder``."""
        decoded = self.decoder.decode(batch, targets)
        changes: list[ChangeBatch] = []
        held: list[QuarantineRow] = []
        for change in decoded.changes:
            late = self.late.held(change) if change.rows.num_rows else {}
            for offset, why in late.items():
                held += rows_at(batch, change.source, change.partition, [offset], why)
            is_kept = pc.invert(pc.is_in(change.rows.column(OFFSET_COLUMN), value_set=pa.array(late, pa.int64())))
            kept = change.rows.filter(is_kept) if late else change.rows
            if kept.num_rows:
                changes.append(replace(change, rows=kept))
        counts = decoded.counts + DecodeCounts(with_rows=-len(held), quarantined=len(held))
        return replace(decoded, changes=tuple(changes), quarantine=(*decoded.quarantine, *held), counts=counts)
