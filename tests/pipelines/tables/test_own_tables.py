"""Which tables a pipeline has written: known from its checkpoint, found again without it, at a bounded price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.foreign_tables import add_snapshots, make_table
from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import CorruptFile
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.memory_io import MemoryFileIO
from pipelines.checkpoint.book import FILE
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.own_tables import OwnTables
from sinks.commit.pipeline_mark import has_mark
from sinks.commit.positions import Position, to_properties
from tests.support.local_batches import pipeline_tables

USER = "tidemark-shop-first"
ORDERS, ITEMS = TableName("lake", "orders"), TableName("lake", "items")
OTHERS = [TableName("lake", f"other{n}") for n in range(5)]
FOREIGN_SNAPSHOTS = 40


@dataclass(slots=True)
class Warehouse:
    """A warehouse in memory with the tables of others in it, and the runs of pipeline shop over it."""

    config: PipelineConfig
    io: CountingFileIO
    catalog: FilesystemCatalog

    def run(self, has_checkpoint: bool = True) -> OwnTables:
        record = CheckpointRecord(self.config, Checkpoint(self.config), self.catalog) if has_checkpoint else None
        if record is not None:
            record.start()
        self.io.requests.clear()
        return OwnTables(self.config, self.catalog, record)

    def commit(self, own: OwnTables, name: TableName, user: str = USER) -> None:
        """A batch of the run puts rows into the table."""
        own.go_on_with([])
        own.will_commit([(str(name), self.catalog.load(name))])
        self.put_rows(name, user)

    def put_rows(self, name: TableName, user: str = USER, offset: int = 7) -> None:
        add_snapshots(self.catalog, name, user, 1, to_properties("shop", Position(user, {(name.table, 0): offset})))

    def requests_to(self, names: list[TableName]) -> Counter[str]:
        """Of each table, how often the storage was asked for something of it."""
        roots = {self.catalog.files(name).paths.root: str(name) for name in names}
        found = ("/".join(path.split("/")[:4]) for _, path in self.io.requests)
        return Counter(dict.fromkeys(roots.values(), 0)) + Counter(roots[r] for r in found if r in roots)

    def lose_checkpoint(self) -> None:
        (Path(self.config.checkpoint) / FILE).unlink(missing_ok=True)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    rule: dict[str, object] = {"match": {"table": ".*"}, "into": "lake.{table}"}
    config = pipeline_tables(tmp_path, [rule]).config
    io = CountingFileIO(MemoryFileIO())
    catalog = FilesystemCatalog(io, "/warehouse")
    for name in (ORDERS, ITEMS):
        make_table(catalog, name, "someone", 1)
    for name in OTHERS:
        make_table(catalog, name, "java", FOREIGN_SNAPSHOTS)
    return Warehouse(config, io, catalog)


def names_of(own: OwnTables) -> list[TableName]:
    return [found.name for found in own.written()]


def test_a_new_pipeline_looks_for_its_mark_alone(warehouse: Warehouse) -> None:
    own = warehouse.run()
    assert names_of(own) == []
    assert max(warehouse.requests_to(OTHERS).values()) <= 2
    own.go_on_with([])
    assert names_of(warehouse.run()) == []
    assert not warehouse.requests_to(OTHERS)


def test_threads_that_ask_for_the_tables_at_once_search_once(warehouse: Warehouse) -> None:
    own = warehouse.run(has_checkpoint=False)
    warehouse.io.latency_s = 0.01

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: own.names(), range(4)))

    assert found == [[]] * 4
    marks = Counter(path for _, path in warehouse.io.requests if "/tidemark/" in path)
    assert set(marks.values()) == {1}


def test_a_restart_does_not_look_at_the_tables_of_others(warehouse: Warehouse) -> None:
    warehouse.commit(warehouse.run(), ORDERS)
    again = warehouse.run()
    assert names_of(again) == [ORDERS]
    warehouse.commit(again, ORDERS)
    assert not warehouse.requests_to([ITEMS, *OTHERS])
    assert warehouse.requests_to([ORDERS])[str(ORDERS)] < 20


def test_without_its_checkpoint_a_pipeline_finds_its_tables_under_the_commits_of_others(warehouse: Warehouse) -> None:
    own = warehouse.run()
    for name in (ORDERS, ITEMS):
        warehouse.commit(own, name)
    add_snapshots(warehouse.catalog, ORDERS, "compaction job", 30)
    warehouse.lose_checkpoint()
    fresh = warehouse.run()
    assert {t.name: t.position.offsets for t in fresh.written()} == {
        ITEMS: {("items", 0): 7},
        ORDERS: {("orders", 0): 7},
    }
    assert max(warehouse.requests_to(OTHERS).values()) <= 2, "whether it is a table, and the mark"


def test_a_start_that_ended_before_the_search_was_recorded_searches_again(warehouse: Warehouse) -> None:
    warehouse.commit(warehouse.run(), ORDERS)
    warehouse.lose_checkpoint()
    warehouse.run()  # has made the record when the process ends
    assert names_of(warehouse.run()) == [ORDERS]


def test_tables_without_a_rule_today_are_kept_in_mind(warehouse: Warehouse) -> None:
    warehouse.commit(warehouse.run(), ORDERS)
    warehouse.lose_checkpoint()
    own = warehouse.run()
    own.go_on_with([])
    assert names_of(warehouse.run()) == [ORDERS]


def test_a_mark_is_there_before_the_first_commit_and_written_once(warehouse: Warehouse) -> None:
    own = warehouse.run(has_checkpoint=False)
    files = warehouse.catalog.files(ORDERS)
    assert not has_mark(files.io, files.paths, "shop")
    for _ in range(3):
        own.will_commit([(str(ORDERS), warehouse.catalog.load(ORDERS))])
    assert has_mark(files.io, files.paths, "shop")
    assert sum(kind == "write" and "/tidemark/" in path for kind, path in warehouse.io.requests) == 1


def test_a_table_that_lost_its_mark_is_marked_again(warehouse: Warehouse) -> None:
    warehouse.commit(warehouse.run(), ORDERS)
    files = warehouse.catalog.files(ORDERS)
    files.io.delete(f"{files.paths.root}/tidemark/shop.json")
    warehouse.commit(warehouse.run(), ORDERS)
    assert has_mark(files.io, files.paths, "shop")


@pytest.mark.parametrize("content", [b"{", b'{"pipeline": "sh0p"}', b'{"pipeline": 7}'])
def test_a_damaged_mark_names_its_file(warehouse: Warehouse, content: bytes) -> None:
    warehouse.commit(warehouse.run(), ORDERS)
    warehouse.io.write("/warehouse/lake.db/orders/tidemark/shop.json", content)
    warehouse.lose_checkpoint()
    with pytest.raises(CorruptFile, match=r"/warehouse/lake\.db/orders/tidemark/shop\.json"):
        warehouse.run().written()


def test_marks_of_other_pipelines_say_nothing(warehouse: Warehouse) -> None:
    other = replace(warehouse, config=warehouse.config.model_copy(update={"name": "other"}))
    other.run(has_checkpoint=False).will_commit([(str(ORDERS), warehouse.catalog.load(ORDERS))])
    assert names_of(warehouse.run()) == []


@dataclass(slots=True)
class Expiring(CountingFileIO):
    """Storage where others expire snapshots while they are read."""

    expire: Callable[[str], None] = lambda _: None

    def read(self, path: str) -> bytes:
        self.expire(path)
        return CountingFileIO.read(self, path)


def test_snapshots_that_expire_while_they_are_read_are_passed_over(warehouse: Warehouse) -> None:
    disk = warehouse.io.io

    def expire(path: str) -> None:
        """All snapshots of a table up to its fourth but last go right before that one is read."""
        for name in OTHERS:
            paths = warehouse.catalog.files(name).paths
            if path == paths.snapshot_file(FOREIGN_SNAPSHOTS - 4):
                for snapshot_id in range(1, FOREIGN_SNAPSHOTS - 3):
                    disk.delete(paths.snapshot_file(snapshot_id))

    warehouse.commit(warehouse.run(), ORDERS)
    catalog = FilesystemCatalog(Expiring(disk, expire=expire), "/warehouse")
    assert names_of(OwnTables(warehouse.config, catalog)) == [ORDERS]


def test_the_newest_snapshot_may_expire_before_it_is_read(warehouse: Warehouse) -> None:
    disk = warehouse.io.io
    paths = warehouse.catalog.files(ORDERS).paths
    warehouse.run().will_commit([(str(ORDERS), warehouse.catalog.load(ORDERS))])

    def expire(path: str) -> None:
        if path == paths.snapshot_file(1) and disk.exists(path):
            warehouse.put_rows(ORDERS)
            disk.delete(path)

    catalog = FilesystemCatalog(Expiring(disk, expire=expire), "/warehouse")
    assert names_of(OwnTables(warehouse.config, catalog)) == [ORDERS]


def test_a_missing_snapshot_between_others_is_damage(warehouse: Warehouse) -> None:
    warehouse.commit(warehouse.run(), ORDERS)
    add_snapshots(warehouse.catalog, ORDERS, "compaction job", 10)
    warehouse.io.delete("/warehouse/lake.db/orders/snapshot/snapshot-8")
    with pytest.raises(CorruptFile, match="snapshot-8 is missing"):
        warehouse.run().written()
