"""Checkpoints that are damaged, of another pipeline, of other tables, or in use."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks.foreign_tables import add_snapshots
from paimon_table import TableName
from paimon_table.errors import ConfigError, CorruptFile, SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from pipelines.checkpoint.book import FILE, Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.tables import PipelineTables
from tests.support.events import History, write_dump
from tests.support.local_batches import dump_batches, pipeline_tables, run_batches

RULE: dict[str, object] = {"match": {"table": "(.*)"}, "into": "lake.{table}"}
USER = "tidemark-shop-test"


def spark_checkpoint(directory: Path, planned: int = 4, closed: int | None = 3) -> None:
    """The files that Spark leaves, down to the zero byte of Kafka's start."""
    for name in ("offsets", "commits", "sources/0"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "metadata").write_text('{"id":"2cca80f0-2dcf-43ed-8d33-a6715696a0e4"}')
    (directory / "sources/0/0").write_text('\0v1\n{"t":{"0":0}}')
    for batch in range(planned + 1):
        (directory / f"offsets/{batch}").write_text(f'v1\n{{"batchTimestampMs":{batch}}}\n{{"t":{{"0":{batch + 1}}}}}')
    for batch in range(-1 if closed is None else closed + 1):
        (directory / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')


def checkpoint(directory: Path) -> Checkpoint:
    return Checkpoint(pipeline_tables(directory, [RULE]).config)


@pytest.mark.parametrize(("planned", "closed"), [(4, 3), (4, 4), (0, None), (4, None), (4, 2)])
def test_every_state_that_spark_goes_on_from_is_taken(tmp_path: Path, planned: int, closed: int | None) -> None:
    spark_checkpoint(tmp_path / "checkpoint", planned, closed)
    checkpoint(tmp_path).check()


@pytest.mark.parametrize("offset", ["{}", "-"])
def test_a_batch_of_topics_that_are_not_there_yet_is_taken(tmp_path: Path, offset: str) -> None:
    spark_checkpoint(tmp_path / "checkpoint", 0, 0)
    (tmp_path / "checkpoint/offsets/0").write_text(f'v1\n{{"batchTimestampMs":0}}\n{offset}')
    checkpoint(tmp_path).check()


def test_a_checkpoint_that_is_not_there_yet_is_taken(tmp_path: Path) -> None:
    checkpoint(tmp_path).check()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("offsets/4", None, "its file offsets/4 is missing, although batch 4 is done"),
        ("offsets/3", None, "its file offsets/3 is missing, although batch 4 is planned"),
        ("offsets/4", "", "its file offsets/4 is empty"),
        ("offsets/4", "garbage", "its file offsets/4 does not begin with its format version"),
        ("offsets/4", 'v1\n{"batchTime', "its file offsets/4 is cut off"),
        ("offsets/4", 'v1\n{"batchTimestampMs":4}', "its file offsets/4 is cut off"),
        ("offsets/4", 'v1\n{"batchTimestampMs":4}\n{"t":{"0":', "its file offsets/4 is cut off"),
        ("offsets/4", 'v1\n{}\n{"t":{"0":5}}', "its file offsets/4 has no offsets of a batch"),
        ("offsets/4", 'v1\n{"batchTimestampMs":4}\n[1]', "its file offsets/4 has no offsets of a batch"),
        ("offsets/3", "", "its file offsets/3 is empty"),
        ("commits/4", "", "its file commits/4 is empty"),
        ("commits/4", 'v1\n{"next', "its file commits/4 is cut off"),
        ("sources/0/0", "\0v1\n{", "its file sources/0/0 is cut off"),
        ("metadata", None, "its file metadata is missing, although batch 4 is planned"),
        ("metadata", '{"id"', "its file metadata has no query id"),
        ("metadata", "", "its file metadata has no query id"),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, file: str, content: str | None, message: str) -> None:
    spark_checkpoint(tmp_path / "checkpoint", 4, 4)
    path = tmp_path / "checkpoint" / file
    path.unlink() if content is None else path.write_text(content)

    with pytest.raises(CorruptFile) as error:
        checkpoint(tmp_path).check()

    assert message in str(error.value)
    assert f"checkpoint {tmp_path}/checkpoint" in str(error.value)
    assert "move the directory away and start again: with on_lost_checkpoint: resume" in str(error.value)


