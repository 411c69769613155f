"""What a session is started with, and what of a plan may be read by others."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaPackage
from pyspark.errors import PySparkException

from paimon_table.errors import (
    BrokenInvariant,
    ConfigError,
    MachineFailure,
    MalformedRecord,
    SinkUnavailable,
    TidemarkError,
    error_classes,
)
from pipelines.batch.plan import BatchRun, plan_batch
from pipelines.spark.session import check_connector, open_session
from pipelines.spark.session_properties import names_collector
from pipelines.spark.spark_errors import first_cause, second_run, task_failure, told_by_spark
from sources.changes import RECORD_SCHEMA
from tests.support.events import History, write_dump
from tests.support.local_batches import dump_batches, pipeline_tables, processed, run_batches, task_settings
from tests.support.waiting import seconds

_RULES: list[dict[str, object]] = [{"match": {"table": "orders"}, "into": "lake.orders"}]


def _records(directory: Path) -> pa.RecordBatch:
    history = History("orders", seed=3, keys=5).extend(40)
    write_dump(directory / "dump", [history])
    return next(dump_batches(directory / "dump" / f"{history.topic}.jsonl", 1000))


def test_a_jvm_of_spark_submit_without_the_kafka_connector_is_refused_before_the_session_starts() -> None:
    there, package = object(), JavaPackage("org", None, "")

    def jvm(provider: object, admin: object) -> SimpleNamespace:
        kafka = SimpleNamespace(clients=SimpleNamespace(admin=SimpleNamespace(Admin=admin)))
        sql = SimpleNamespace(kafka010=SimpleNamespace(KafkaSourceProvider=provider))
        return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=sql), kafka=kafka)))

    check_connector(jvm(there, there))
    for provider, admin in ((package, there), (there, package)):
        with pytest.raises(ConfigError, match=r"--packages org\.apache\.spark:spark-sql-kafka-0-10_2\.13:\d"):
            check_connector(jvm(provider, admin))


@pytest.mark.parametrize(
    ("properties", "variables", "expected"),
    [
        ({}, {}, False),
        ({"spark.driver.extraJavaOptions": "-Dgc.log=GC -Xss2m"}, {}, False),
        ({"spark.driver.extraJavaOptions": "-XX:+UseZGC"}, {}, True),
        ({"spark.driver.defaultJavaOptions": "-Xss2m -XX:+UseG1GC"}, {}, True),
        ({}, {"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC"}, True),
    ],
)
def test_a_garbage_collector_that_somebody_chose_is_noticed(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], variables: dict[str, str], expected: bool
) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert names_collector(properties) is expected


def test_the_plan_of_decode_tasks_holds_no_storage(tmp_path: Path) -> None:
    """It stands in the properties of the job, which Spark may write to its event log."""
    tables = pipeline_tables(tmp_path, _RULES)
    records = _records(tmp_path)
    run_batches(tables, [records], tmp_path)

    plan = plan_batch(tables, BatchRun(1), task_settings(tmp_path))

    assert plan.decode.targets and b"file_io" not in pickle.dumps(plan.decode)
    assert b"file_io" in pickle.dumps(plan.write)


def test_rows_that_an_engine_refuses_are_reported_with_table_and_bucket(tmp_path: Path) -> None:
    options = {"merge-engine": "first-row", "changelog-producer": "lookup", "rowkind.field": "kind"}
    tables = pipeline_tables(tmp_path, _RULES, **options)
    source = {"db": "shop", "schema": "public", "table": "orders"}
    rows = []
    for offset, kind in enumerate(("+I", "-D")):
        place = {"topic": "shop.public.orders", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        event = {"after": {"id": 1, "kind": kind}, "source": source, "op": "c"}
        rows.append({**place, "key": b'{"id": 1}', "value": json.dumps(event).encode()})
    records = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    with pytest.raises(MalformedRecord, match=r"table lake\.orders, bucket \d+: .*ignore-delete"):
        processed(tables, [records], task_settings(tmp_path))


def test_an_error_of_a_task_is_told_without_the_frames_of_the_worker() -> None:
    text = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in <module>
paimon_table.errors.SinkUnavailable: the disk is full: make room and start again
"""
    failure = task_failure(text)
    assert failure is not None and type(failure).__name__ == "SinkUnavailable"
    assert str(failure) == "the disk is full: make room and start again"
    assert task_failure("java.lang.OutOfMemoryError: Java heap space") is None


