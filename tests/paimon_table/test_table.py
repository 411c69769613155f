"""Opening, creating and evolving tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, SchemaChangeRefused, UnsupportedFeature
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.rows.binary_row import serialize_row
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, SetOption, WidenColumn
from tests.support.builders import committer, data_file, message, orders_schema


def test_created_table_can_be_opened(tmp_path: Path) -> None:
    created = Table.create(f"file://{tmp_path}/lake.db/orders", orders_schema())
    opened = Table.open(f"{tmp_path}/lake.db/orders")
    assert opened == created
    assert (opened.schema, opened.options.bucket) == (orders_schema(), 4)
    assert opened.snapshots.latest_id() is None


def test_opening_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no table at"):
        Table.open(f"{tmp_path}/none")


def test_creating_the_same_table_again_opens_it() -> None:
    io = MemoryFileIO()
    first = Table.create("/w/t", orders_schema(), io=io)
    again = Table.create("/w/t", replace(orders_schema(), time_ms=99), io=io)
    assert again == first


@pytest.mark.parametrize("options", [{"ignore-delete": "true"}, {"bucket": "5"}])
def test_creating_another_table_in_the_same_place_is_refused(options: dict[str, str]) -> None:
    io = MemoryFileIO()
    Table.create("/w/t", orders_schema(), io=io)
    with pytest.raises(ConfigError, match="other options exists"):
        Table.create("/w/t", orders_schema(options), io=io)


class Outrun(MemoryFileIO):
    """Storage on which ``rival`` acts right before the first publish."""

    def __init__(self, disk: MemoryDisk, rival: Callable[[], object]) -> None:
        super().__init__(disk)
        self.rivals = [rival]

    def publish(self, path: str, data: bytes) -> bool:
        if self.rivals:
            self.rivals.pop()()
        return super().publish(path, data)


def test_creator_that_loses_the_race_gets_the_winners_table() -> None:
    disk = MemoryDisk()
    winners = orders_schema({"bucket": "7"})
    outrun = Outrun(disk, lambda: Table.create("/w/t", winners, io=MemoryFileIO(disk)))
    with pytest.raises(ConfigError, match="other options exists"):
        Table.create("/w/t", orders_schema(), io=outrun)
    assert Table.open("/w/t", io=MemoryFileIO(disk)).schema == winners
    outrun = Outrun(MemoryDisk(), lambda: None)
    assert Table.open_or_create("/w/t", orders_schema, io=outrun).schema == orders_schema()


def test_evolution_that_loses_the_race_comes_on_top_of_the_winner() -> None:
    disk = MemoryDisk()
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO(disk))
    outrun = Outrun(disk, lambda: table.evolve([AddColumn("theirs", parse_type("INT"))], time_ms=1))
    evolved = Table.open("/w/t", io=outrun).evolve([AddColumn("mine", parse_type("INT"))], time_ms=2)
    assert (evolved.schema.id, evolved.schema.column_names[3:]) == (2, ("theirs", "mine"))
    assert [f.id for f in evolved.schema.fields] == [0, 1, 2, 3, 4]


def test_invalid_table_leaves_nothing_behind() -> None:
    disk = MemoryDisk()
    with pytest.raises(UnsupportedFeature):
        Table.create("/w/t", orders_schema({"merge-engine": "nonsense"}), io=MemoryFileIO(disk))
    assert disk.files == {}


def test_open_or_create_asks_for_a_schema_only_when_needed() -> None:
    io = MemoryFileIO()
    Table.open_or_create("/w/t", orders_schema, io=io)

    def never() -> TableSchema:
        raise AssertionError("asked")

    assert Table.open_or_create("/w/t", never, io=io).schema == orders_schema()


def test_evolution_publishes_the_next_version_and_keeps_the_older_ones() -> None:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    evolved = table.evolve([AddColumn("x", parse_type("INT")), SetOption("write-only", "true")], time_ms=5)
    assert (evolved.schema.id, evolved.options.write_only, evolved.context.schemas[0]) == (1, True, table.schema)
    assert Table.open("/w/t", io=table.io) == evolved == table.refreshed()
    assert table.evolve([AddColumn("x", parse_type("INT"))], time_ms=6) == evolved


def test_refused_evolution_changes_nothing() -> None:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    with pytest.raises(SchemaChangeRefused):
        table.evolve([WidenColumn("id", parse_type("BIGINT"))], time_ms=5)
    with pytest.raises(ConfigError):
        table.evolve([SetOption("sequence.field", "zz")], time_ms=5)
    assert table.refreshed() is table


def test_options_are_fixed_once_there_is_a_snapshot() -> None:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    table = table.evolve([SetOption("rowkind.field", "name")], time_ms=5)
    committer(table).commit(1, [message(0, new_files=[data_file("a")])], {})
    with pytest.raises(ConfigError, match=r"rowkind\.field"):
        table.evolve([SetOption("rowkind.field", None)], time_ms=5)


def test_context_travels_and_knows_the_bucket_directories(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/t", orders_schema(partition_by=["dt"]))
    context = pickle.loads(pickle.dumps(table.context))
    assert context == table.context
    partition = serialize_row(["a/b"], [parse_type("STRING")])
    bucket = BucketId(partition, 3)
    assert context.partition_values(partition) == ("a/b",)
    assert context.bucket_dir(bucket) == f"{tmp_path}/t/dt=a%2Fb/bucket-3"
    assert context.data_file(bucket, data_file("f")) == f"{tmp_path}/t/dt=a%2Fb/bucket-3/f"
    plain = Table.create(f"{tmp_path}/u", orders_schema()).context
    assert plain.bucket_dir(BucketId(EMPTY_ROW, 0)) == f"{tmp_path}/u/bucket-0"
