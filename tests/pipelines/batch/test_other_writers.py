"""Others write or change a table between the plan of a batch and its APPEND: the batch is done again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import pipelines.batch.attempts as attempts
from paimon_table.errors import CommitConflict
from paimon_table.maintenance.compaction import compact
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.orphans import find_orphans
from paimon_table.maintenance.partitions import drop_partitions
from paimon_table.patience import Patience
from paimon_table.write.bucket_writer import WriterEnvironment
from sinks import faults
from tests.support.changelog import replay_strictly
from tests.support.local_batches import pipeline_tables, processed, task_settings
from tests.support.moving_rows import moving_tables, records, rows_of, stored
from tests.support.table_driver import TableDriver

FIRST = records([("c", None, {"id": 1, "dt": "a", "body": "one"}), ("c", None, {"id": 9, "dt": "c", "body": "nine"})])
SECOND = records([("c", None, {"id": 2, "dt": "b", "body": "from here"})], 2)


@pytest.fixture
def at_append(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Does something whenever batch 1 is about to append."""
    monkeypatch.setattr(attempts, "OTHERS", Patience(0, 0, retries=2))

    def at_append(action: Callable[[], object]) -> None:
        monkeypatch.setattr(faults, "reached", lambda step, batch: step == "after-write" and batch == 1 and action())

    return at_append


def once(action: Callable[[], object]) -> Callable[[], object]:
    left = [action]
    return lambda: left and left.pop()()


@pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
def test_a_key_that_another_job_adds_elsewhere_moves(
    tmp_path: Path, at_append: Callable[[Callable[[], object]], None], is_one_job: bool
) -> None:
    tables = moving_tables(tmp_path)
    processed(tables, [FIRST], task_settings(tmp_path))
    other = TableDriver(stored(tmp_path), tmp_path / "other", "other")
    at_append(once(lambda: other.commit([["+I", 2, "a", "from another"]])))

    processed(tables, [SECOND], task_settings(tmp_path), 1, is_one_job=is_one_job)

    assert [(row["id"], row["dt"], row["body"]) for row in rows_of(stored(tmp_path))] == [
        (1, "a", "one"), (2, "b", "from here"), (9, "c", "nine"),
    ]  # fmt: skip
    files = {path.name for path in Path(stored(tmp_path).paths.root).glob("dt=*/*/data-*")}
    assert len(files) == sum(len(of_bucket) for of_bucket in stored(tmp_path).state().files.values())


def test_a_job_that_is_always_faster_ends_the_batch_with_a_clear_text(
    tmp_path: Path, at_append: Callable[[Callable[[], object]], None]
) -> None:
    tables = moving_tables(tmp_path)
    processed(tables, [FIRST], task_settings(tmp_path))
    other = TableDriver(stored(tmp_path), tmp_path / "other", "other")
    at_append(lambda: other.commit([["+I", 3, "a", "from another"]]))

    with pytest.raises(CommitConflict, match=r"of user other was committed .* another job writes this table"):
        processed(tables, [SECOND], task_settings(tmp_path), 1)

    assert [row["id"] for row in rows_of(stored(tmp_path))] == [1, 3, 9]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=["changelog", "vectors"])
def test_a_batch_whose_compaction_meets_another_one_is_compacted_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
) -> None:
    """Without that nobody would see its rows, or their changes, until the next batch."""
    caplog.set_level(logging.INFO)
    rule: dict[str, object] = {"match": {"table": "t"}, "into": "lake.t", "columns": {"types": {"id": "BIGINT"}}}
    tables = pipeline_tables(tmp_path, [rule], **{"bucket": "1", "changelog-producer": "lookup", **options})
    job = Job(WriterEnvironment(str(tmp_path / "job")))

    def reached(step: str, batch: int) -> None:
        if step == "after-write" and batch > 1:
            compact(stored(tmp_path), job, lambda _: True, fully=True)

    monkeypatch.setattr(faults, "reached", reached)
    expected: dict[int, str] = {}
    for batch in range(8):
        rows = [{"id": key, "dt": "a", "body": f"{batch}"} for key in (1, batch + 2)]
        updates = records([("u", None, row) for row in rows], 2 * batch)
        processed(tables, [updates], task_settings(tmp_path), batch)
        expected |= {1: f"{batch}", batch + 2: f"{batch}"}
        table = stored(tmp_path)
        changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
        assert {row["id"]: row["body"] for row in rows_of(table)} == expected
        assert {row["id"]: row["body"] for row in changes.values()} == expected
    assert "another job has compacted lake.t too; compacted again" in caplog.text
    assert not find_orphans(table, job, older_than_ms=-60_000).files


def test_a_partition_of_dynamic_buckets_is_dropped_meanwhile(
    tmp_path: Path, at_append: Callable[[Callable[[], object]], None]
) -> None:
    rule: dict[str, object] = {
        "match": {"table": "t"}, "into": "lake.t", "partition_by": ["dt"], "primary_key": ["id", "dt"],
        "columns": {"types": {"id": "BIGINT", "dt": "STRING", "body": "STRING"}},
    }  # fmt: skip
    tables = pipeline_tables(tmp_path, [rule], bucket="-1")
    processed(tables, [FIRST], task_settings(tmp_path))
    partition = next(b.partition for b in stored(tmp_path).state().files if b"a" in b.partition)
    job = Job(WriterEnvironment(str(tmp_path / "job")))
    at_append(once(lambda: drop_partitions(stored(tmp_path), [partition], job)))

    again = records([("c", None, {"id": 2, "dt": "a", "body": "two"})], 2)
    processed(tables, [again], task_settings(tmp_path), 1)

    assert [row["id"] for row in rows_of(stored(tmp_path))] == [2, 9]
