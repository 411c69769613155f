"""Run `tidemark` the way a user does: as a process of its own, from a YAML file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

YAML = """\
version: 1
name: {name}
source:
  files: {{ path: {dumps}, max_records_per_batch: {max_records} }}
  format: debezium-json
trigger: {{ interval: 1s }}
checkpoint: {root}/checkpoint
catalog: {{ type: filesystem, warehouse: {root}/warehouse }}
spark:
  master: {master}
  spark.driver.memory: 1g
defaults:
  options: {{ bucket: 2, changelog-producer: {producer} }}
tables:
  - match: {{ schema: public, table: '(.*)' }}
    into: 'lake.{{table}}'
"""


def write_pipeline(
    root: Path, dumps: Path, max_records: int = 400, producer: str = "lookup", master: str = "local[2]"
) -> Path:
    """A pipeline file below ``root`` that reads ``dumps`` into ``root/warehouse``."""
    file = root / "pipeline.yaml"
    text = YAML.format(name="shop", dumps=dumps, root=root, max_records=max_records, producer=producer, master=master)
    file.write_text(text)
    return file


def run_once(
    file: Path, env: Mapping[str, str] | None = None, timeout_s: float = 240
) -> subprocess.CompletedProcess[str]:
    """`tidemark run FILE --once` in a session (and process group) of its own."""
    tidemark = Path(sys.executable).with_name("tidemark")
    return subprocess.run(
        [str(tidemark), "run", str(file), "--once"],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        start_new_session=True,
        check=False,
    )
