"""One table whose name is in a database, written by Tidemark and Java in turns under one lock, read by both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.jdbc_catalog import JdbcCatalog
from paimon_table.catalog.jdbc_database import JdbcDatabase
from paimon_table.catalog.jdbc_dialects import JdbcSettings
from paimon_table.catalog.table_name import TableName
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError
from tests.stack.postgres import Postgres
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver

pytestmark = pytest.mark.stack

ORDERS = TableName("lake", "orders")


def test_a_table_in_a_database_of_names_is_written_in_turns_and_read_equal(
    postgres: Postgres, tmp_path: Path, java: JavaPaimon
) -> None:
    postgres.create_database("names")
    uri, warehouse = f"jdbc:postgresql://{postgres.host}:{postgres.port}/names", f"{tmp_path}/lake"
    database = JdbcDatabase(JdbcSettings(uri, postgres.user, postgres.password))
    catalog = JdbcCatalog(database, FilesystemCatalog(LocalFileIO(), warehouse), "jdbc", locks=True)
    address = json.dumps({
        "metastore": "jdbc", "uri": uri, "warehouse": warehouse, "table": str(ORDERS), "lock.enabled": "true",
        "jdbc.user": postgres.user, "jdbc.password": postgres.password,
    })  # fmt: skip

    # given a table that Tidemark creates, before Java has made any of the database's tables
    assert catalog.names() == []
    with pytest.raises(WorkerError, match="TableNotExistException"):
        java.read(address)
    columns = [("id", parse_type("INT")), ("status", parse_type("STRING"))]
    catalog.create(ORDERS, create_schema(columns, ["id"], [], {"bucket": "2", "changelog-producer": "lookup"}))

    # when both write in turns, and Tidemark adds a column
    TableDriver(catalog.load(ORDERS), tmp_path / "1").commit([["+I", 1, "new"], ["+I", 2, "new"]])
    java.write(address, [["+I", 3, "java"], ["-D", 2, "new"]], compact=True)
    evolved = catalog.load(ORDERS).evolve([AddColumn("total", parse_type("INT"))], time_ms=5)
    TableDriver(evolved, tmp_path / "2", first_identifier=2).commit([["+U", 1, "paid", 7]])
    java.write(address, [["+I", 4, "java", 8]], identifier=2)

    # then both have the same rows, and nobody holds the lock
    rows = [[1, "paid", 7], [3, "java", None], [4, "java", 8]]
    assert TableDriver(catalog.load(ORDERS), tmp_path / "3").content() == sorted_rows(rows)
    assert sorted_rows(row for _, *row in java.read(address)) == sorted_rows(rows)
    assert database.rows("SELECT lock_id FROM paimon_distributed_locks") == []
    catalog.drop(ORDERS)
    with pytest.raises(WorkerError, match="TableNotExistException"):
        java.read(address)


def test_java_waits_while_tidemark_holds_the_lock(postgres: Postgres, tmp_path: Path, java: JavaPaimon) -> None:
    """With a short ``lock-acquire-timeout``, Java gives up."""
    postgres.create_database("locks")
    uri, warehouse = f"jdbc:postgresql://{postgres.host}:{postgres.port}/locks", f"{tmp_path}/lake"
    database = JdbcDatabase(JdbcSettings(uri, postgres.user, postgres.password))
    catalog = JdbcCatalog(database, FilesystemCatalog(LocalFileIO(), warehouse), "jdbc", locks=True)
    catalog.create(ORDERS, create_schema([("id", parse_type("INT"))], ["id"], [], {"bucket": "1"}))
    address = json.dumps({
        "metastore": "jdbc", "uri": uri, "warehouse": warehouse, "table": str(ORDERS), "lock.enabled": "true",
        "jdbc.user": postgres.user, "jdbc.password": postgres.password, "lock-acquire-timeout": "1 s",
    })  # fmt: skip
    database.change("UPDATE paimon_distributed_locks SET expire_time_seconds = 600")
    with catalog.locked(ORDERS), pytest.raises(WorkerError, match="Acquire lock failed"):
        java.write(address, [["+I", 1]])
    java.write(address, [["+I", 1]], identifier=2)
    assert sorted_rows(java.read(address)) == [["+I", 1]]
