"""Tables of one batch wait for their storage at the same time, and what one of them meets stays its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.errors import TidemarkError
from paimon_table.side_by_side import all_done, in_parallel
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.memory_io import MemoryFileIO
from pipelines.batch import decode_task
from pipelines.batch.decode_task import gathered
from pipelines.batch.plan import BatchRun, plan_decode
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.tables import PipelineTables
from sinks.exchange.blob import REPORT, decode_rows, from_record_batch
from sinks.faults import CRASH_VARIABLE
from tests.support.events import History, Row, records_of
from tests.support.local_batches import ALL_TABLES, pipeline_tables, processed, shop_config, task_settings
from tests.support.waiting import seconds

NAMES = ("one", "two", "three")


@dataclass(frozen=True, slots=True)
class WatchedIO(LocalFileIO):
    """Local files; calls ``on`` with the path of each data file and each snapshot before it is there."""

    on: Callable[[str], None] = print

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        self.on(path)
        with LocalFileIO.open_output(self, path) as stream:
            yield stream

    def publish(self, path: str, data: bytes) -> bool:
        self.on(path)
        return LocalFileIO.publish(self, path, data)


@dataclass(slots=True)
class WatchedStore(MemoryFileIO):
    """The same for files in memory; also of marks and schemas, and of each look for the newest snapshot."""

    on: Callable[[str], None] = print

    def read(self, path: str) -> bytes:
        if path.endswith("/LATEST") or "/schema/" in path:
            self.on(path)
        return MemoryFileIO.read(self, path)

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        if "/tidemark/" in path:
            self.on(path)
        MemoryFileIO.write(self, path, data, durable)

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        self.on(path)
        with MemoryFileIO.open_output(self, path) as stream:
            yield stream

    def publish(self, path: str, data: bytes) -> bool:
        self.on(path)
        return MemoryFileIO.publish(self, path, data)


def run(directory: Path, on: Callable[[str], None]) -> PipelineTables:
    """One batch with rows for all tables, in one write task."""
    config = shop_config(directory, ALL_TABLES, {"bucket": "1"})
    own = OwnTables(config, FilesystemCatalog(WatchedIO(on=on), config.catalog.warehouse))
    tables = PipelineTables(config, "tidemark-shop-test", own)
    rows = pa.Table.from_batches([records_of(History(name, seed=1).extend(20)) for name in NAMES])
    processed(tables, rows.combine_chunks().to_batches(), task_settings(directory, slots=1))
    return tables


@pytest.mark.parametrize("kind", ["/schema/", "/bucket-0/", "/snapshot/"], ids=["schemas", "data files", "snapshots"])
def test_all_tables_are_at_the_same_step_at_once(tmp_path: Path, kind: str) -> None:
    all_there = threading.Barrier(len(NAMES), timeout=seconds(20))

    def meet(path: str) -> None:
        if kind in path:
            all_there.wait()

    tables = run(tmp_path, meet)

    assert {name: sink.state.snapshot_id for name, sink in tables.sinks.items()} == {f"lake.{n}": 1 for n in NAMES}


@pytest.mark.slow
def test_more_small_tables_wait_for_a_store_together_than_for_a_disk(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(20)]
    kinds = "/schema/", "/tidemark/", "/bucket-0/", "/snapshot/snapshot-", "/snapshot/LATEST"
    all_there = {kind: threading.Barrier(len(names), timeout=seconds(20)) for kind in kinds}

    def meet(path: str) -> None:
        for kind, barrier in all_there.items():
            if kind in path:
                barrier.wait()

    config = shop_config(tmp_path, ALL_TABLES, {"bucket": "1"})
    config = config.model_copy(update={"catalog": config.catalog.model_copy(update={"warehouse": "s3://lake"})})
    store = WatchedStore(on=meet)
    tables = PipelineTables(config, "tidemark-shop-test", OwnTables(config, FilesystemCatalog(store, "s3://lake")))
    rows = pa.Table.from_batches([records_of(History(name, seed=1).extend(3)) for name in names])

    processed(tables, rows.combine_chunks().to_batches(), task_settings(tmp_path, slots=1))

    assert {name: sink.state.snapshot_id for name, sink in tables.sinks.items()} == {f"lake.{n}": 1 for n in names}

    del all_there["/snapshot/LATEST"]  # a start goes on with a few of the tables
    restarted = PipelineTables(config, "tidemark-shop-test", OwnTables(config, FilesystemCatalog(store, "s3://lake")))

    assert 0 < len(restarted.sinks) < len(names)


def test_where_a_test_asks_for_a_crash_tables_go_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CRASH_VARIABLE, "after-append@7")
    threads: set[int] = set()

    run(tmp_path, lambda path: threads.add(threading.get_ident()) if "/schema/" not in path else None)

    assert threads == {threading.get_ident()}


@pytest.mark.slow
def test_a_table_that_cannot_be_published_leaves_the_others_their_rows(tmp_path: Path) -> None:
    def refuse(path: str) -> None:
        if "/one/snapshot/" in path:
            raise PermissionError(path)

    with pytest.raises(TidemarkError, match="one"):
        run(tmp_path, refuse)

    snapshots = {name: list((tmp_path / "warehouse/lake.db" / name).glob("snapshot/snapshot-1")) for name in NAMES}
    assert [bool(snapshots[name]) for name in NAMES] == [False, True, True]


def test_work_that_fails_is_for_whoever_asks_and_the_rest_is_done() -> None:
    def fail() -> int:
        raise ValueError("second")

    first, second, third = all_done([lambda: 1, fail, lambda: 3], at_once=2)

    assert (first.result(), third.result()) == (1, 3)
    with pytest.raises(ValueError, match="second"):
        second.result()


@pytest.mark.parametrize("at_once", [1, 2])
def test_looks_come_in_their_order_up_to_the_first_that_fails(at_once: int) -> None:
    found = in_parallel(lambda number: 12 // number, [4, 3, 0, 2], at_once)

    assert [next(found), next(found)] == [(4, 3), (3, 4)]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_records_are_gathered_in_order_until_they_suffice_or_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [pa.record_batch({"number": range(first, first + 10)}) for first in range(0, 100, 10)]
    monkeypatch.setattr(decode_task, "GATHERED_BYTES", 5 * parts[0].nbytes)
    assert [batch.num_rows for batch in gathered(parts, 25)] == [30, 30, 30, 10]
    assert [batch.num_rows for batch in gathered(parts, 1000)] == [50, 50]
    for wanted in (0, 25, 1000):
        assert pa.Table.from_batches(gathered(parts, wanted))["number"].to_pylist() == [*range(100)]
    assert all(one is part for one, part in zip(gathered(parts, 0), parts, strict=True))


@pytest.mark.slow
def test_gathered_records_become_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    histories = [History(name, seed=number).extend(20) for number, name in enumerate(NAMES)]
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    rows = pa.Table.from_batches(map(records_of, histories)).combine_chunks()
    processed(tables, rows.to_batches(), task_settings(tmp_path))
    more = pa.Table.from_batches([records_of(history.extend(60)) for history in histories]).combine_chunks()
    (records,) = more.take(np.argsort(np.asarray(more["offset"]), kind="stable")).combine_chunks().to_batches()
    pieces = [records.slice(start, 7) for start in range(0, records.num_rows, 7)]

    def decoded(per_table: int) -> tuple[int, dict[object, list[Row]]]:
        monkeypatch.setattr(decode_task, "_RECORDS_PER_TABLE", per_table)
        out = plan_decode(tables, BatchRun(1), task_settings(tmp_path))(pieces)
        blobs = [blob for batch in out for blob in from_record_batch(batch) if blob.target != REPORT]
        found: dict[object, list[Row]] = {}
        for blob in sorted(blobs, key=lambda blob: blob.arrival):
            place = blob.target, blob.lane, blob.topic, blob.topic_partition
            found.setdefault(place, []).extend(decode_rows(blob.data).to_pylist())
        return len(blobs), found

    blob_count, apart = decoded(0)
    fewer, together = decoded(1000)
    assert together == apart
    assert fewer == len(together) < blob_count
