"""Counts the rows of a snapshot: by its metadata, and by reading files if the metadata is not enough."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.metadata.snapshot import Snapshot
from paimon_table.scan.scan import TableScan
from paimon_table.scan.splits import Split
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class RowCounting:
    """The rows of one snapshot that are counted without reading data files, and the rest."""

    scan: TableScan
    known: int
    unknown: tuple[Split, ...]
    """The splits in which a key may have several versions, or rows may have expired."""

    @staticmethod
    def of(table: Table, snapshot: Snapshot | None) -> RowCounting:
        """Begin to count a snapshot, by its metadata."""
        ctx = table.context
        first = (ctx.schema.primary_keys or ctx.schema.column_names)[0]
        scan, known, unknown = TableScan.make(ctx, [first]), 0, list[Split]()
        for split in scan.plan(snapshot):
            count = None if ctx.options.record_expire_time_ms is not None else _of_metadata(split)
            if count is None:
                unknown.append(split)
            else:
                known += count
        return RowCounting(scan, known, tuple(unknown))

    @property
    def to_read(self) -> int:
        """The number of stored rows that ``total`` reads, of one column."""
        return sum(file.row_count for split in self.unknown for file in split.files)

    def total(self) -> int:
        """The number of all rows; reads data files if metadata does not show it."""
        read: int = sum(rows.num_rows for split in self.unknown for rows in self.scan.read(split))
        return self.known + read


def _of_metadata(split: Split) -> int | None:
    runs = [run for section in split.sections for run in section]
    is_plain = len(runs) == len(split.sections) and not any(file.delete_row_count for file in split.files)
    gone = [r.cardinality for index in split.deletion_files for r in index.vector_ranges or ()]
    known: list[int] = [count for count in gone if count is not None]
    if not is_plain or len(known) != len(gone):
        return None
    stored: int = sum(file.row_count for file in split.files)
    return stored - sum(known)
