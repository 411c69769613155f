"""Pipelines that read topics of a broker, run as a user does, and the events that fill the topics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from paimon_table.table import Table
from tests.stack.topics import TopicRecord

YAML = """\
version: 1
name: {name}
source:
  kafka:
    bootstrap_servers: {servers}
    topics: {topics}
    start: {start}
    max_records_per_batch: {max_records}
    reader: {reader}
    options: {options}
  format: debezium-json
  on_data_loss: {on_data_loss}
trigger: {{ interval: {interval} }}
checkpoint: {root}/{name}-checkpoint
on_lost_checkpoint: {on_lost_checkpoint}
catalog: {{ warehouse: {root}/{name} }}
spark: {{ master: 'local[2]', spark.driver.memory: 1g }}
defaults: {{ options: {{ bucket: 1 }} }}
otherwise: {{ create: {{ into: 'lake.{{topic}}' }} }}
"""


def write_kafka_pipeline(
    root: Path,
    servers: str,
    topics: object,
    options: Mapping[str, str] | None = None,
    name: str = "shop",
    start: str = "earliest",
    max_records: int = 1000,
    on_lost_checkpoint: str = "resume",
    on_data_loss: str = "fail",
    interval: str = "500ms",
    reader: str = "auto",
) -> Path:
    """A pipeline file that makes a table of every topic, named after it, in the warehouse ``root/name``."""
    file = root / f"{name}.yaml"
    text = YAML.format(
        name=name,
        servers=servers,
        topics=json.dumps(topics),
        options=json.dumps(dict(options or {})),
        root=root,
        start=start,
        max_records=max_records,
        on_lost_checkpoint=on_lost_checkpoint,
        on_data_loss=on_data_loss,
        interval=interval,
        reader=reader,
    )
    file.write_text(text)
    return file


def insert_event(topic: str, row_id: int, partition: int = 0) -> TopicRecord:
    """The insert of one row ``{id, n}`` into the source table of a topic."""
    value = {"before": None, "after": {"id": row_id, "n": row_id * 10}, "op": "c", "source": {"table": topic}}
    return TopicRecord(json.dumps({"id": row_id}).encode(), json.dumps(value).encode(), partition=partition)


def insert_events(topic: str, ids: Iterable[int]) -> list[TopicRecord]:
    return [insert_event(topic, row_id) for row_id in ids]


def table_names(root: Path, name: str = "shop") -> set[str]:
    """The tables that a pipeline has made: a directory alone is none yet."""
    return {path.parent.parent.name for path in (root / name / "lake.db").glob("*/schema/schema-0")}


def row_ids(root: Path, table: str, name: str = "shop") -> list[int]:
    rows = Table.open(f"{root}/{name}/lake.db/{table}").to_arrow().to_pylist()
    return sorted(row["id"] for row in rows)
