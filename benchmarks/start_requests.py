"""The requests of a start to the storage, in a warehouse full of other pipelines' tables.

    python -m benchmarks.start_requests [--tables 200] [--snapshots 1000]

Counts the requests of a start up to the first batch, and of the summary after ``--once``, for each way in which the
pipeline finds its own tables. The warehouse is in memory: the count does not depend on the storage.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.foreign_tables import add_snapshots, make_table
from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.table_name import TableName
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from pipelines.checkpoint.book import FILE
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import Position, newest_position, to_properties

USER = "tidemark-shop-checkpoint"
OWN = TableName("lake", "orders")
WAREHOUSE = "/warehouse"


def config_of(directory: Path, into: str) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": str(directory)}, "format": "debezium-json"},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": str(directory / "warehouse")},
            "tables": [{"match": {"table": ".*"}, "into": into}],
        }
    )


def warehouse_of_others(table_count: int, snapshot_count: int) -> MemoryDisk:
    """Tables of keys with fixed buckets, as Tidemark could write them, and an own one without rows of ours."""
    disk = MemoryDisk()
    catalog = FilesystemCatalog(MemoryFileIO(disk), WAREHOUSE)
    first = TableName("lake", "other0")
    make_table(catalog, first, "another engine", snapshot_count)
    root = catalog.files(first).paths.root
    files = dict(disk.files)
    for n in range(1, table_count):
        other = catalog.files(TableName("lake", f"other{n}")).paths.root
        disk.files |= {path.replace(root, other): data for path, data in files.items()}
    make_table(catalog, OWN, "another engine", 1)
    return disk


def start(config: PipelineConfig, catalog: FilesystemCatalog) -> OwnTables:
    """The driver's work on tables before the first batch."""
    checkpoint = Checkpoint(config)
    record = CheckpointRecord(config, checkpoint, catalog)
    own = OwnTables(config, catalog, record)
    record.check(USER)
    if checkpoint.is_new:
        own.written()  # where reading starts
    record.start()
    PipelineTables(config, USER, own)
    return own


def reading_through(config: PipelineConfig, catalog: FilesystemCatalog) -> None:
    """The same without marks and record: the snapshots of every table decide."""
    for name in catalog.names():
        newest_position(catalog.files(name).snapshots, config.name)


def commit(config: PipelineConfig, catalog: FilesystemCatalog) -> None:
    """A run of the pipeline that has put rows into its table and closed a batch."""
    own = start(config, catalog)
    own.will_commit([(str(OWN), catalog.load(OWN))])
    add_snapshots(catalog, OWN, USER, 1, to_properties(config.name, Position(USER, {("orders", 0): 1})))
    batch = next(iter(catalog.files(OWN).snapshots.newest_first())).commit_identifier
    for directory in ("offsets", "commits"):
        (Path(config.checkpoint) / directory).mkdir(parents=True, exist_ok=True)
        (Path(config.checkpoint) / directory / f"{batch}").write_text("v1\n{}")


def forget(config: PipelineConfig) -> None:
    """Lose the checkpoint."""
    root = Path(config.checkpoint)
    for path in (root / FILE, *root.glob("offsets/*"), *root.glob("commits/*")):
        path.unlink(missing_ok=True)


def measure(what: str, io: CountingFileIO, act: Callable[[], object]) -> str:
    io.requests.clear()
    act()
    foreign = sum("/other" in path for _, path in io.requests)
    return f"{what:<58} {len(io.requests):>9,} {foreign:>9,}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=200, help="tables of others")
    parser.add_argument("--snapshots", type=int, default=1000, help="snapshots of each of them")
    given = parser.parse_args(arguments)
    io = CountingFileIO(MemoryFileIO(warehouse_of_others(given.tables, given.snapshots)))
    catalog = FilesystemCatalog(io, WAREHOUSE)
    print(f"{given.tables} tables of others with {given.snapshots:,} snapshots each")
    print(f"{'':<58} {'requests':>9} {'to others':>9}")
    with tempfile.TemporaryDirectory() as parent:
        named = config_of(Path(parent) / "named", "lake.orders")
        config = config_of(Path(parent) / "pattern", "lake.{table}")
        print(
            measure(
                "every table read through, as without record and marks",
                io,
                lambda: reading_through(config, catalog),
            )
        )
        print(measure("first start ever, rules name their tables", io, lambda: start(named, catalog)))
        print(measure("first start ever, rules with {table}", io, lambda: start(config, catalog)))
        commit(config, catalog)
        print(measure("restart", io, lambda: start(config, catalog)))
        own = start(config, catalog)
        print(measure("summary behind --once", io, own.written))
        forget(config)
        print(measure("checkpoint lost", io, lambda: start(config, catalog)))


if __name__ == "__main__":
    main()
