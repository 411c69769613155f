"""A pipeline file with a quarantine, and bad records in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table import Table
from paimon_table.history.retention import Limits
from paimon_table.ids import Offset
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.storage.file_io import LocalFileIO
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.log import Place, QuarantineLog, Sealed, stretches
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config_file import load_pipeline
from pipelines.prepared import own_tables
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA, QuarantineRow
from tests.support.local_batches import processed, task_settings

YAML = """\
version: 1
name: shop
source: {{ files: {{ path: {root}/dumps }}, format: debezium-json }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
tables:
  - match: {{ table: '(.*)' }}
    into: 'lake.{{table}}'
    columns: {{ types: {{ n: INT }} }}
    options: {options}
"""

QUERY = "11111111-2222-3333-4444-555555555555"


def write_pipeline(root: Path, options: Mapping[str, str] | None = None) -> Path:
    """A pipeline named shop, below ``root``, that makes a table ``lake.TABLE`` of each source table."""
    (root / "dumps").mkdir(parents=True, exist_ok=True)
    file = root / "shop.yaml"
    file.write_text(YAML.format(root=root, options=json.dumps({"bucket": "1", **(options or {})})))
    return file


def read_from_kafka(file: Path) -> None:
    """Let the pipeline read Kafka, where positions show what a table has; no broker is needed."""
    kafka = "kafka: { bootstrap_servers: 'localhost:1', topics: { include: ['shop.*'] } }"
    file.write_text(file.read_text().replace(f"files: {{ path: {file.parent}/dumps }}", kafka))


def quarantine(root: Path, owner: str = QUERY) -> Quarantine:
    return Quarantine(LocalFileIO(private=True), f"{root}/checkpoint-quarantine/{owner}")


def checkpoint(root: Path, closed_batch: int) -> None:
    """What Spark leaves of a checkpoint whose batches are done up to this one."""
    for directory in ("offsets", "commits"):
        (root / "checkpoint" / directory).mkdir(parents=True, exist_ok=True)
        number = root / "checkpoint" / directory / str(closed_batch)
        number.write_text('v1\n{"batchTimestampMs":1700000000000}\n{"files":{}}')
    (root / "checkpoint" / "metadata").write_text(json.dumps({"id": QUERY}))


def bad(
    offset: int, reason: str = "it is broken", topic: str = "shop.public.orders", value: bytes | None = b"?"
) -> QuarantineRow:
    """A bad record of partition 0, one second after the other."""
    return QuarantineRow(topic, 0, Offset(offset), 1_700_000_000_000 + offset * 1000, reason, b'{"id":1}', value)


def envelope(key: int, n: Any, **more: Any) -> bytes:
    """The insert of a row of orders."""
    after = {"id": key, "n": n, **more}
    source = {"db": "shop", "schema": "public", "table": "orders"}
    return json.dumps({"before": None, "after": after, "source": source, "op": "c"}).encode()


def letters(root: Path) -> DeadLetters:
    """The quarantine of the pipeline that ``write_pipeline`` has written."""
    return DeadLetters(load_pipeline(root / "shop.yaml"))


def lines_left(root: Path) -> list[dict[str, Any]]:
    """The open records in the quarantine, from any step."""
    return [json.loads(line.text) for line in letters(root).records()]


def offsets_left(root: Path) -> list[int]:
    return sorted(line["offset"] for line in lines_left(root))


def put(root: Path, batch: int, rows: Iterable[QuarantineRow], owner: str = QUERY) -> None:
    """Bad records as a step leaves them that was not committed."""
    rows, of_owner = list(rows), quarantine(root, owner)
    log = QuarantineLog(of_owner.io, of_owner.root)
    is_again = log.last_sealed(of_owner.step(batch)) is not None
    name = replace(of_owner, run=str(len(log.entries)) if is_again else "").add(batch, 0, rows)
    places = stretches(Place(row.topic, "", row.partition, row.offset, row.timestamp_ms) for row in rows)
    log.append(Sealed(step=of_owner.step(batch), bad={name: places}))


def record(offset: int, value: bytes, topic: str = "shop.public.orders", key: int | None = None) -> dict[str, Any]:
    """A row of a batch of Kafka records; the message key has the id, which is the offset unless given."""
    message_key = json.dumps({"id": offset if key is None else key}).encode()
    place = {"topic": topic, "partition": 0, "offset": offset, "timestamp": (1_700_000_000_000 + offset * 1000) * 1000}
    return {**place, "key": message_key, "value": value, "headers": None}


def run_batch(root: Path, file: Path, batch: int, *rows: dict[str, Any]) -> None:
    """Run one batch of the pipeline, and let its checkpoint say that it is done."""
    config = load_pipeline(file)
    CheckpointRecord(config, Checkpoint(config)).start()
    tables = PipelineTables(config, f"tidemark-shop-{QUERY}", own_tables(config))
    settings = task_settings(root, quarantine(root), config.decoder, slots=1)
    processed(tables, [pa.RecordBatch.from_pylist(list(rows), schema=RECORD_SCHEMA)], settings, batch)
    checkpoint(root, batch)


def table(root: Path, name: str = "orders") -> Table:
    return Table.open(f"{root}/warehouse/lake.db/{name}")


def forget_the_past(root: Path) -> None:
    """Expire all snapshots of the table but the newest."""
    expire(table(root).context, Surroundings(), Limits(1, 1, 0, 100))


def rows_of(root: Path, name: str = "orders") -> dict[int, Any]:
    """Column n by id."""
    return {row["id"]: row["n"] for row in table(root, name).to_arrow().to_pylist()}
