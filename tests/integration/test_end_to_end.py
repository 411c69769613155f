"""PostgreSQL -> Debezium -> Kafka -> Tidemark -> Paimon with real parts, while the pipeline is killed and restarted."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.integration.comparison import run_until_equal
from tests.integration.workload import new_workload
from tests.stack.connect import Connect
from tests.stack.postgres import Postgres
from tests.stack.topics import Topics
from tests.support.pipeline_run import kill, running, wait_until

pytestmark = pytest.mark.stack
NAME = "end_to_end"
PIPELINE = """\
version: 1
name: {name}
source:
  kafka:
    bootstrap_servers: {servers}
    topics: {{ include: ['{name}\\.public\\..*'] }}
    max_records_per_batch: 300
    options: {{ metadata.max.age.ms: 1000 }}
  format: debezium-json
trigger: {{ interval: 500ms }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
spark: {{ master: 'local[2]', spark.driver.memory: 1g }}
defaults: {{ options: {{ bucket: 2, changelog-producer: lookup }} }}
tables:
  - match: {{ schema: public, table: '(?!zz_).*' }}
    into: 'lake.{{table}}'
"""


def test_tables_equal_their_source_after_kills_and_restarts(
    tmp_path: Path, kafka: Topics, postgres: Postgres, connect: Connect
) -> None:
    workload = new_workload(postgres, NAME, seed=23)
    workload.fill(40)
    schemas = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}
    connect.capture(NAME, postgres, NAME, schemas)
    file, log = tmp_path / "pipeline.yaml", tmp_path / "tidemark.log"
    file.write_text(PIPELINE.format(name=NAME, servers=kafka.bootstrap_servers, root=tmp_path))

    def snapshots() -> int:
        return len(list(tmp_path.glob("warehouse/lake.db/*/snapshot/snapshot-*")))

    def has_moved(process: subprocess.Popen[bytes], before: int) -> bool:
        return snapshots() > before + 2 or process.poll() is not None

    for _ in range(2):
        with running(file, log) as process:
            before = snapshots()
            workload.run(60)
            wait_until(partial(has_moved, process, before), 240, "a commit")
            assert process.poll() is None, log.read_text()
            workload.run(60)
            kill(process)

    run_until_equal(tmp_path, file, log, workload)
    connect.release(NAME)
