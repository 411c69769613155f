"""A pipeline of one topic of orders, partitioned by day, as a process of its own that a test may kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stack.topics import TopicRecord
from tests.support.pipeline_run import killed_at_the_end

_YAML = """\
version: 1
name: again
source:
  kafka: {{ bootstrap_servers: {servers}, topics: [{topic}], max_records_per_batch: {most_records} }}
  format: debezium-json
trigger: {{ interval: 500ms }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
spark: {{ master: 'local[2]', spark.driver.memory: 1g }}
tables:
  - match: {{ table: orders }}
    into: lake.orders
    primary_key: [id, day]
    partition_by: [day]
    columns: {{ types: {{ id: INT, day: INT, n: {number_type} }} }}
    options: {{ bucket: 1, {options} }}
"""


def written(
    root: Path,
    servers: str,
    topic: str,
    *,
    options: str = "sequence.field: n",
    number_type: str = "INT",
    most_records: int = 500,
) -> Path:
    """The pipeline's file; ``options`` of its table are those beside the bucket, ``number_type`` is that of ``n``."""
    file = root / "again.yaml"
    values = {"options": options, "number_type": number_type, "most_records": most_records}
    file.write_text(_YAML.format(servers=servers, topic=topic, root=root, **values))
    return file


def events(rows: Iterable[dict[str, Any]]) -> list[TopicRecord]:
    source = {"db": "shop", "schema": "public", "table": "orders"}
    values = [(row["id"], {"before": None, "after": row, "op": "c", "source": source}) for row in rows]
    return [
        TopicRecord(json.dumps({"id": key}).encode(), json.dumps(v).encode(), partition=key % 2) for key, v in values
    ]


def row(key: int, n: Any = None) -> dict[str, Any]:
    return {"id": key, "day": key % 4, "n": key if n is None else n}


@contextmanager
def running(file: Path, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline in a session of its own."""
    with log.open("ab") as out:
        command = [sys.executable, "-m", "tidemark", "run", str(file)]
        env = {**os.environ, **environment}
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=env)
    with killed_at_the_end(process, log):
        yield process
