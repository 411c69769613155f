"""A table gets another number of buckets while its pipeline runs: at every step of a batch, and before a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.maintenance.rescale import rescale
from paimon_table.patience import Patience
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import WriterEnvironment
from pipelines.batch import attempts
from pipelines.replay.rebuild_rules import changed_options
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.known_positions import KnownPositions
from tests.support.changelog import replay_strictly
from tests.support.events import History
from tests.support.history_tables import batches, content, opened
from tests.support.local_batches import ALL_TABLES, pipeline_tables, processed, task_settings

STEPS = ("before-decode", "after-decode", "between-data-files", "after-write", "before-append", "after-append",
         "between-compactions", "before-compact", "after-compact")  # fmt: skip


def to_buckets(tmp_path: Path, count: int, name: str = "orders") -> None:
    rescale(opened(tmp_path, name), count, Job(WriterEnvironment(str(tmp_path / "job"))))


class AtStep:
    """Does something once, at a step of batch 1."""

    def __init__(self, step: str, action: Callable[[], None]) -> None:
        self.step, self.action = step, action
        self.is_done = False

    def __call__(self, point: str, batch_id: int) -> None:
        if point == self.step and batch_id == 1 and not self.is_done:
            self.is_done = True
            self.action()


@pytest.mark.slow
@pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("step", STEPS)
def test_a_running_pipeline_goes_on_with_the_new_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, producer: str, is_one_job: bool
) -> None:
    history = History("orders", seed=5, keys=60).extend(170)
    parts = batches(history)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": producer})
    at_step = AtStep(step, lambda: to_buckets(tmp_path, 5))
    monkeypatch.setattr(faults, "reached", at_step)
    monkeypatch.setattr(attempts, "OTHERS", Patience(0, 0, retries=2))

    processed(tables, parts[:3], task_settings(tmp_path), is_one_job=is_one_job)
    number = "5" if at_step.is_done else "2"
    again = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": producer, "bucket": number})
    processed(again, parts[2:], task_settings(tmp_path), 2, is_one_job=is_one_job)

    table = opened(tmp_path)
    assert at_step.is_done or step == "between-compactions" or (step == "before-compact" and producer == "none")
    assert str(table.options.bucket) == number
    assert content(tmp_path) == history.rows
    assert set(table.state().total_buckets.values()) == {table.options.bucket}
    if producer == "lookup":
        replay_strictly((rows for _, rows in table.changes()), ["id"])


@pytest.mark.slow
@pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
@pytest.mark.parametrize("step", ["before-decode", "after-decode", "after-write", "before-append", "after-append"])
@pytest.mark.parametrize("numbers", [(-2, 5), (2, -2), (2, -1), (-1, 3)], ids=str)
def test_a_running_pipeline_goes_from_and_to_other_kinds_of_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, numbers: tuple[int, int], is_one_job: bool
) -> None:
    history = History("orders", seed=5, keys=60).extend(120)
    old, new = numbers
    at_step = AtStep(step, lambda: to_buckets(tmp_path, new))
    monkeypatch.setattr(faults, "reached", at_step)
    monkeypatch.setattr(attempts, "OTHERS", Patience(0, 0, retries=2))

    tables = pipeline_tables(tmp_path, ALL_TABLES, bucket=str(old))
    processed(tables, batches(history), task_settings(tmp_path), is_one_job=is_one_job)

    assert (at_step.is_done, opened(tmp_path).options.bucket) == (True, new)
    compact_postponed(opened(tmp_path), Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)
    assert content(tmp_path) == history.rows


@pytest.mark.slow
def test_the_position_outlives_the_snapshots_of_others(tmp_path: Path) -> None:
    history = History("orders", seed=5, keys=60).extend(120)
    parts = batches(history)
    processed(pipeline_tables(tmp_path, ALL_TABLES), parts[:1], task_settings(tmp_path))
    before = KnownPositions(opened(tmp_path).snapshots).newest("shop")["shop"]
    for count in (3, 4, 7):
        to_buckets(tmp_path, count)
    assert KnownPositions(opened(tmp_path).snapshots).newest("shop")["shop"] == before

    tables = PipelineTables(pipeline_tables(tmp_path, ALL_TABLES, bucket="7").config, "tidemark-shop-another")
    processed(tables, parts, task_settings(tmp_path))
    assert content(tmp_path) == history.rows


@pytest.mark.parametrize("numbers", [(2, 3), (2, 3, 5), (2, -1), (-1, 3), (2, -2)], ids=str)
def test_a_file_that_states_the_number_from_before_goes_on_with_the_new_one(
    tmp_path: Path, numbers: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """The file is as it was: its pipeline starts again after the job, and a rebuild has nothing to say against it."""
    history = History("orders", seed=5).extend(120)
    parts = batches(history)
    first, *others = numbers
    tables = pipeline_tables(tmp_path, ALL_TABLES, bucket=str(first))
    processed(tables, parts[:1], task_settings(tmp_path))
    for number in others:
        to_buckets(tmp_path, number)
    again = pipeline_tables(tmp_path, ALL_TABLES, bucket=str(first))
    processed(again, parts[1:], task_settings(tmp_path), 1)
    compact_postponed(opened(tmp_path), Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)
    assert (content(tmp_path), opened(tmp_path).options.bucket) == (history.rows, others[-1])
    warned = [r.getMessage() for r in caplog.records if "it was rescaled or altered" in r.getMessage()]
    assert len(warned) == 1 and f"The table continues with {others[-1]}; set that in the pipeline file" in warned[0]
    topics = {topic for topic, _ in again.sinks["lake.orders"].position.offsets}
    assert "bucket" not in changed_options(again.config, "lake.orders", opened(tmp_path), topics)


def test_a_number_that_the_table_never_had_is_refused(tmp_path: Path) -> None:
    history = History("orders", seed=5).extend(60)
    processed(pipeline_tables(tmp_path, ALL_TABLES), batches(history), task_settings(tmp_path))
    to_buckets(tmp_path, 3)
    with pytest.raises(ConfigError, match=r"set 3, or .*: tidemark table rescale .*/lake.db/orders --buckets 4"):
        pipeline_tables(tmp_path, ALL_TABLES, bucket="4")
    assert content(tmp_path) == history.rows


@pytest.mark.slow
def test_another_option_alone_stops_the_batch_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "OTHERS", Patience(0, 0, retries=2))
    history = History("orders", seed=5).extend(120)
    parts = batches(history)
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    processed(tables, parts[:1], task_settings(tmp_path))
    opened(tmp_path).evolve([SetOption("bucket", "9")], 1)
    before = {path.name for path in Path(opened(tmp_path).paths.root).rglob("*.parquet")}
    with pytest.raises(ConfigError, match=r"bucket num 9, but the previous bucket num is 2\. .* rescale"):
        processed(tables, parts[1:2], task_settings(tmp_path), 1)
    assert {path.name for path in Path(opened(tmp_path).paths.root).rglob("*.parquet")} == before
    to_buckets(tmp_path, 9)
    processed(tables, parts[1:], task_settings(tmp_path), 1)
    assert content(tmp_path) == history.rows
