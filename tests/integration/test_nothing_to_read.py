"""A run that finds nothing to read says why, and ends with code 1 where no topic matches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.topics import Topics
from tests.support.kafka_pipelines import insert_event, write_kafka_pipeline
from tests.support.pipeline_run import run_together

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.slow]


def test_no_topic_and_no_record_behind_the_start_are_told(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("nothing.orders")
    kafka.produce("nothing.orders", [insert_event("nothing.orders", 1)])
    servers = kafka.bootstrap_servers
    files = [
        write_kafka_pipeline(tmp_path, servers, {"include": [r"nothing\.order"]}, name="none"),
        write_kafka_pipeline(
            tmp_path, servers, ["nothing.orders"], name="late", start="{ timestamp: '2099-01-01T00:00:00Z' }"
        ),
    ]

    done = run_together(files, timeout_s=240)

    assert done.returncode == 1
    assert "none: nothing was read\n" in done.stdout
    assert "late: nothing was read: source.kafka.start (2099-01-01T00:00:00+00:00) is later than" in done.stdout
    (told,) = done.stderr.splitlines()[-1:]
    assert told.startswith("pipeline none: no topics of Kafka at") and "did you mean 'nothing.orders'?" in told
    before_spark = done.stderr.partition("starting Spark")[0]
    assert "no topics of Kafka at" in before_spark


def test_a_listed_topic_that_is_not_there_is_refused_before_spark_starts(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("nothing.items")
    file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["nothing.itemz"])

    done = run_together([file], timeout_s=240)

    assert done.returncode == 2
    assert "'nothing.itemz' (did you mean 'nothing.items'?)" in done.stderr
    assert "starting Spark" not in done.stderr
