"""Records that come late: whether a table's merge puts them in their place, or they would undo what came after them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import Table
from paimon_table.merge.aggregation import DEFAULT_FUNCTION
from paimon_table.row_kind import VALUE_KIND, RowKind
from sinks.exchange.version_columns import HISTORY_OPTION
from sources.changes import (
    OFFSET_COLUMN,
    ChangeBatch,
    DecodeCounts,
    Decoded,
    Decoder,
    DecodeTarget,
    Goal,
    QuarantineRow,
    SourceTable,
    TopicFormats,
    decoder_under,
)
from sources.record_rows import rows_at
from sources.wording import first_of

EVEN_IF_OLDER = "--even-if-older"

_IN_ANY_ORDER = frozenset(
    ("sum", "product", "count", "max", "min", "bool_or", "bool_and", "hll_sketch", "theta_sketch", "rbm32", "rbm64")
)
"""Aggregate functions whose result does not tell in which order values came."""

_SHOWN = 5

_LATE_DELETE = (
    "a delete does not say what it is older than, and would take away a newer row of its key: look at the row, then"
    f" retry with {EVEN_IF_OLDER}, or drop the record"
)


def refusal(identifier: str, table: Table) -> str | None:
    """Why a record that is older than the rows of the table would undo what newer ones wrote; None where it cannot."""
    options, schema = table.options, table.schema
    if HISTORY_OPTION in schema.options:
        return None
    if not schema.primary_keys or options.merge_engine == "first-row" or options.sequence_fields:
        return None
    values = [name for name in schema.column_names if name not in schema.primary_keys]
    named, told = options.field_options, ""
    if options.merge_engine == "aggregation":
        functions = {
            name: named.of(name).aggregate_function or options.default_aggregate_function or DEFAULT_FUNCTION
            for name in values
        }
        ordered = [f"{name} ({of})" for name, of in functions.items() if of not in _IN_ANY_ORDER]
        if not ordered:
            return None
        told = f" in {', '.join(first_of(ordered, _SHOWN, 'columns'))}"
    if options.merge_engine == "partial-update":
        grouped = {name for group in named.sequence_groups for name in (*group.sequence, *group.protected)}
        alone = [name for name in values if name not in grouped]
        if not alone:
            return None
        told = f" in {', '.join(first_of(alone, _SHOWN, 'columns'))}, outside of any sequence group" if grouped else ""
    return (
        f"table {identifier} has no sequence.field, so a record that comes late wins over newer rows of its key{told}:"
        f" look whether they have changed since, then retry with {EVEN_IF_OLDER}, or drop the record"
    )


@dataclass(frozen=True, slots=True)
class WithoutLateDeletes:
    """A ``Decoder`` that sends records with deletes of tables with a key to quarantine.

    A delete gets the place in the order of the row that it meets, whatever that is.
    """

    decoder: Decoder

    def under(self, formats: TopicFormats) -> WithoutLateDeletes:
        """See ``sources.changes.FindsFormats``."""
        return WithoutLateDeletes(decoder_under(self.decoder, formats))

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``Decoder``."""
        decoded = self.decoder.decode(batch, targets)
        changes: list[ChangeBatch] = []
        held: list[QuarantineRow] = []
        for change in decoded.changes:
            target = targets.get(change.source)
            is_keyed = isinstance(target, DecodeTarget) and bool(target.primary_key) and not target.versions
            kept, offsets = _without_deletes(change.rows) if is_keyed else (change.rows, [])
            if offsets:
                held += rows_at(batch, change.source, change.partition, offsets, _LATE_DELETE)
            if kept.num_rows:
                changes.append(replace(change, rows=kept))
        counts = decoded.counts + DecodeCounts(with_rows=-len(held), quarantined=len(held))
        return replace(decoded, changes=tuple(changes), quarantine=(*decoded.quarantine, *held), counts=counts)


def _without_deletes(rows: pa.Table) -> tuple[pa.Table, list[int]]:
    """The rows without those of records with a delete, and the offsets of these records."""
    offsets = np.asarray(rows.column(OFFSET_COLUMN))
    found = np.unique(offsets[np.asarray(pc.equal(rows.column(VALUE_KIND), RowKind.DELETE))])
    return rows.filter(pa.array(~np.isin(offsets, found))), found.tolist()