def test_spoilt_offsets_are_told_while_a_batch_runs(tmp_path: Path) -> None:
    spark_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "checkpoint/offsets/4").write_text("v1\n")
    with pytest.raises(CorruptFile, match="offsets/4"):
        checkpoint(tmp_path).planned_at_ms(4)
    assert checkpoint(tmp_path).planned_at_ms(9) is None


# ---------------------------------------------------------------- whose checkpoint, which tables


def record_of(config: PipelineConfig) -> CheckpointRecord:
    return CheckpointRecord(config, Checkpoint(config))


def written(directory: Path, *names: str) -> PipelineConfig:
    """A pipeline with closed batches and a row in each of these tables."""
    spark_checkpoint(directory / "checkpoint")
    config = pipeline_tables(directory, [RULE]).config
    record = record_of(config)
    record.start()
    for name in names:
        write_dump(directory / "dumps", [History(name, seed=1).extend(10)])
        tables = PipelineTables(config, USER, OwnTables(config, catalog_of(config), record))
        run_batches(tables, dump_batches(directory / "dumps" / f"shop.public.{name}.jsonl", 100), directory)
    return config


def test_a_checkpoint_of_its_own_tables_is_taken(tmp_path: Path) -> None:
    record_of(written(tmp_path, "orders", "items")).check(USER)


def test_an_older_copy_of_a_checkpoint_is_refused(tmp_path: Path) -> None:
    config = written(tmp_path, "orders")
    record = record_of(config)
    tables = PipelineTables(config, USER, OwnTables(config, catalog_of(config), record))
    write_dump(tmp_path / "dumps", [History("orders", seed=2).extend(10)])
    planned = Checkpoint(config).planned_batch
    assert planned is not None
    run_batches(tables, dump_batches(tmp_path / "dumps/shop.public.orders.jsonl", 100), tmp_path, planned)
    record_of(config).check(USER)

    run_batches(tables, dump_batches(tmp_path / "dumps/shop.public.orders.jsonl", 100), tmp_path, planned + 1)
    with pytest.raises(ConfigError, match=rf"planned batches up to {planned}, but table lake.orders already has batch"):
        record_of(config).check(USER)
    record_of(config).check("tidemark-shop-another")

    add_snapshots(catalog_of(config), TableName("lake", "orders"), "compaction job", 1)
    with pytest.raises(ConfigError, match=rf"planned batches up to {planned}, but table lake.orders already has batch"):
        record_of(config).check(USER)


@pytest.mark.slow
def test_an_older_copy_that_does_not_know_of_a_table_is_refused_as_soon_as_it_shows(tmp_path: Path) -> None:
    config = written(tmp_path, "orders")
    copy = (tmp_path / "checkpoint" / FILE).read_bytes()
    planned = Checkpoint(config).planned_batch
    assert planned is not None
    write_dump(tmp_path / "dumps", [History("items", seed=2).extend(10)])
    batches = list(dump_batches(tmp_path / "dumps/shop.public.items.jsonl", 100))

    def process() -> PipelineTables:
        record = record_of(config)
        record.check(USER)
        return PipelineTables(config, USER, OwnTables(config, catalog_of(config), record), first_own=planned + 1)

    newer = process()
    for batch_id in (planned + 1, planned + 2):
        run_batches(newer, batches, tmp_path, batch_id)
    (tmp_path / "checkpoint" / FILE).write_bytes(copy)
    with pytest.raises(ConfigError, match=f"planned batches up to {planned}, but table lake.items already has batch"):
        run_batches(process(), batches, tmp_path, planned + 1)


def test_a_checkpoint_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    config = written(tmp_path, "orders").model_copy(update={"name": "other"})
    with pytest.raises(ConfigError, match="belongs to pipeline shop, not to other"):
        record_of(config).check("tidemark-other-test")


