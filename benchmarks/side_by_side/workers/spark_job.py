"""A Spark stream from Kafka into Iceberg or Delta tables, until the topic is drained: ``spark_job.py TASK.json``.

With a key: each batch makes one row of the events of a key and merges it. Without one: Spark's own sink appends. The
number of events in the table goes to ``progress.txt``; ``is-over`` appears when all are there. Then ``content`` gets
the rows.

How events become one row is the ``fold`` of each column. Several kinds of events fill different columns: columns
without an event in the batch stay. Sums keep the batch of each row, so a batch that a restart repeats adds nothing.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

POLL_S = 0.05
MEMORY = "4g"
BATCH = {"name": "_batch", "type": "BIGINT", "fold": "batch"}
"""In tables with sums: the batch that changed the row last."""
CATALOGS = {
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Delta reads its log in 50 tasks otherwise, for each commit: far more than a log of this size needs.
        "spark.databricks.delta.snapshotPartitions": "2",
    },
}


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(task["directory"])
    spark = open_session(task, directory)
    tables = {table: create_table(spark, task, directory, table) for table in task["tables"]}
    with (directory / "progress.txt").open("w") as progress:
        run(spark, task, tables, directory, progress)
    (directory / "is-over").touch()
    for table, name in tables.items():
        spark.sql(f"REFRESH TABLE {name}")  # the batches ran in a session of their own; this one caches the empty table
        spark.read.table(name).coalesce(1).write.parquet(str(directory / "content" / table))
    spark.stop()


def open_session(task: dict, directory: Path) -> SparkSession:
    cores = task["cores"]
    settings = {
        "spark.jars": ",".join(task["jars"]),
        "spark.driver.memory": MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.catalog.lake.warehouse": str(directory / "warehouse"),
        **CATALOGS[task["system"]],
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("side-by-side")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def create_table(spark: SparkSession, task: dict, directory: Path, table: str) -> str:
    """Make the table and give the name by which SQL knows it."""
    name = f"lake.db.{table}" if task["system"] == "iceberg" else f"delta.`{directory}/warehouse/{table}`"
    row = ", ".join(f"{column['name']} {spark_type(column)}" for column in stored_columns(task))
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in task["properties"].items())
    more = f" TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(f"CREATE TABLE {name} ({row}) USING {task['system']}{more}")
    return name


def sent_columns(task: dict) -> list:
    """The key and what events have of any kind."""
    columns = [column for kind in task["kinds"] for column in kind["columns"]]
    return [task["key"], *(column for column in columns if column["fold"] != "count")]


def stored_columns(task: dict) -> list:
    columns = [column for kind in task["kinds"] for column in kind["columns"]]
    adds = any(column["fold"] in {"sum", "count"} for column in columns)
    return [task["key"], *columns, *([BATCH] if adds else [])]


def spark_type(column: dict) -> str:
    return "TIMESTAMP" if column["type"].startswith("TIMESTAMP") else column["type"]


def sent_type(column: dict) -> str:
    if column["type"].startswith("DECIMAL"):
        return "STRING"
    return "BIGINT" if column["type"].startswith("TIMESTAMP") else column["type"]


def run(spark: SparkSession, task: dict, tables: dict, directory: Path, progress) -> None:
    key, row = task["key"], ", ".join(f"{column['name']}: {sent_type(column)}" for column in sent_columns(task))
    before = f"STRUCT<{key['name']}: {key['type']}>"
    event = f"op STRING, before {before}, after STRUCT<{row}>, source STRUCT<table: STRING>"
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task["bootstrap_servers"])
        .option("subscribe", task["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", task["events_per_batch"])
        .load()
        .select(F.from_json(F.col("value").cast("string"), event).alias("event"), "offset")
    )
    writer = (
        events.select(*(sent(c, "event.after") for c in sent_columns(task))).writeStream
        if task["is_append"]
        else events.writeStream
    )
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(directory / "checkpoint"))
    if task["is_append"]:
        [(table, name)] = tables.items()
        writer = writer.format(task["system"]).outputMode("append")
        is_path = task["system"] == "delta"
        query = writer.start(f"{directory}/warehouse/{table}") if is_path else writer.toTable(name)
    else:
        query = writer.foreachBatch(lambda batch, number: merge_all(batch, number, task, tables)).start()
    done = 0
    while query.isActive:
        done = note(query, progress, done)
        time.sleep(POLL_S)
    query.awaitTermination()  # raises what ended it
    note(query, progress, done)


def sent(column: dict, row: str):
    """A column of a sent row in the type of the table."""
    value = F.col(f"{row}.{column['name']}")
    if column["type"].startswith("TIMESTAMP"):
        value = F.timestamp_millis(value)
    elif column["type"].startswith("DECIMAL"):
        value = value.cast(column["type"])
    return value.alias(column["name"])


def merge_all(batch: DataFrame, number: int, task: dict, tables: dict) -> None:
    """Merge a batch into each table."""
    changes = one_row_per_key(batch, number, task)
    if len(tables) == 1:
        [name] = tables.values()
        merge(changes, name, "changes", task)
        return
    changes.persist()
    with ThreadPoolExecutor(task["cores"]) as pool:
        each = [
            pool.submit(merge, changes.where(F.col("target") == table), name, f"changes_{table}", task)
            for table, name in tables.items()
        ]
        for one in each:
            one.result()
    changes.unpersist()


def one_row_per_key(batch: DataFrame, number: int, task: dict) -> DataFrame:
    """Events of one key are in one partition, so the newest one of a kind has the highest offset."""
    kinds, key = task["kinds"], task["key"]["name"]
    merged_key = F.coalesce(F.col(f"event.after.{key}"), F.col(f"event.before.{key}")).alias("key")
    source = F.col("event.source.table")
    events = batch.select(source.alias("source"), source.alias("target"), merged_key, "event", "offset")
    targets = {
        source: table
        for kind in kinds
        for source, table in zip(kind["source_tables"], task["tables"], strict=True)
        if source != table
    }
    if targets:
        events = events.replace(targets, subset=["target"])
    columns = [(column, n) for n, kind in enumerate(kinds) for column in kind["columns"]]
    newest = [F.max_by("event", of_kind(kind, kinds)).alias(f"newest_{n}") for n, kind in enumerate(kinds)]
    folds = [folded(column).alias(f"{column['name']}_fold") for column, _ in columns if column["fold"] != "last"]
    made = events.groupBy("target", "key").agg(*newest, *folds)
    values = [
        sent(column, f"newest_{n}.after")
        if column["fold"] == "last"
        else F.col(f"{column['name']}_fold").cast(spark_type(column)).alias(column["name"])
        for column, n in columns
    ]
    op = F.coalesce(*(F.col(f"newest_{n}.op") for n in range(len(kinds)))).alias("op")
    return made.select("target", F.col("key").alias(key), op, *values, F.lit(number).alias(BATCH["name"]))


def of_kind(kind: dict, kinds: list):
    """The offset of events of a kind, NULL of others."""
    offset = F.col("offset")
    return offset if len(kinds) == 1 else F.when(F.col("source").isin(kind["source_tables"]), offset)


def folded(column: dict):
    """The merged value of a batch's events."""
    match column["fold"]:
        case "sum":
            return F.sum(sent(column, "event.after"))
        case "max":
            return F.max(sent(column, "event.after"))
        case "count":
            return F.count(F.lit(1))
    raise ValueError(f"column {column['name']}: no such fold as {column['fold']}")


