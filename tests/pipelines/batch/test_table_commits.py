"""A table's COMPACT does not wait for buckets of other tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from paimon_table import BucketId
from paimon_table.errors import CorruptFile
from paimon_table.metadata.snapshot import CommitKind
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_commit import compact_batch, unfinished_batches
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.exchange import Written
from pipelines.batch.job_result import JobResult, unpacked
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.batch.spark_exchange import jobs_of
from pipelines.batch.table_commits import by_table
from pipelines.report.table_report import all_snapshots
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import CompactTask, Failed, WriteResult, WriteTask
from tests.support.changelog import replay_strictly
from tests.support.events import History, records_of
from tests.support.local_batches import ALL_TABLES, pipeline_tables, task_settings
from tests.support.waiting import seconds

either_order = pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])


def test_a_table_is_given_with_the_last_of_its_buckets() -> None:
    results = [_result(1), _result(0), _failed(1), _result(0), _result(2)]
    taken: list[JobResult] = []

    def one_by_one() -> Iterator[JobResult]:
        for result in results:
            taken.append(result)
            yield result

    given = [(_of(table), len(taken)) for table in by_table([_due(n) for n in (0, 0, 1, 1, 2, 2)], one_by_one())]

    assert given == [([1, 1], 3), ([0, 0], 4), ([2], 5)]


@pytest.mark.parametrize(
    ("rows", "jobs"),
    [
        ({}, []),
        ({0: 5}, [[0]]),
        ({0: 5, 1: 2}, [[1], [0]]),
        ({0: 5, 1: 2, 2: 9, 3: 1}, [[3], [1], [0], [2]]),
        ({0: 5, 1: 2, 2: 9, 3: 1, 4: 3, 5: 0}, [[5, 3, 1], [4], [0], [2]]),
    ],
)
def test_the_heaviest_tables_are_compacted_by_jobs_of_their_own(rows: dict[int, int], jobs: list[list[int]]) -> None:
    due = {_due(table): count for table, count in rows.items()}

    assert [[table for table, _ in job] for job in jobs_of(list(due), due)] == jobs


@pytest.mark.slow
@either_order
def test_a_hot_table_does_not_keep_the_changelog_of_the_others(tmp_path: Path, is_one_job: bool) -> None:
    tables, exchange = _hot_and_cool(tmp_path, is_one_job)
    seen: dict[str, list[CommitKind]] = {}
    appended, both = [CommitKind.APPEND], [CommitKind.APPEND, CommitKind.COMPACT]

    def wait_for_the_others() -> None:
        until = time.monotonic() + seconds(30)
        while list(seen.values()).count(both) < 2 and time.monotonic() < until:
            seen.update(_kinds(tables))

    exchange.before_hot = wait_for_the_others

    assert _processed(tables, tmp_path, exchange)

    assert seen == {"lake.hot": appended, "lake.cool": both, "lake.mild": both}
    assert _kinds(tables) == dict.fromkeys(seen, both), "one COMPACT for each table, whatever its buckets"


@pytest.mark.slow
@either_order
def test_a_stop_between_two_tables_leaves_each_batch_once_in_both(tmp_path: Path, is_one_job: bool) -> None:
    tables, exchange = _hot_and_cool(tmp_path, is_one_job)

    def die() -> None:
        raise KeyboardInterrupt

    exchange.before_hot = die
    with pytest.raises(KeyboardInterrupt):
        _processed(tables, tmp_path, exchange)
    restarted = PipelineTables(tables.config, tables.commit_user)
    left = unfinished_batches(restarted, 0, lambda _: None)
    for batch in left:
        compact_batch(batch, restarted, task_settings(tmp_path), lambda task, due: task(due))

    assert [{batch.identifiers[index] for index, _ in batch.due} for batch in left] == [{"lake.hot"}]
    assert set(map(tuple, _kinds(restarted).values())) == {(CommitKind.APPEND, CommitKind.COMPACT)}
    for name, sink in restarted.sinks.items():
        rows = {(row["id"],): row for row in sink.table.to_arrow().to_pylist()}
        assert replay_strictly([rows for _, rows in sink.table.changes()], ["id"]) == rows, name


class _Watched(LocalExchange):
    """Calls ``before_hot`` when all other tables are compacted and the first bucket of the hot one is as well."""

    before_hot: Callable[[], None] = staticmethod(lambda: None)

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        written = super().write(task, in_one_task=in_one_task)
        return replace(written, compacted=lambda: map(partial(self._seen, task), written.compacted()))

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterator[bytes]:
        hot_last = sorted(due, key=lambda each: task.write.targets[each[0]].identifier == "lake.hot")
        for row in super().compact(task, hot_last):
            self._seen(task.write, unpacked(row))
            yield row

    def _seen(self, task: WriteTask, result: JobResult) -> JobResult:
        if any(task.targets[write.target].identifier == "lake.hot" for write in result.writes):
            self.before_hot()
        return result


def _hot_and_cool(directory: Path, is_one_job: bool) -> tuple[PipelineTables, _Watched]:
    tables = pipeline_tables(directory, ALL_TABLES, **{"bucket": "2", "changelog-producer": "lookup"})
    sizes = {"hot": 400, "cool": 20, "mild": 60}
    histories = [History(name, seed=1).extend(changes) for name, changes in sizes.items()]
    return tables, _Watched([records_of(history) for history in histories], is_one_job=is_one_job)


def _processed(tables: PipelineTables, directory: Path, exchange: LocalExchange) -> list[BatchReport]:
    reports: list[BatchReport] = []
    compactions = Compactions()
    process_batch(BatchRun(0), tables, task_settings(directory, slots=1), exchange, compactions, reports.append)
    compactions.wait()
    return reports


def _kinds(tables: PipelineTables) -> dict[str, list[CommitKind]]:
    return {
        name: [snapshot.commit_kind for snapshot in all_snapshots(sink.table)] for name, sink in tables.sinks.items()
    }


def _due(target: int) -> tuple[int, BucketId]:
    return target, BucketId(b"", 0)


def _result(target: int) -> JobResult:
    return JobResult(writes=[WriteResult(target, (), 0, {})])


def _failed(target: int) -> JobResult:
    return JobResult(failures=[Failed(CorruptFile("a file is gone"), target)])


def _of(result: JobResult) -> list[int]:
    return [write.target for write in result.writes] + [failed.target for failed in result.failures]
