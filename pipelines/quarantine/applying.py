"""Applying a slice of a retry through the code of the stream's batches, in this process and without Spark."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_table import CLOCK_SKEW_MS, TableName
from paimon_table.errors import TidemarkError
from paimon_table.storage.private_directory import process_directory
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.checkpoint.document import known_fields
from pipelines.config.config import PipelineConfig
from pipelines.quarantine.older_records import WithoutLateDeletes, refusal
from pipelines.quarantine.slices import Slice, Slices
from pipelines.storage import quarantine_of
from pipelines.tables.beside_stream import BesideStream
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.table_failure import TableFailure
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import RETRY_EDITED_PROPERTY, RETRY_PROPERTY
from sinks.quarantine import Quarantine


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the records of a slice."""

    records: int = 0
    with_rows: int = 0
    failed: int = 0
    """In quarantine again."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Records that give nothing on purpose, by a word for why."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Of those that failed, by kind of reason."""

    def plus(self, other: Applied) -> Applied:
        """Both together."""
        return Applied(
            self.records + other.records,
            self.with_rows + other.with_rows,
            self.failed + other.failed,
            dict(Counter(self.skipped) + Counter(other.skipped)),
            dict(Counter(self.reasons) + Counter(other.reasons)),
        )

    @staticmethod
    def of(report: BatchReport) -> Applied:
        counts = report.counts
        reasons = dict(report.quarantined_reasons)
        return Applied(report.record_count, counts.with_rows, counts.quarantined, counts.skipped, reasons)

    @staticmethod
    def from_details(details: Mapping[str, Any]) -> Applied:
        return Applied(**known_fields(Applied, details))


def commit_user_of(config: PipelineConfig, slice_: Slice) -> str:
    """Who commits the slices of a retry."""
    return f"{slice_.retry}-{config.name}"


def apply(config: PipelineConfig, own: OwnTables, slice_: Slice) -> Applied:
    """Bring the records of a slice into the tables, exactly once; those that fail again stay in the quarantine.

    While this runs no batch of the pipeline may. Called again for the same slice it finds what it has done.
    """
    io, path = quarantine_of(config)
    recorded = {RETRY_PROPERTY: config.name, **({RETRY_EDITED_PROPERTY: "true"} if slice_.is_edited else {})}
    check = (lambda _name, _table: None) if slice_.even_if_older else refusal
    beside = BesideStream(lambda _: recorded, check, after=slice_.after)
    tables = PipelineTables(config, commit_user_of(config, slice_), own, beside=beside)
    decoder = config.source.format.decoder
    settings = TaskSettings(
        decoder if slice_.even_if_older else WithoutLateDeletes(decoder),
        1,
        process_directory(tempfile.gettempdir()),
        Quarantine(io, f"{path}/{slice_.retry}"),
    )
    reports: list[BatchReport] = []
    compactions = Compactions()
    exchange = LocalExchange([Slices(io, path).records(slice_)])
    run = BatchRun(slice_.number, slice_.started_ms)
    try:
        process_batch(run, tables, settings, exchange, compactions, reports.append)
        compactions.wait()
    except TableFailure as failure:
        raise failure.error from failure
    return Applied.of(reports[0])


def is_begun(config: PipelineConfig, own: OwnTables, slice_: Slice) -> bool:
    """Whether some table has rows of the slice, or may have them: snapshots have expired since."""
    user = commit_user_of(config, slice_)
    return any(_is_written(own, name, user, slice_) for name in own.names())


def _is_written(own: OwnTables, name: TableName, user: str, slice_: Slice) -> bool:
    try:
        snapshots = own.catalog.files(name).snapshots
        since_ms = slice_.started_ms - CLOCK_SKEW_MS
        found = snapshots.search_user(user, snapshots.latest_id(), slice_.after.get(str(name), 0), since_ms)
    except (TidemarkError, OSError):
        return True  # who cannot look does not give the slice up
    newest = found.newest
    return not found.exhaustive or (newest is not None and newest.commit_identifier >= slice_.number)
