"""Run a pipeline's batches in this process, with the tasks as plain functions: the same code without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from paimon_table.storage.file_io import LocalFileIO
from pipelines.batch.batch import stop_on_refusals
from pipelines.batch.batch_commit import AppendedBatch, append, compact_batch
from pipelines.batch.batch_report import BatchReport, Stopwatch
from pipelines.batch.job_result import JobResult, unpack
from pipelines.batch.plan import BatchPlan, BatchRun, TaskSettings, plan_batch
from pipelines.config.config import PipelineConfig
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import Decoder
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.dumps.dump_records import record_batches_from_dump

ALL_TABLES: list[dict[str, object]] = [{"match": {"schema": "public", "table": "(.*)"}, "into": "lake.{table}"}]
"""The rule that takes every source table of the schema public."""


def run_batches(
    tables: PipelineTables,
    batches: Iterable[pa.RecordBatch],
    directory: Path,
    first_batch_id: int = 0,
    decoder: Decoder | None = None,
) -> Quarantine:
    """Bring each Arrow batch in as one micro-batch; returns the quarantine that they used."""
    return reported_batches(tables, batches, directory, first_batch_id, decoder)[0]


def reported_batches(
    tables: PipelineTables,
    batches: Iterable[pa.RecordBatch],
    directory: Path,
    first_batch_id: int = 0,
    decoder: Decoder | None = None,
) -> tuple[Quarantine, list[BatchReport]]:
    """``run_batches``, with what each batch reports."""
    quarantine = Quarantine(LocalFileIO(), str(directory / "quarantine"))
    settings = TaskSettings(decoder or DebeziumJsonDecoder(), 1, str(directory / "lookup"), quarantine)
    reports = []
    for batch_id, records in enumerate(batches, first_batch_id):
        appended = appended_batch(tables, records, settings, batch_id)
        compact = compact_batch(appended, tables, settings, lambda task, buckets: list(task(buckets)), JobResult())
        reports.append(compact)
    return quarantine, reports


def appended_batch(
    tables: PipelineTables, records: pa.RecordBatch, settings: TaskSettings, batch_id: int
) -> AppendedBatch:
    """One micro-batch up to its APPEND snapshots: the tables follow what it shows, then its rows are in them."""
    run = BatchRun(batch_id)
    while True:
        if settings.quarantine is not None:
            settings.quarantine.clear(batch_id)
        plan = plan_batch(tables, run, settings)
        result = run_tasks(records, plan)
        stop_on_refusals(result, settings)
        if not tables.apply(o for r in result.reports for o in r.observations):
            return append(plan, result, tables, Stopwatch(), result.needing_compaction)


def run_tasks(records: pa.RecordBatch, plan: BatchPlan) -> JobResult:
    """Decode in one task, write in another."""

    def rows() -> Iterator[bytes]:
        for out in plan.write(plan.decode([records])):
            yield from out.column("data").to_pylist()

    result = unpack(rows())
    for failure in result.failures:
        raise failure
    return result


def dump_batches(path: Path, max_records: int) -> Iterator[pa.RecordBatch]:
    """The records of a dump file in slices."""
    for batch in record_batches_from_dump(str(path)):
        for start in range(0, batch.num_rows, max_records):
            yield batch.slice(start, max_records)


def pipeline_tables(directory: Path, tables: list[dict[str, object]], **options: str) -> PipelineTables:
    """A pipeline named shop with these table rules, and its tables below ``directory``."""
    config = PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": str(directory)}, "format": "debezium-json"},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": str(directory / "warehouse")},
            "defaults": {"options": {"bucket": "2", **options}},
            "tables": tables,
        }
    )
    return PipelineTables(config, "tidemark-shop-test")