@pytest.mark.parametrize("names", [["orders"], ["orders", "items"]])
def test_a_warehouse_deleted_under_its_checkpoint_is_refused(tmp_path: Path, names: list[str]) -> None:
    config = written(tmp_path, *names)
    shutil.rmtree(tmp_path / "warehouse")
    with pytest.raises(ConfigError, match=r"is done up to batch 3, but warehouse .* does not have tables? lake"):
        record_of(config).check(USER)


def test_without_a_closed_batch_a_deleted_warehouse_is_filled_from_the_start(tmp_path: Path) -> None:
    config = written(tmp_path, "orders")
    shutil.rmtree(tmp_path / "warehouse")
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    record_of(config).check(USER)


def test_batches_without_rows_are_no_lost_tables(tmp_path: Path) -> None:
    record_of(written(tmp_path)).check(USER)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_single_table_that_is_gone_is_told_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_made_anew: bool
) -> None:
    config = written(tmp_path, "orders", "items")
    schema = tmp_path / "warehouse/lake.db/items/schema/schema-0"
    document = json.loads(schema.read_text())
    shutil.rmtree(tmp_path / "warehouse/lake.db/items")
    if is_made_anew:
        schema.parent.mkdir(parents=True)
        schema.write_text(json.dumps({**document, "timeMillis": document["timeMillis"] + 1}))

    with caplog.at_level(logging.WARNING):
        record_of(config).check(USER)

    (message,) = caplog.messages
    assert message.startswith("table lake.items is no longer in warehouse")
    assert "Read the table's topics once from the start" in message


def test_a_table_that_no_rule_writes_any_more_may_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = written(tmp_path, "orders", "items")
    shutil.rmtree(tmp_path / "warehouse/lake.db/items")
    rule = config.tables[0].model_copy(update={"into": "lake.orders"})
    record_of(config.model_copy(update={"tables": (rule,)})).check(USER)
    assert not caplog.messages


