"""Run a pipeline's batches in this process, through the exchange without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from paimon_table.storage.file_io import LocalFileIO
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.config.config import PipelineConfig
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import Decoder
from sources.dumps.dump_records import record_batches_from_dump

ALL_TABLES: list[dict[str, object]] = [{"match": {"schema": "public", "table": "(.*)"}, "into": "lake.{table}"}]
"""The rule that takes every source table of the schema public."""
RecordsOfBatch: TypeAlias = pa.RecordBatch | Sequence[pa.RecordBatch]
"""The records of a batch, decoded by one task, or those of each task."""

SHOP_TYPES = {
    "customers": {"credit": "DECIMAL(12, 2)", "created_at": "TIMESTAMP_LTZ(6)"},
    "orders": {"total": "DECIMAL(10, 2)", "placed_at": "TIMESTAMP_LTZ(6)", "updated_at": "TIMESTAMP_LTZ(6)"},
    "order_items": {"unit_price": "DECIMAL(10, 2)"},
}


def shop_rules() -> list[dict[str, object]]:
    """Rules for the tables of the captured shop, with the types that records without schema do not tell."""
    return [
        {"match": {"table": name}, "into": f"lake.{name}", "columns": {"types": types}}
        for name, types in SHOP_TYPES.items()
    ]


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
    batches: Iterable[RecordsOfBatch],
    directory: Path,
    first_batch_id: int = 0,
    decoder: Decoder | None = None,
) -> tuple[Quarantine, list[BatchReport]]:
    """``run_batches``, with what each batch reports."""
    quarantine = Quarantine(LocalFileIO(), str(directory / "quarantine"))
    return quarantine, processed(tables, batches, task_settings(directory, quarantine, decoder), first_batch_id)


def processed(
    tables: PipelineTables,
    batches: Iterable[RecordsOfBatch],
    settings: TaskSettings,
    first_batch_id: int = 0,
    *,
    is_one_job: bool = False,
) -> list[BatchReport]:
    """What the batches report."""
    reports: list[BatchReport] = []
    compactions = Compactions()
    for batch_id, records in enumerate(batches, first_batch_id):
        of_tasks = [records] if isinstance(records, pa.RecordBatch) else records
        exchange = LocalExchange(of_tasks, is_one_job=is_one_job)
        process_batch(BatchRun(batch_id), tables, settings, exchange, compactions, reports.append)
    compactions.wait()
    return reports


def task_settings(
    directory: Path, quarantine: Quarantine | None = None, decoder: Decoder | None = None, slots: int = 2
) -> TaskSettings:
    """Settings of tasks that keep their files below ``directory``; without a quarantine a bad record stops."""
    return TaskSettings(decoder or DebeziumJsonDecoder(), slots, str(directory / "lookup"), quarantine)


def dump_batches(path: Path, max_records: int) -> Iterator[pa.RecordBatch]:
    """The records of a dump file in slices."""
    for batch in record_batches_from_dump(str(path)):
        for start in range(0, batch.num_rows, max_records):
            yield batch.slice(start, max_records)


def pipeline_tables(directory: Path, tables: list[dict[str, object]], **options: str) -> PipelineTables:
    """A pipeline named shop with these table rules, and its tables below ``directory``."""
    return PipelineTables(shop_config(directory, tables, {"bucket": "2", **options}), "tidemark-shop-test")


def shop_config(
    directory: Path, tables: Sequence[dict[str, object]], options: Mapping[str, str], **keys: object
) -> PipelineConfig:
    """The configuration of a pipeline named shop that reads files; ``options`` are its defaults."""
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": str(directory)}, "format": "debezium-json"},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": str(directory / "warehouse")},
            "defaults": {"options": dict(options)},
            "tables": list(tables),
            **keys,
        }
    )
