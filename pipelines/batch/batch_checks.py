"""Checks of a batch before any commit: all records are accounted for, and no policy demands to stop.

Every record ends in a table, in quarantine or in a counted skip.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC

from paimon_table.errors import BrokenInvariant, MalformedRecord, SchemaChangeRefused
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.error_budgets import exceeded_budgets
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.tables.observed_columns import Seen, merged
from pipelines.tables.table_failure import KeyChanged, NewKey, TableFailure
from pipelines.tables.tables import PipelineTables
from sources.changes import DecodeCounts, Refusal
from sources.decode_target import DecodeTarget


def counted(reports: Iterable[DecodeReport]) -> DecodeCounts:
    """The records of all tasks by outcome."""
    return sum((report.counts for report in reports), DecodeCounts())


def check_accounted(batch_id: int, reports: Iterable[DecodeReport]) -> None:
    """Raise BrokenInvariant if a task read a record without a result.

    The two sides are counted separately: records by the input from Spark, results by change rows, the quarantine and
    counted skips.
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
            f" {report.record_count - counts.accounted}{_unknown(counts)}; nothing of the batch was committed. Please"
            f" report this with the records of {places}"
        )


def _unknown(counts: DecodeCounts) -> str:
    return f" ({counts.unknown_tables} belong to source tables without a route)" if counts.unknown_tables else ""


def keep_budgets(batch: BatchRun, reports: Sequence[DecodeReport], tables: PipelineTables) -> None:
    """Raise TooManyBadRecords for a table; the quarantine has no record of the batch yet."""
    exceeded = exceeded_budgets(batch.id, reports, tables)
    if exceeded:
        first = exceeded[0]
        raise TableFailure(first.table, first) if first.table else first


def stop_on_refusals(reports: Iterable[DecodeReport], settings: TaskSettings, tables: PipelineTables) -> None:
    """Raise the error that a policy demands for a record of the batch, before any commit."""
    reports = list(reports)
    _follow_key(reports, tables)
    for report in reports:
        for refusal in report.refusals:
            place = f"{refusal.source.topic} partition {refusal.partition} offset {refusal.offset}"
            identifier = tables.routes.get(refusal.source)
            remedy = ""
            if identifier is not None and tables.config.source.kafka is not None:
                remedy = rebuild_remedy(refusal, identifier, tables.topics_of(identifier))
            error = SchemaChangeRefused(f"{place}: {refusal.reason}{remedy}")
            # The reason of a truncate has no values.
            is_truncate = refusal.rebuilt_from is not None
            error.without_values(f"{place}: {refusal.reason if is_truncate else error.public_text}")
            raise error if identifier is None else TableFailure(identifier, error)
        bad = report.first_quarantined
        if bad is not None and (settings.quarantine is None or not settings.quarantine.takes_bad):
            # If a line of a dump is not a record, the reason has its place in the file.
            has_place = bad.partition >= 0
            place = f"{bad.topic} partition {bad.partition} offset {bad.offset}" if has_place else "a dump file"
            told = f"{place}: {bad.reason}" if has_place else bad.reason
            raise MalformedRecord(f"{told}; fix the record, or set `on_bad_record: quarantine`", place=place)


def _follow_key(reports: Sequence[DecodeReport], tables: PipelineTables) -> None:
    """Raise KeyChanged for the first record of a partition with another key, if a new table is to continue with it.

    Other refusals wait: if they come after that record, they are about the new table.
    """
    refusals = [refusal for report in reports for refusal in report.refusals if refusal.key]
    if not refusals:
        return
    first = min(refusals, key=lambda one: (one.source.topic, one.partition, one.offset))
    shown = (o for report in reports for o in report.observations if o.source == first.source)
    seen = merged(o for o in shown if o.key_columns is not None and {*o.key_columns} == {*first.key})
    identifier, goal = tables.routes[first.source], tables.decode_targets()[first.source]
    assert identifier is not None and isinstance(goal, DecodeTarget)
    place = first.source.topic, first.partition
    shows = replace(seen.get(first.source, Seen({}, None)), key_columns=first.key)
    change = NewKey(first.source, place, first.offset, first.timestamp_ms, goal.primary_key, shows)
    text = f"{place[0]} partition {place[1]} offset {first.offset}: {first.reason}"
    raise TableFailure(identifier, KeyChanged.of(text, change).without_values())


def rebuild_remedy(refusal: Refusal, identifier: str, topics: Collection[str]) -> str:
    """The remedy, to append to the reason; empty if the table cannot be rebuilt from the records after this one.

    Offsets order records within one partition only. In the other partitions of the topic, the rebuild starts at the
    time of the record. It includes records of that time: an extra row is easier to see than a missing one. ``topics``
    feed the table. The rebuild reads the topics other than the record's from their beginning, because nothing was
    removed from their source tables.
    """
    if refusal.rebuilt_from is None:
        return ""
    time = refusal.rebuilt_from.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    topic = refusal.source.topic
    begin = {
        topic: {str(refusal.partition): refusal.offset + 1, "*": time},
        **{other: {"*": "earliest"} for other in sorted({*topics} - {topic})},
    }
    return (
        ". To remove the rows from the Paimon table too, rebuild it from the records after this one:"
        f" `tidemark replay FILE --table {identifier} --rebuild --from '{json.dumps(begin)}' --allow-missing`"
    )
