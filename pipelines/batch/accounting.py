"""Every record of a batch ends in a table, in quarantine or in a counted skip: checked before anything is committed."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table.errors import BrokenInvariant
from pipelines.batch.decode_task import DecodeReport
from sources.changes import DecodeCounts


def counted(reports: Iterable[DecodeReport]) -> DecodeCounts:
    """What became of the records of all tasks."""
    return sum((report.counts for report in reports), DecodeCounts())


def check_accounted(batch_id: int, reports: Iterable[DecodeReport]) -> None:
    """Raise BrokenInvariant if a task read a record of which nothing became.

    The sides are counted apart: what was read by the records that Spark gave, what became of it by the change rows, the
    quarantine and the places that skip records.
    """
    for report in reports:
        counts = report.counts
        if report.record_count == counts.accounted:
            continue
        places = ", ".join(
            f"{topic} partition {partition} up to offset {end - 1}"
            for (topic, partition), end in sorted(report.ends.items())
        )
        raise BrokenInvariant(
            f"batch {batch_id}: of {report.record_count} records, {counts.with_rows} gave rows, {counts.quarantined}"
            f" went to quarantine and {sum(counts.skipped.values())} were skipped, which leaves"
            f" {report.record_count - counts.accounted}{_unknown(counts)}; nothing of the batch was committed; please"
            f" report this with the records of {places}"
        )


def _unknown(counts: DecodeCounts) -> str:
    return f" ({counts.unknown_tables} are of source tables that have no route)" if counts.unknown_tables else ""
