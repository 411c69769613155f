"""MariaDB -> Debezium -> Kafka -> tables: they equal what SELECT says, for the types that other databases lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from sources.changes import RECORD_SCHEMA
from tests.integration.mariadb_types import CHANGES, RECORDS, ROWS, SELECT, TABLE, assert_table, inserts
from tests.stack.connect import running_connect
from tests.stack.mariadb import MariaDB, debezium_properties
from tests.stack.topics import TopicRecord, Topics

pytestmark = pytest.mark.stack

_SCHEMAS = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}
_BOOLEANS = {
    "converters": "flags",
    "flags.type": "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter",
    "flags.selector": ".*\\.flag",
}
CONNECTORS: Mapping[str, Mapping[str, str]] = {
    "my_long": {},
    "my_precise": {"bigint.unsigned.handling.mode": "precise", **_SCHEMAS},
    "my_told": {"column.propagate.source.type": ".*", **_SCHEMAS, **_BOOLEANS},
}
"""Every way to send BIGINT UNSIGNED: as a signed number, as a decimal, as a number whose type the schema tells."""


@pytest.fixture(scope="module")
def topics(
    tmp_path_factory: pytest.TempPathFactory, kafka: Topics, mariadb: MariaDB
) -> Iterator[dict[str, list[TopicRecord]]]:
    """The records of one table by all connectors: half of its rows by the snapshot, the others by the binary log."""
    directory = tmp_path_factory.mktemp("mariadb_connect")
    mariadb.execute("CREATE DATABASE kinds;")
    mariadb.execute(TABLE + inserts(1), "kinds")
    utc = ("-Duser.timezone=UTC",)
    with running_connect(directory, kafka.bootstrap_servers, "debezium-mariadb", utc) as connect:
        for number, (name, properties) in enumerate(CONNECTORS.items()):
            history = directory / f"{name}.history"
            connect.run(name, {**debezium_properties(name, mariadb, "kinds", 100 + number, history), **properties})
        for name in CONNECTORS:
            kafka.wait_for_records(f"{name}.kinds.kinds", len(ROWS))
        mariadb.execute(inserts(101) + CHANGES, "kinds")
        yield {name: kafka.wait_for_records(f"{name}.kinds.kinds", RECORDS) for name in CONNECTORS}


def batch_of(topic: str, records: Sequence[TopicRecord]) -> pa.RecordBatch:
    head = {"topic": topic, "partition": 0}
    rows = [
        {**head, "offset": r.offset, "timestamp": r.timestamp_ms * 1000, "key": r.key, "value": r.value}
        for r in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


@pytest.mark.parametrize("size", [1, RECORDS])
@pytest.mark.parametrize("name", CONNECTORS)
def test_a_table_is_what_select_says(
    tmp_path: Path, topics: dict[str, list[TopicRecord]], mariadb: MariaDB, name: str, size: int
) -> None:
    records = topics[name]
    batches = [batch_of(f"{name}.kinds.kinds", records[at : at + size]) for at in range(0, len(records), size)]

    assert_table(tmp_path, name, batches, mariadb.rows("kinds", SELECT, "kinds"))
