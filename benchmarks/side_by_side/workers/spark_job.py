"""A Spark stream from Kafka into Iceberg or Delta tables, until the topic is drained: ``spark_job.py TASK.json``.

With a key: each batch keeps the newest event of a key and merges it. Without one: Spark's own sink appends. The number
of events in the table goes to ``progress.txt``; ``is-over`` appears when all are there. Then ``content`` gets the rows.
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
ROW = (
    "id BIGINT, customer_id BIGINT, status STRING, amount DECIMAL(10, 2), quantity INT, note STRING,"
    " created_at TIMESTAMP, updated_at TIMESTAMP, is_paid BOOLEAN, address STRING"
)
SENT_ROW = ROW.replace("TIMESTAMP", "BIGINT").replace("DECIMAL(10, 2)", "STRING")
NAMES = [column.split()[0] for column in ROW.replace("DECIMAL(10, 2)", "DECIMAL").split(",")]
EVENT = "op STRING, before STRUCT<id: BIGINT>, after STRUCT<{}>, source STRUCT<table: STRING>"
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
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in task["properties"].items())
    more = f" TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(f"CREATE TABLE {name} ({ROW}) USING {task['system']}{more}")
    return name


def run(spark: SparkSession, task: dict, tables: dict, directory: Path, progress) -> None:
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task["bootstrap_servers"])
        .option("subscribe", task["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", task["events_per_batch"])
        .load()
        .select(F.from_json(F.col("value").cast("string"), EVENT.format(fields())).alias("event"), "offset")
    )
    writer = events.select(*typed("event.after")).writeStream if task["is_append"] else events.writeStream
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(directory / "checkpoint"))
    if task["is_append"]:
        [(table, name)] = tables.items()
        writer = writer.format(task["system"]).outputMode("append")
        is_path = task["system"] == "delta"
        query = writer.start(f"{directory}/warehouse/{table}") if is_path else writer.toTable(name)
    else:
        query = writer.foreachBatch(lambda batch, _: merge_all(batch, tables, task["cores"])).start()
    done = 0
    while query.isActive:
        done = note(query, progress, done)
        time.sleep(POLL_S)
    query.awaitTermination()  # raises what ended it
    note(query, progress, done)


def fields() -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in (column.split() for column in SENT_ROW.split(", ")))


def typed(row: str) -> list:
    """The columns of a sent row in the types of the table."""
    special = {
        "amount": lambda column: column.cast("decimal(10, 2)"),
        "created_at": F.timestamp_millis,
        "updated_at": F.timestamp_millis,
    }
    return [special.get(name, lambda column: column)(F.col(f"{row}.{name}")).alias(name) for name in NAMES]


def merge_all(batch: DataFrame, tables: dict, cores: int) -> None:
    """Events of one key are in one partition, so its newest one has the highest offset."""
    key = F.coalesce(F.col("event.after.id"), F.col("event.before.id")).alias("key")
    events = batch.select(F.col("event.source.table").alias("source_table"), key, "event", "offset")
    newest = events.groupBy("source_table", "key").agg(F.max_by("event", "offset").alias("event"))
    changes = newest.select("source_table", "key", F.col("event.op").alias("op"), *typed("event.after"))
    if len(tables) == 1:
        [name] = tables.values()
        merge(changes, name, "changes")
        return
    changes.persist()
    with ThreadPoolExecutor(cores) as pool:
        each = [
            pool.submit(merge, changes.where(F.col("source_table") == table), name, f"changes_{table}")
            for table, name in tables.items()
        ]
        for one in each:
            one.result()
    changes.unpersist()


def merge(changes: DataFrame, table: str, view: str) -> None:
    changes.createOrReplaceTempView(view)
    columns = ", ".join(NAMES)
    values = ", ".join(f"s.{name}" for name in NAMES)
    sets = ", ".join(f"t.{name} = s.{name}" for name in NAMES)
    changes.sparkSession.sql(
        f"MERGE INTO {table} t USING {view} s ON t.id = s.key"
        " WHEN MATCHED AND s.op = 'd' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({columns}) VALUES ({values})"
    )


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
