"""PostgreSQL -> Debezium -> Kafka -> Tidemark -> Paimon with real parts, while the pipeline is killed and restarted."""

from __future__ import annotations

import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from paimon_table.table import Table
from tests.integration.comparison import differences_so_far
from tests.integration.source_tables import TABLES
from tests.integration.workload import new_workload
from tests.stack.connect import Connect
from tests.stack.postgres import Postgres
from tests.stack.topics import Topics
from tests.support.changelog import replay_strictly
from tests.support.pipeline_run import kill, running, wait_until
from tests.support.waiting import seconds

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

    remaining = partial(differences_so_far, tmp_path / "warehouse", workload.connection)
    with running(file, log) as process:
        workload.run(60)
        deadline = time.monotonic() + seconds(240)
        while (problems := remaining()) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(1)
        assert problems == [], log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=seconds(60)) == 0, log.read_text()
    connect.release(NAME)
    for table in TABLES:
        paimon = Table.open(f"{tmp_path}/warehouse/lake.db/{table.name}")
        replayed = replay_strictly((rows for _, rows in paimon.changes()), [column.name for column in table.key])
        assert len(replayed) == len(paimon.to_arrow())
    assert not (tmp_path / "checkpoint-quarantine").exists()
