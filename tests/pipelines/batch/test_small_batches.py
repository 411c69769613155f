"""Batches in the driver: which ones, and that tables do not show where a batch ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table import BucketId
from pipelines.batch import small_batches
from pipelines.batch.batch import process_batch
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.batch.small_batches import MOST_WORK, WORK_VARIABLE, SmallBatchExchange, is_small
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import CompactTask
from sources.upsert_json.decoder import UpsertJsonDecoder
from tests.support.changelog import replay_strictly
from tests.support.local_batches import pipeline_tables, task_settings
from tests.support.row_records import rows_of
from tests.support.source_content import open_table

ORDERS: dict[str, object] = {"match": {"table": "orders"}, "into": "lake.orders"}


class Tasks(LocalExchange):
    """The tasks of a session, with the buckets that they compact."""

    def __init__(self, records: Sequence[pa.RecordBatch]) -> None:
        super().__init__(records)
        self.compacted: list[BucketId] = []

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        self.compacted += [bucket for _, bucket in due]
        return super().compact(task, due)


@pytest.mark.parametrize(
    ("buckets", "records", "small"),
    [(2, MOST_WORK - 2000, True), (2, MOST_WORK - 1999, False), (16, 9, True), (16, 10, False), (-1, 9000, True)],
)
def test_records_and_buckets_make_the_work_of_a_batch(tmp_path: Path, buckets: int, records: int, small: bool) -> None:
    tables = pipeline_tables(tmp_path, [ORDERS], bucket=str(buckets))
    _process(tables, tmp_path, [rows_of(({"id": 1}, {"id": 1, "v": 0}))], [True])

    assert is_small(records, tables) is small


def test_the_environment_can_leave_every_batch_to_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = pipeline_tables(tmp_path, [ORDERS])
    assert is_small(0, tables)
    monkeypatch.setenv(WORK_VARIABLE, "0")
    assert not is_small(0, tables)


@pytest.mark.parametrize("most_bytes", [0, 32 << 20])
def test_tables_do_not_show_where_a_batch_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    """Batches here and in tasks take turns; with 0 bytes every compaction is left to tasks."""
    monkeypatch.setattr(small_batches, "MOST_COMPACTED_BYTES", most_bytes)
    batches = [
        rows_of(*(({"id": key}, {"id": key, "v": number * 100 + key}) for key in range(number, number + 7)))
        for number in range(6)
    ]
    tables = pipeline_tables(tmp_path, [ORDERS], **{"changelog-producer": "lookup"})

    tasks = _process(tables, tmp_path, batches, [True, True, False, True, False, True])

    table = open_table(tables, "orders")
    wanted = {key: max(n for n in range(6) if n <= key < n + 7) * 100 + key for key in range(12)}
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == wanted
    changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
    assert {key[0]: row["v"] for key, row in changes.items()} == wanted
    assert [len(one.compacted) > 0 for one in tasks] == [most_bytes == 0 and here for here in (1, 1, 0, 1, 0, 1)]


def _process(
    tables: PipelineTables, directory: Path, batches: Sequence[pa.RecordBatch], here: Sequence[bool]
) -> list[Tasks]:
    """The tasks of each batch, used or not."""
    settings, compactions = task_settings(directory, decoder=UpsertJsonDecoder()), Compactions()
    tasks = [Tasks([records]) for records in batches]
    for number, (records, is_here) in enumerate(zip(batches, here, strict=True)):
        read = partial(_given, [records] if is_here else None)
        exchange = SmallBatchExchange(read, tasks[number])
        process_batch(BatchRun(number), tables, settings, exchange, compactions, lambda _: None)
    compactions.wait()
    return tasks


def _given(records: list[pa.RecordBatch] | None) -> list[pa.RecordBatch] | None:
    return records
