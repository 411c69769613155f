"""How many rows a snapshot has: by its metadata, and by reading where that does not say it."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.metadata.snapshot import Snapshot
from paimon_table.scan.scan import TableScan
from paimon_table.scan.splits import Split
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class RowCounting:
    """The rows of one snapshot, as far as they are counted without reading data files."""

    scan: TableScan
    known: int
    unknown: tuple[Split, ...]
    """Where versions of a key may meet, or rows may be over."""

    @staticmethod
    def of(table: Table, snapshot: Snapshot | None) -> RowCounting:
        """Begin to count a snapshot: what metadata shows is known, the rest must be read."""
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
        """How many stored rows ``total`` reads, of one column."""
        return sum(file.row_count for split in self.unknown for file in split.files)

    def total(self) -> int:
        """The number of all rows; reads data files where it is unknown."""
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
