"""The dump source inside a real Spark query: limits, restarts, growing and new files, broken lines."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sources.changes import RECORD_SCHEMA
from sources.dumps.dump_source import DumpPlanner, DumpReader
from sources.dumps.settings import DumpSettings
from sources.planned_stream import planned_stream
from sources.topics import TopicSelection

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    yield session
    session.stop()


def line(offset: int, topic: str = "t") -> str:
    record = {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "ts": 1700000000000 + offset,
        "key": "k",
        "payload": "{}",
    }
    return json.dumps(record) + "\n"


def records_of(spark: SparkSession, dumps: Path, limit: int, topics: TopicSelection = TopicSelection()) -> DataFrame:
    """The records of a dump as a stream, read by a Python step of its own."""
    reader = DumpReader(topics)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reader(share for batch in batches for share in batch.column(0).to_pylist())

    shares = planned_stream(spark, "dumps", DumpPlanner(DumpSettings(str(dumps), topics, limit)), 0.0)
    return shares.mapInArrow(read, from_arrow_schema(RECORD_SCHEMA))


def drain(
    spark: SparkSession,
    dumps: Path,
    checkpoint: Path,
    limit: int,
    topics: TopicSelection = TopicSelection(),
    fail_in: int | None = None,
) -> list[list[tuple[str, int]]]:
    """Run a query until it has read everything; the (topic, offset) pairs of each of its batches."""
    batches: list[list[tuple[str, int]]] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        rows = [(r.topic, r.offset) for r in batch.collect()]
        if fail_in == batch_id:
            raise RuntimeError("stop here")
        batches.append(rows)

    query = (
        records_of(spark, dumps, limit, topics)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        query.processAllAvailable()
    except Exception:
        if fail_in is None:
            raise
    finally:
        query.stop()
    return batches


def offsets(batches: list[list[tuple[str, int]]]) -> list[int]:
    return [offset for batch in batches for _, offset in batch]


def test_a_large_file_is_read_in_batches_of_the_limit(spark: SparkSession, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "a.jsonl").write_text("".join(line(i) for i in range(1000)))
    with gzip.open(dumps / "b.jsonl.gz", "wt") as file:
        file.write("".join(line(i) for i in range(1000, 1500)))

    batches = drain(spark, dumps, tmp_path / "checkpoint", 300)

    assert sorted(offsets(batches)) == list(range(1500))
    assert [len(batch) for batch in batches] == [300] * 5
    assert sorted(offsets(batches[:1])) == list(range(300))


def test_restart_goes_on_without_loss_or_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    dumps, checkpoint = tmp_path / "dumps", tmp_path / "checkpoint"
    dumps.mkdir()
    with gzip.open(dumps / "m.jsonl.gz", "wt") as file:
        file.write("".join(line(i) for i in range(700)))
    first = drain(spark, dumps, checkpoint, 300, fail_in=1)

    with (dumps / "n.jsonl").open("a") as file:
        file.write("".join(line(i) for i in range(700, 900)))
    (dumps / "a.jsonl").write_text(line(900) + line(901))
    second = drain(spark, dumps, checkpoint, 300)
    with (dumps / "n.jsonl").open("a") as file:
        file.write("".join(line(i) for i in range(902, 905)))
    third = drain(spark, dumps, checkpoint, 300)

    assert sorted(offsets(first)) == list(range(300))
    assert sorted(offsets(second)) == list(range(300, 902))
    assert sorted(offsets(third)) == [902, 903, 904]
    assert all(len(batch) <= 300 for batch in first + second + third)
    assert drain(spark, dumps, checkpoint, 300) == []


def test_a_line_is_read_once_it_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    dumps, checkpoint = tmp_path / "dumps", tmp_path / "checkpoint"
    dumps.mkdir()
    whole = line(1)
    (dumps / "a.jsonl").write_text(line(0) + whole[:30])
    before = drain(spark, dumps, checkpoint, 10)
    with (dumps / "a.jsonl").open("a") as file:
        file.write(whole[30:] + line(2).rstrip("\n"))
    after = drain(spark, dumps, checkpoint, 10)
    with (dumps / "a.jsonl").open("a") as file:
        file.write("\n" + line(3))
    last = drain(spark, dumps, checkpoint, 10)

    assert (offsets(before), offsets(after), offsets(last)) == ([0], [1, 2], [3])


def test_a_broken_line_is_handed_on_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    first = line(0)
    (dumps / "a.jsonl").write_text(first + "{broken\n" + line(1))

    batches = drain(spark, dumps, tmp_path / "checkpoint", 10)

    assert sorted(batches[0]) == [(f"malformed:{dumps}/a.jsonl", len(first)), ("t", 0), ("t", 1)]


def test_topics_are_selected_by_patterns(spark: SparkSession, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "a.jsonl").write_text(line(0, "shop.orders") + line(1, "shop.orders_tmp") + line(2, "other"))

    patterns = TopicSelection(include=(r"shop\..*",), exclude=(".*_tmp",))
    batches = drain(spark, dumps, tmp_path / "checkpoint", 10, patterns)
    named = drain(spark, dumps, tmp_path / "checkpoint2", 10, TopicSelection(names=("other",)))

    assert (offsets(batches), offsets(named)) == ([0], [2])


def test_columns_are_those_of_the_kafka_source(spark: SparkSession, tmp_path: Path) -> None:
    dumps = tmp_path / "d.jsonl"
    record = {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "ts": 1700000000123,
        "key": None,
        "payload": "ü",
        "headers": ["a", "b"],
    }
    dumps.write_text(json.dumps(record) + "\n")
    seen: list[object] = []
    query = records_of(spark, dumps, 10).writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect())).start()
    query.processAllAvailable()
    query.stop()

    row = seen[0].asDict(recursive=True)  # type: ignore[attr-defined]
    assert row.pop("timestamp").timestamp() == 1700000000.123
    assert row == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "key": None,
        "value": bytearray("ü".encode()),
        "headers": [{"key": "a", "value": bytearray(b"b")}],
    }
