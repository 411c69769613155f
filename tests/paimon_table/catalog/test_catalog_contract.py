"""What every catalog promises; an implementation is one more parameter of ``catalog``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from paimon_table.catalog.catalog import Catalog
from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.jdbc_catalog import JdbcCatalog
from paimon_table.catalog.jdbc_database import JdbcDatabase
from paimon_table.catalog.jdbc_dialects import JdbcSettings
from paimon_table.catalog.rest_catalog import RestCatalog
from paimon_table.catalog.rest_client import RestClient, RestSettings
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.metadata.manifest import ManifestEntry
from paimon_table.metadata.publisher import Publisher
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.file_io import LocalFileIO, file_io_for
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.stack.rest_catalog import rest_server
from tests.support.builders import committer, data_file, message, orders_schema
from tests.support.s3_server import s3_server

ORDERS = TableName("lake", "orders")
ADDED = [AddColumn("x", parse_type("INT"))]


@pytest.fixture(params=["local disk", "memory", "s3", "sqlite", "sqlite, locked", "rest", "rest of 1.4"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    match request.param:
        case "local disk":
            yield FilesystemCatalog(LocalFileIO(), str(tmp_path / "warehouse"))
        case "memory":
            yield FilesystemCatalog(MemoryFileIO(), "/warehouse")
        case "sqlite" | "sqlite, locked":
            database = JdbcDatabase(JdbcSettings(f"jdbc:sqlite:{tmp_path}/names.db"))
            files = FilesystemCatalog(LocalFileIO(), str(tmp_path / "warehouse"))
            yield JdbcCatalog(database, files, "jdbc", locks=request.param != "sqlite")
        case "rest" | "rest of 1.4":
            is_old = request.param != "rest"
            with rest_server(tmp_path / "warehouse", token="t", is_old=is_old) as server:
                settings = RestSettings(server.uri, "shop", lambda: "t")
                yield RestCatalog(RestClient(settings), file_io_for)
        case _:
            with s3_server() as server:
                access = {"s3.endpoint": server.endpoint, "s3.access-key": "k", "s3.secret-key": "s"}
                yield FilesystemCatalog(*file_io_for("s3://lake", {**access, "s3.path.style.access": "true"}))


@pytest.mark.slow
def test_made_tables_are_listed_and_loaded_by_their_names(catalog: Catalog) -> None:
    names = [TableName("lake", "items"), ORDERS, TableName("raw", "orders.2")]
    made = {name: catalog.create(name, orders_schema()) for name in names}
    assert catalog.names() == names
    assert catalog.names("lake") == names[:2]
    assert catalog.names("none") == []
    assert {name: catalog.load(name) for name in catalog.names()} == made


def test_a_table_that_is_not_there_is_none_and_cannot_be_loaded(catalog: Catalog) -> None:
    assert catalog.names() == []
    assert catalog.find(ORDERS) is None
    with pytest.raises(ConfigError, match=r"no table lake\.orders"):
        catalog.load(ORDERS)


@pytest.mark.slow
def test_a_table_that_is_there_is_given_to_whoever_would_make_it(catalog: Catalog) -> None:
    first = catalog.create(ORDERS, orders_schema())
    assert catalog.create(ORDERS, orders_schema({"bucket": "9"})) == first


def test_a_schema_that_no_table_can_have_makes_none(catalog: Catalog) -> None:
    with pytest.raises(UnsupportedFeature):
        catalog.create(ORDERS, orders_schema({"merge-engine": "nonsense"}))
    assert catalog.names() == []


@pytest.mark.slow
def test_schemas_are_published_once_and_then_loaded(catalog: Catalog) -> None:
    table = catalog.create(ORDERS, orders_schema())
    evolved = table.evolve(ADDED, time_ms=5)
    assert catalog.load(ORDERS) == evolved == table.refreshed()
    assert not catalog.publisher(ORDERS).publish_schema(replace(table.schema, id=1))
    assert catalog.load(ORDERS) == evolved


@pytest.mark.slow
def test_snapshots_are_published_once_and_then_found(catalog: Catalog) -> None:
    table = catalog.create(ORDERS, orders_schema())
    commit = committer(table)
    published = commit.commit(1, [message(new_files=[data_file("a")])], {}).append
    assert published is not None
    assert published.is_same(catalog.files(ORDERS).snapshots.latest())
    publisher = catalog.publisher(ORDERS)
    assert publisher.publish_snapshot(published), "a publish whose answer was lost"
    assert not publisher.publish_snapshot(replace(published, uuid="another"))
    assert published.is_same(catalog.files(ORDERS).snapshots.latest())


@pytest.mark.slow
def test_a_dropped_table_is_gone_with_all_it_had(catalog: Catalog) -> None:
    other = catalog.create(TableName("lake", "orders2"), orders_schema())
    table = catalog.create(ORDERS, orders_schema())
    committer(table).commit(1, [message(new_files=[data_file("a")])], {})
    catalog.drop(ORDERS)
    catalog.drop(ORDERS)
    assert catalog.names() == [TableName("lake", "orders2")]
    assert catalog.load(TableName("lake", "orders2")) == other
    anew = catalog.create(ORDERS, orders_schema())
    assert (anew.schema.id, anew.snapshots.latest_id()) == (0, None)


def test_a_directory_that_is_no_table_is_not_dropped(tmp_path: Path) -> None:
    kept = tmp_path / "lake.db" / "photos" / "deep" / "me.jpg"
    kept.parent.mkdir(parents=True)
    kept.touch()
    (tmp_path / "lake.db" / "link").symlink_to(kept.parent)
    catalog = FilesystemCatalog(LocalFileIO(), str(tmp_path))
    for name in ("photos", "link", "missing"):
        catalog.drop(TableName("lake", name))
    assert kept.exists()


@pytest.mark.parametrize("name", [TableName("lake", ".."), TableName("lake", "../x"), TableName("a/b", "c")])
def test_names_that_lead_elsewhere_are_refused(catalog: Catalog, name: TableName) -> None:
    catalog.create(ORDERS, orders_schema())
    with pytest.raises(ConfigError, match="cannot be the name of a table"):
        catalog.drop(name)
    assert catalog.names() == [ORDERS]


@dataclass(slots=True)
class Heard:
    """A publisher that a catalog with a server of its own could have: it hears of every version."""

    publisher: Publisher
    versions: list[str] = field(default_factory=list)

    def publish_schema(self, schema: TableSchema) -> bool:
        self.versions.append(f"schema {schema.id}")
        return self.publisher.publish_schema(schema)

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        self.versions.append(f"snapshot {snapshot.id}")
        return self.publisher.publish_snapshot(snapshot, base, entries)


@pytest.mark.slow
def test_changes_and_commits_of_a_table_go_through_its_publisher(catalog: Catalog) -> None:
    made = catalog.create(ORDERS, orders_schema())
    heard = Heard(catalog.publisher(ORDERS))
    table = Table(made.context, heard)
    evolved = table.evolve(ADDED, time_ms=5)
    evolved = evolved.evolve([AddColumn("y", parse_type("INT"))], time_ms=6)
    both = message(new_files=[data_file("a")], compact_before=[data_file("b")], compact_after=[data_file("c", 5)])
    committer(evolved).commit(1, [message(new_files=[data_file("b")])], {})
    committer(evolved).commit(2, [both], {})
    assert heard.versions == ["schema 1", "schema 2", "snapshot 1", "snapshot 2", "snapshot 3"]
    assert catalog.load(ORDERS).schema.column_names != table.schema.column_names
