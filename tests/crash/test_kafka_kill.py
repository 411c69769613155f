"""A real SIGKILL at steps of batches that read Kafka; each start goes on under the other reader's checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pytest
from confluent_kafka import Producer

from paimon_table.table import Table
from sinks.faults import CRASH_VARIABLE
from tests.stack.kafka import running_kafka
from tests.stack.topics import Topics
from tests.support.changelog import replay_strictly
from tests.support.kafka_pipelines import write_kafka_pipeline
from tests.support.pipeline_run import run_once
from tests.support.waiting import seconds

pytestmark = [pytest.mark.crash, pytest.mark.stack, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with running_kafka(tmp_path_factory.mktemp("killed") / "broker") as topics:
        yield topics


@pytest.mark.parametrize(
    ("readers", "points"),
    [
        (("direct", "spark", "direct"), ("before-append@0", "after-append@1")),
        (("spark", "direct"), ("before-append@0",)),
    ],
    ids=[" then ".join(readers) for readers in (("direct", "spark", "direct"), ("spark", "direct"))],
)
def test_killed_batches_go_on_under_the_other_reader(
    tmp_path: Path, broker: Topics, readers: Sequence[str], points: Sequence[str]
) -> None:
    """Also the first batch, which is planned and not closed; records of two partitions, some of them aborted."""
    topic = f"{readers[0]}.orders"
    broker.create(topic, partitions=2)
    wanted = _filled(broker.bootstrap_servers, topic)
    for reader, point in zip_longest(readers, points):
        topics = {"include": [rf"{readers[0]}\..*"]}
        file = write_kafka_pipeline(tmp_path, broker.bootstrap_servers, topics, max_records=700, reader=reader)
        file.write_text(file.read_text().replace("bucket: 1", "bucket: 1, changelog-producer: lookup"))
        done = run_once(file, {} if point is None else {CRASH_VARIABLE: point})
        assert (done.returncode == 0) is (point is None), done.stderr
        assert "Traceback" not in done.stderr

    table = Table.open(f"{tmp_path}/shop/lake.db/{topic}")
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == wanted
    changes = [rows for _, rows in table.changes()]
    assert {key[0]: row["n"] for key, row in replay_strictly(changes, ["id"]).items()} == wanted
    latest_id = table.snapshots.latest_id()
    assert latest_id is not None
    snapshots = [table.snapshots.read(i) for i in range(1, latest_id + 1)]
    committed = Counter((one.commit_identifier, one.commit_kind) for one in snapshots)
    assert set(committed.values()) == {1}, "a batch was committed twice"


def _filled(servers: str, topic: str) -> dict[int, int]:
    """Updates of 40 rows in transactions, each second of them aborted; the rows that are left."""
    rows: dict[int, int] = {}
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "compression.type": "zstd"})
    producer.init_transactions(seconds(60))
    for transaction in range(30):
        producer.begin_transaction()
        for number in range(100):
            key, n = (transaction * 7 + number) % 40, transaction * 100 + number
            event = {"before": None, "after": {"id": key, "n": n}, "op": "c", "source": {"table": topic}}
            producer.produce(topic, json.dumps(event), json.dumps({"id": key}), partition=key % 2)
            if transaction % 2 == 0:
                rows[key] = n
        producer.flush(seconds(60))
        if transaction % 2 == 0:
            producer.commit_transaction(seconds(60))
        else:
            producer.abort_transaction(seconds(60))
    return rows
