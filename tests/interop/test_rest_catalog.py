"""One table behind one REST catalog server, written by Tidemark and Java in turns, read by all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_table.catalog.rest_catalog import RestCatalog
from paimon_table.catalog.rest_client import RestClient, RestSettings
from paimon_table.catalog.table_name import TableName
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.file_io import file_io_for
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, RenameColumn, SchemaChange, WidenColumn
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.stack.rest_catalog import RestServer, rest_server
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver

ORDERS = TableName("lake", "orders")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    """As servers of Paimon 1.4, of which Java is here: later ones want to know the base of a commit."""
    with rest_server(tmp_path / "lake", token="secret", is_old=True) as running:
        yield running


def _catalog(server: RestServer) -> RestCatalog:
    return RestCatalog(RestClient(RestSettings(server.uri, "shop", lambda: server.token)), file_io_for)


def _for_others(server: RestServer) -> str:
    options = {"metastore": "rest", "uri": server.uri, "warehouse": "shop"}
    return json.dumps({**options, "token.provider": "bear", "token": str(server.token), "table": str(ORDERS)})


def test_a_table_of_a_server_is_written_in_turns_and_read_equal(
    server: RestServer, tmp_path: Path, java: JavaPaimon, python_readers: PythonReaders
) -> None:
    catalog, address = _catalog(server), _for_others(server)
    columns = [("day", parse_type("DATE")), ("id", parse_type("INT")), ("status", parse_type("STRING"))]
    options = {"bucket": "2", "changelog-producer": "lookup"}
    catalog.create(ORDERS, create_schema(columns, ["day", "id"], ["day"], options))

    # given rows of Tidemark, then of Java, which compacts them
    driver = TableDriver(catalog.load(ORDERS), tmp_path / "lookup")
    driver.commit([["+I", "2026-01-01", 1, "new"], ["+I", "2026-01-02", 2, "new"]])
    java.write(address, [["+I", "2026-01-01", 3, "java"], ["-D", "2026-01-02", 2, "new"]], compact=True)

    # when Tidemark changes the schema through the server and continues
    changes: list[SchemaChange] = [AddColumn("total", parse_type("INT"), after="id"), RenameColumn("status", "state")]
    evolved = catalog.load(ORDERS).evolve(changes, time_ms=5)
    evolved = evolved.evolve([WidenColumn("total", parse_type("BIGINT"))], time_ms=6)
    driver = TableDriver(evolved, tmp_path / "lookup2", first_identifier=2)
    driver.commit([["+U", "2026-01-01", 1, 5_000_000_000, "paid"]])
    java.write(address, [["+I", "2026-01-03", 4, 7, "java"]], identifier=2)

    # then all readers have the same rows and changes, and the server counts them
    rows = [["2026-01-01", 1, 5_000_000_000, "paid"], ["2026-01-01", 3, None, "java"], ["2026-01-03", 4, 7, "java"]]
    expected = sorted_rows(rows)
    assert TableDriver(catalog.load(ORDERS), tmp_path / "lookup3").content() == expected
    assert sorted_rows(java.read(address)) == sorted_rows([["+I", *row] for row in rows])
    read = python_readers.pypaimon(address)
    assert read is not None
    assert sorted(map(str, read.to_pylist())) == sorted(map(str, catalog.load(ORDERS).to_arrow().to_pylist()))
    assert server.databases["lake"]["orders"].schema_id == 2
