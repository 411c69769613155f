"""After a restart the first batch of a known table is decoded once: its snapshots tell what feeds it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from paimon_table.storage.file_io import LocalFileIO
from pipelines.batch.plan import BatchRun, TaskSettings, plan_batch
from pipelines.tables.tables import MOST_TAKEN_UP, PipelineTables
from sinks.quarantine import Quarantine
from sources.debezium_json.decoder import DebeziumJsonDecoder
from tests.support.events import History, records_of
from tests.support.local_batches import pipeline_tables, run_batches, run_tasks

RULES: list[dict[str, object]] = [{"match": {"table": ".*"}, "into": "lake.{table}"}]


def restarted(directory: Path, rules: list[dict[str, object]]) -> PipelineTables:
    return pipeline_tables(directory, rules, **{"changelog-producer": "lookup"})


def is_decoded_again(tables: PipelineTables, records: pa.RecordBatch, directory: Path) -> bool:
    """Whether the first run of a batch shows something that the tables did not know."""
    quarantine = Quarantine(LocalFileIO(), str(directory / "quarantine"))
    settings = TaskSettings(DebeziumJsonDecoder(), 1, str(directory / "lookup"), quarantine)
    result = run_tasks(records, plan_batch(tables, BatchRun(1), settings))
    return tables.apply(o for r in result.reports for o in r.observations)


def test_the_first_batch_of_a_known_table_is_decoded_once(tmp_path: Path) -> None:
    history = History("orders", seed=3).extend(50)
    run_batches(restarted(tmp_path, RULES), [records_of(history)], tmp_path)

    tables = restarted(tmp_path, RULES)

    assert list(tables.sinks) == ["lake.orders"]
    assert not is_decoded_again(tables, records_of(history.extend(20)).slice(50), tmp_path)


def test_a_table_that_the_rules_lead_elsewhere_is_not_taken_up(tmp_path: Path) -> None:
    run_batches(restarted(tmp_path, RULES), [records_of(History("orders", seed=3).extend(50))], tmp_path)

    tables = restarted(tmp_path, [{"match": {"table": ".*"}, "into": "lake.new_{table}"}])

    assert not tables.sinks and not tables.routes


def test_a_new_checkpoint_learns_its_sources_from_events(tmp_path: Path) -> None:
    run_batches(restarted(tmp_path, RULES), [records_of(History("orders", seed=3).extend(50))], tmp_path)

    tables = PipelineTables(restarted(tmp_path, RULES).config, "tidemark-shop-other")

    assert not tables.routes


def test_of_many_tables_a_few_are_opened_at_the_start(tmp_path: Path) -> None:
    histories = [History(f"t{number}", seed=number).extend(2) for number in range(MOST_TAKEN_UP + 3)]
    run_batches(restarted(tmp_path, RULES), [records_of(history) for history in histories], tmp_path)

    assert len(restarted(tmp_path, RULES).sinks) == MOST_TAKEN_UP
