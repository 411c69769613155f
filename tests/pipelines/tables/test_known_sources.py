"""After a restart the first batch of a known table is decoded once: its snapshots tell what feeds it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.batch.batch import process_batch
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.tables.earlier_tables import MOST_TAKEN_UP
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import WriteTask
from tests.support.events import History, records_of
from tests.support.local_batches import pipeline_tables, run_batches, task_settings

RULES: list[dict[str, object]] = [{"match": {"table": ".*"}, "into": "lake.{table}"}]


def restarted(directory: Path, rules: list[dict[str, object]]) -> PipelineTables:
    return pipeline_tables(directory, rules, **{"changelog-producer": "lookup"})


class CountedExchange(LocalExchange):
    """Counts how often its batch is decoded."""

    decode_count = 0

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        self.decode_count += 1
        return super().decode(decode, write)


def decode_count(tables: PipelineTables, records: pa.RecordBatch, directory: Path) -> int:
    exchange, compactions = CountedExchange([records]), Compactions()
    process_batch(BatchRun(1), tables, task_settings(directory), exchange, compactions, lambda _: None)
    compactions.wait()
    return exchange.decode_count


def test_the_first_batch_of_a_known_table_is_decoded_once(tmp_path: Path) -> None:
    history = History("orders", seed=3).extend(50)
    run_batches(restarted(tmp_path, RULES), [records_of(history)], tmp_path)

    tables = restarted(tmp_path, RULES)

    assert list(tables.sinks) == ["lake.orders"]
    assert decode_count(tables, records_of(history.extend(20)).slice(50), tmp_path) == 1


def test_a_table_that_the_rules_lead_elsewhere_is_not_taken_up(tmp_path: Path) -> None:
    run_batches(restarted(tmp_path, RULES), [records_of(History("orders", seed=3).extend(50))], tmp_path)

    tables = restarted(tmp_path, [{"match": {"table": ".*"}, "into": "lake.new_{table}"}])

    assert not tables.sinks and not tables.routes


def test_a_new_checkpoint_learns_its_sources_from_events(tmp_path: Path) -> None:
    run_batches(restarted(tmp_path, RULES), [records_of(History("orders", seed=3).extend(50))], tmp_path)

    tables = PipelineTables(restarted(tmp_path, RULES).config, "tidemark-shop-other")

    assert not tables.routes


@pytest.mark.slow
def test_of_many_tables_a_few_are_opened_at_the_start(tmp_path: Path) -> None:
    histories = [History(f"t{number}", seed=number).extend(2) for number in range(MOST_TAKEN_UP + 3)]
    run_batches(restarted(tmp_path, RULES), [records_of(history) for history in histories], tmp_path)

    assert len(restarted(tmp_path, RULES).sinks) == MOST_TAKEN_UP