def test_a_table_is_recorded_before_its_first_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    from sinks.commit.table_sink import TableSink

    commit = TableSink.commit

    def look(self: TableSink, *arguments: object, **named: object) -> object:
        seen.append(list(json.loads((tmp_path / "checkpoint" / FILE).read_text())["tables"]))
        return commit(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(TableSink, "commit", look)
    written(tmp_path, "orders")
    assert seen
    assert all(names == ["lake.orders"] for names in seen)


def test_tables_that_a_new_checkpoint_goes_on_with_are_recorded_too(tmp_path: Path) -> None:
    config = written(tmp_path, "orders", "items")
    (tmp_path / "checkpoint" / FILE).unlink()
    record = CheckpointRecord(config, Checkpoint(config))
    PipelineTables(config, "tidemark-shop-new", OwnTables(config, catalog_of(config), record))
    assert list(json.loads((tmp_path / "checkpoint" / FILE).read_text())["tables"]) == [
        "lake.items",
        "lake.orders",
    ]


def test_nobody_else_may_write_our_files_in_a_checkpoint_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        config = written(tmp_path, "orders")
        Book(Checkpoint(config)).note_topics({"orders": "1"})
        with held_checkpoints([config]):
            files = [*(tmp_path / "checkpoint").rglob("tidemark/*.json"), tmp_path / "checkpoint" / "tidemark.lock"]
            modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    finally:
        os.umask(old)
    assert {Path(FILE).name, "tidemark.lock"} <= modes.keys()
    assert [name for name, mode in modes.items() if mode & ~0o644] == [], modes


def test_a_checkpoint_without_its_record_is_refused(tmp_path: Path) -> None:
    config = written(tmp_path, "orders")
    (tmp_path / "checkpoint" / FILE).unlink()
    with pytest.raises(CorruptFile, match=r"tidemark/tables\.json is missing, although batches are closed; .*"):
        record_of(config).check(USER)


def test_offsets_that_were_emptied_under_written_tables_are_refused(tmp_path: Path) -> None:
    config = written(tmp_path, "orders")
    for name in ("offsets", "commits"):
        shutil.rmtree(tmp_path / "checkpoint" / name)
    with pytest.raises(CorruptFile, match=r"offsets is empty, although table lake\.orders were written"):
        record_of(config).check(USER)


def test_a_spoilt_record_is_named(tmp_path: Path) -> None:
    config = written(tmp_path)
    (tmp_path / "checkpoint" / FILE).write_text('{"pipeline"')
    with pytest.raises(CorruptFile, match=r"tidemark/tables\.json"):
        record_of(config)


# ---------------------------------------------------------------- in use

HOLDER = """
import sys, time
from pipelines.checkpoint.lock import held_checkpoints
from tests.support.local_batches import pipeline_tables
from pathlib import Path
config = pipeline_tables(Path(sys.argv[1]), [{"match": {"table": "(.*)"}, "into": "lake.{table}"}]).config
with held_checkpoints([config]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_checkpoint_in_use_names_its_process_and_a_killed_one_stops_nobody(tmp_path: Path) -> None:
    config = pipeline_tables(tmp_path, [RULE]).config
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder, holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SinkUnavailable) as error, held_checkpoints([config]):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

    assert f"{tmp_path}/checkpoint is in use by process {holder.pid} on {os.uname().nodename}" in str(error.value)
    assert "(since 20" in str(error.value)
    with held_checkpoints([config]):
        pass


def test_a_file_system_without_locks_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with held_checkpoints([pipeline_tables(tmp_path, [RULE]).config]):
        pass
    assert "no lock on checkpoint" in caplog.text


@pytest.mark.parametrize(("planned", "closed"), [(4, 3), (4, 4)])
def test_reading_goes_on_elsewhere_in_a_batch_that_is_planned_too(tmp_path: Path, planned: int, closed: int) -> None:
    spark_checkpoint(tmp_path / "checkpoint", planned, closed)
    offsets = tmp_path / "checkpoint/offsets"
    for batch in range(planned + 1):
        (offsets / f"{batch}").write_text(f'v1\n{{"batchTimestampMs":1}}\n{{"t":{{"0":{batch}}},"u":{{"0":7,"1":8}}}}')
    (offsets / ".4.crc").write_bytes(b"of the old content")

    checkpoint(tmp_path).move({("t", 0): None, ("u", 1): 2})

    assert checkpoint(tmp_path).kafka_positions() == {("u", 0): 7, ("u", 1): 2}
    assert (offsets / f"{planned}").read_text() == 'v1\n{"batchTimestampMs":1}\n{"u":{"0":7,"1":2}}'
    assert not (offsets / ".4.crc").exists()
    assert checkpoint(tmp_path).planned_offsets(2) == {("t", 0): (1, 2), ("u", 0): (7, 7), ("u", 1): (8, 8)}
    checkpoint(tmp_path).check()


def test_the_first_batch_begins_where_spark_began(tmp_path: Path) -> None:
    spark_checkpoint(tmp_path / "checkpoint", 0, None)
    assert checkpoint(tmp_path).planned_offsets(0) == {("t", 0): (0, 1)}


class Dying(LocalFileIO):
    """Local files of a process that is killed after some operations."""

    left: ClassVar[int] = 0

    def _step(self) -> None:
        if Dying.left == 0:
            raise KeyboardInterrupt
        Dying.left -= 1

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        self._step()
        super().write(path, data, durable)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)


@pytest.mark.parametrize("steps", range(4))
def test_a_kill_while_reading_is_moved_leaves_what_spark_can_go_on_from(tmp_path: Path, steps: int) -> None:
    spark_checkpoint(tmp_path / "checkpoint")
    killed = checkpoint(tmp_path)
    killed.io, Dying.left = Dying(), steps
    with pytest.raises(KeyboardInterrupt):
        killed.move({("t", 0): None})

    checkpoint(tmp_path).check()
    closed, pending = ((tmp_path / f"checkpoint/offsets/{n}").read_text().splitlines()[2] for n in (3, 4))
    assert (closed == '{"t":{"0":4}}') and (pending == ("{}" if steps > 1 else '{"t":{"0":5}}'))
    checkpoint(tmp_path).move({("t", 0): None})
    assert checkpoint(tmp_path).kafka_positions() == {}
    assert (tmp_path / "checkpoint/offsets/4").read_text().splitlines()[2] == "{}"