def merge(changes: DataFrame, table: str, view: str, task: dict) -> None:
    changes.createOrReplaceTempView(view)
    columns, key = stored_columns(task), task["key"]["name"]
    names = [column["name"] for column in columns]
    is_new = f" AND t.{BATCH['name']} < s.{BATCH['name']}" if BATCH in columns else ""
    sets = ", ".join(f"t.{column['name']} = {merged(column, task)}" for column in columns)
    changes.sparkSession.sql(
        f"MERGE INTO {table} t USING {view} s ON t.{key} = s.{key}"
        " WHEN MATCHED AND s.op = 'd' THEN DELETE"
        f" WHEN MATCHED{is_new} THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(names)})"
        f" VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def merged(column: dict, task: dict) -> str:
    """The new value of a row that is there."""
    old, new = f"t.{column['name']}", f"s.{column['name']}"
    match column["fold"]:
        case "sum" | "count":
            return f"{old} + {new}"
        case "max":
            return f"greatest({old}, {new})"
        case "last" if len(task["kinds"]) > 1:
            return f"coalesce({new}, {old})"
    return new


def note(query, progress, done: int) -> int:
    """Write down how many events the finished batches had."""
    last = query.lastProgress
    if last is None:
        return done
    by_topic = json.loads(last.json)["sources"][0]["endOffset"] or {}
    events = sum(offset for partitions in by_topic.values() for offset in partitions.values())
    if events > done:
        progress.write(f"{events}\n")
        progress.flush()
    return max(events, done)


if __name__ == "__main__":
    main()