@pytest.mark.parametrize("name", sorted(error_classes()))
def test_every_error_of_ours_in_a_task_is_the_same_on_the_driver(name: str) -> None:
    kind = error_classes()[name]
    text = f"Job aborted\nTraceback (most recent call last):\n  File\n{kind.__module__}.{name}: what, and what next\n"

    failure = task_failure(text)

    assert type(failure) is kind
    assert str(failure) == "what, and what next"


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (
            "OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
            MachineFailure,
            r"storage .* No space left on device; free some space there",
        ),
        (
            "NotADirectoryError: [Errno 20] Not a directory: '/lake/a'",
            SinkUnavailable,
            "a directory: ./lake/a.; a file has the name of a directory of this path",
        ),
        (
            "PermissionError: s3://lake/a: An error occurred (AccessDenied) when calling the PutObject operation",
            SinkUnavailable,
            "AccessDenied.*check the path, the access",
        ),
        ("pyarrow.lib.ArrowInvalid: offset overflow", BrokenInvariant, "ArrowInvalid: offset overflow"),
        ("KeyError: 'x'", BrokenInvariant, "KeyError: 'x'; TIDEMARK_DEBUG=1"),
        ("MemoryError", BrokenInvariant, "MemoryError"),
    ],
)
def test_an_unexpected_error_of_a_task_is_one_line(raised: str, kind: type[TidemarkError], message: str) -> None:
    text = f"""An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 13.0:
Traceback (most recent call last):
  File "file_io.py", line 116, in open_output
    self.delete(path)
    ^^^^^^^^^^^^^^^^^
{raised}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.read(PythonRunner.scala:581)
Driver stacktrace:
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
    failure = task_failure(text)
    assert type(failure) is kind
    assert re.search(message, str(failure))
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Job aborted\nDriver stacktrace:\nCaused by: java.io.IOException: broken disk\n\tat a.b", "broken disk"),
        ("Query [id = 1] terminated with exception: no offsets.", "no offsets"),
        ("null\n=== Streaming Query ===", "ran out of memory"),
        (
            "Job aborted: Python worker failed to connect back.\nCaused by: java.net.SocketTimeoutException",
            "overloaded",
        ),
        (
            "Job aborted due to stage failure: org.apache.spark.SparkException: Python worker exited unexpectedly"
            " (crashed)\nCaused by: java.io.EOFException",
            "ran out of memory",
        ),
        (
            "An error occurred while calling o42.collectToPython.\n: org.apache.spark.SparkException: Job 8 cancelled"
            " because SparkContext was shut down\n\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$cleanUp",
            "spark.driver.memory",
        ),
        (
            'Job aborted: java.io.IOException: Cannot run program "/root/venv/bin/python": error=13, Permission denied'
            "\n\tat a.b\nCaused by: java.io.IOException: error=13, Permission denied",
            "/root/venv/bin/python cannot be started (Permission denied)",
        ),
        ("An error occurred while calling o4265.collectToPython.\n: java.lang.Exception: no room\n\tat a.b", "no room"),
        (
            "An error occurred while calling o5.collectToPython.\n: java.nio.file.NoSuchFileException: "
            "/tmp/tidemark-0/7/spark/blockmgr-a4c7/1d\n\tat a.b",
            "/tmp/tidemark-0/7/spark/blockmgr-a4c7 no longer exists; a cleaner of temporary files may have removed it",
        ),
    ],
)
def test_the_cause_of_what_spark_gives_up_is_one_line(text: str, cause: str) -> None:
    assert cause in first_cause(Exception(text))
    assert "\n" not in first_cause(Exception(text)) and not first_cause(Exception(text)).endswith(".")


def test_threads_that_are_not_pinned_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "False")
    with pytest.raises(ConfigError, match=r"PYSPARK_PIN_THREAD.*unset it"):
        open_session([])


@pytest.mark.parametrize(
    "text",
    [
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 4.",
        "An error occurred while calling o89.start.\n: org.apache.spark.SparkConcurrentModificationException: x",
    ],
)
def test_a_second_run_on_a_checkpoint_is_told_in_words(text: str) -> None:
    error = second_run(text, "s3://lake/checkpoint")
    assert error is not None
    assert str(error).startswith("another run uses checkpoint s3://lake/checkpoint: ")
    assert second_run("[STREAM_FAILED] something else", "s3://lake/checkpoint") is None


_KILLED_AS_IT_STARTS = """
import pickle
import sys
from pyspark import SparkContext
from pipelines.spark import session
launch = session.JVM_OUTPUT.launch
def launch_and_kill(*given):
    is_new = launch(*given)
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    return is_new
session.JVM_OUTPUT.launch = launch_and_kill
config = pickle.loads(bytes.fromhex(sys.argv[1]))
try:
    session.open_session([config])
except session.SinkUnavailable as error:
    print(error)
"""


@pytest.mark.slow
def test_a_jvm_that_ends_while_spark_starts_is_told_as_that(tmp_path: Path) -> None:
    config = pickle.dumps(pipeline_tables(tmp_path, _RULES).config)
    command = [sys.executable, "-c", _KILLED_AS_IT_STARTS, config.hex()]
    told = subprocess.run(command, capture_output=True, text=True, timeout=seconds(120))
    assert told.stdout.startswith("Spark did not start: its JVM ended; start again"), told.stderr


def test_what_ends_a_job_is_told_in_our_own_words() -> None:
    text = (
        "Job aborted\nTraceback (most recent call last):\n  File\nOSError: [Errno 28] No space left on device: '/w/a'\n"
    )
    with (
        pytest.raises(SinkUnavailable, match="No space left on device: '/w/a'; free some space there"),
        told_by_spark("table lake.orders: Spark gave slice 3 up", lambda _: None),
    ):
        raise PySparkException(text)
    with (
        pytest.raises(SinkUnavailable, match=r"Spark gave slice 3 up: no more heap; call again"),
        told_by_spark("table lake.orders: Spark gave slice 3 up", lambda _: None),
    ):
        raise PySparkException("no more heap\n\tat org.apache.spark.Task.run(Task.scala:1)")
