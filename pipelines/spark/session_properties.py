"""The Spark properties that a run starts with: the YAML's override ours, and ours override Spark's defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pyspark

from paimon_table.errors import ConfigError
from paimon_table.storage.private_directory import ensure_private, process_directory
from pipelines.config.config import PipelineConfig
from pipelines.spark.kafka_reading import reads_directly

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"

LOCAL_PARENT = "spark.tidemark.local.dir"
"""Property with the directory below which the run has its private one, where all tasks run on this machine."""

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Any other value makes Spark add up the size of the batch after every row, in time that grows with the square.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.python.worker.reuse": "true",
    # An overloaded machine takes longer than Spark's 15 s to connect two processes.
    "spark.python.authenticate.socketTimeout": "120s",
    # Names that Spark masks in its logs, its event log and its web page, in addition to its own defaults.
    "spark.redaction.regex": "(?i)secret|password|passphrase|token|access[.]?key|credential|jaas|keystore[.]key",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|credential|jaas|keystore[.]key",
}
"""Properties that differ from Spark's own defaults; the YAML's `spark:` block wins over them."""

_KAFKA = {
    "spark.kafka.consumer.fetchedData.cache.timeout": "30s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
    "spark.kafka.consumer.cache.timeout": "2m",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "20s",
}
"""How long the JVM keeps consumers, and records that a query fetched but did not read (up to 10,000 per partition).

Each slice of a catch-up is a separate query. With Spark's default of 5 minutes their leftovers would fill the JVM.
"""

_WORKERS = {
    "spark.python.daemon.module": "pipelines.worker_daemon",
    # Spark shares Python workers within one environment, and only SQL jobs have this property in theirs. Without it,
    # the tasks that decode, write and compact do not share workers.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Properties for workers that find our packages: on this machine, or in executors, which get them before any task."""

_LOCAL_SHUFFLE = {"spark.shuffle.compress": "false"}
"""Where it stays on this machine."""

_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_LOCAL_COLLECTOR = "-XX:+UseParallelGC"
"""Records pass through the JVM once and die young: the collector with the cheapest allocation wins."""

_END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""A JVM whose threads have died of memory errors would otherwise stay forever, also after its driver has ended."""

_WITHOUT_RECORDS = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""If the JVM sees no records, its second compiler costs more processor time than its faster code saves.

The verifier guards against class files that no compiler wrote; those of Spark come with pyspark.
"""

_CHECKPOINTING = "" if pyspark.__version__.startswith("4.0.") else "checkpointing."
"""The package of Spark's classes for checkpoints, since 4.1."""

_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"org.apache.spark.sql.execution.streaming.{_CHECKPOINTING}FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""On local disks, Spark's defaults start several processes (readlink, chmod) for every file of the checkpoint.

The raw file system writes no checksum files (``.crc``), each of which would also start such a process.
"""

_SENSITIVE = re.compile(r"secret|password|passphrase|token|access[.]?key|credential|jaas|executorEnv", re.IGNORECASE)


def session_properties(
    configs: Sequence[PipelineConfig],
    master: str | None,
    is_joined: bool,
    local_dirs: Sequence[str],
) -> dict[str, str]:
    """All properties of the session. ``is_joined``: the JVM runs already, started by ``spark-submit``.

    ``local_dirs`` is where Spark is to put its local files, each made private by
    us; for local masters.
    """
    given = merged_properties(configs)
    properties = {**_DEFAULTS, **given}
    if any(c.source.kafka is not None and not reads_directly(c) for c in configs):
        packages = with_kafka_connector(given.get("spark.jars.packages"), given.get("spark.jars", ""))
        properties = {**_KAFKA, **{k: v for k, v in properties.items() if k != "spark.jars.packages"}, **packages}
    is_local = master is not None and master.startswith("local")
    is_cluster = master is not None and (not is_local or master.startswith("local-cluster"))
    log4j = Path(__file__).with_name("log4j2.properties")
    java_options = given.get("spark.driver.extraJavaOptions", "")
    if is_local and not is_joined and not names_collector(given):
        java_options = f"{_LOCAL_COLLECTOR} {java_options}"
    if is_local and not is_joined:
        java_options = f"{_END_WITHOUT_MEMORY} {java_options}"
    if is_local and not is_joined and all(c.source.kafka is None or reads_directly(c) for c in configs):
        java_options = f"{_WITHOUT_RECORDS} {java_options}"
    properties["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log4j.as_uri()} {java_options}".strip()
    if is_local:
        workers = {} if is_joined and not is_cluster else {**_WORKERS, **_LOCAL_SHUFFLE}
        properties = {**workers, **_private(is_cluster, given), **properties}
        directories = [f"{process_directory(parent)}/spark" for parent in local_dirs]
        for directory in directories:
            ensure_private(directory)
        properties["spark.local.dir"] = ",".join(directories)
        properties[LOCAL_PARENT] = local_dirs[0]
    elif is_cluster:
        properties = {**_WORKERS, **properties}
    if master is not None and master.startswith("k8s:"):
        properties.setdefault("spark.authenticate", "true")
    if all(is_local_path(c.checkpoint) for c in configs):
        properties = {**_LOCAL_CHECKPOINT, **properties}
    return properties


def _private(is_cluster: bool, given: Mapping[str, str]) -> dict[str, str]:
    """Keep the ports of a local master on this machine, and closed to its other users.

    Spark makes the secret for ``spark.authenticate`` itself, except for the small cluster of ``local-cluster``.
    """
    is_placed = "SPARK_LOCAL_IP" in os.environ or not given.keys().isdisjoint(_LOOPBACK)
    properties = {} if is_placed else dict(_LOOPBACK)
    if not is_cluster:
        properties["spark.authenticate"] = "true"
    return properties


def merged_properties(configs: Sequence[PipelineConfig]) -> Mapping[str, str]:
    """The properties of all files; ConfigError when they contradict each other."""
    merged: dict[str, str] = {}
    given_by: dict[str, str] = {}
    for config in configs:
        for name, value in config.spark.properties.items():
            first = given_by.setdefault(name, config.name)
            if merged.setdefault(name, value) != value:
                raise ConfigError(
                    f"pipelines {first} and {config.name} of one process give {name} different values: use the "
                    "same values under spark, or run the files in separate processes"
                )
    return merged


def without_sensitive(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that may be on a command line, which every user of the machine can read."""
    return {name: value for name, value in properties.items() if not _SENSITIVE.search(name)}


def names_collector(given: Mapping[str, str]) -> bool:
    """Whether the options choose the JVM's garbage collector; a second choice keeps the JVM from starting."""
    properties = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
    variables = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    texts = [*(given.get(name, "") for name in properties), *(os.environ.get(name, "") for name in variables)]
    return any(re.search(r"-XX:[+-]Use\w+GC", text) for text in texts)


def with_kafka_connector(packages: str | None, jars: str = "") -> dict[str, str]:
    """``spark.jars.packages`` with the connector of the installed pyspark, if it must be fetched.

    It need not be if the property is set and empty, or if the connector is named, among the ``jars``, or installed.
    """
    if packages == "" or "spark-sql-kafka" in f"{packages}{jars}" or _has_connector_jar():
        return {"spark.jars.packages": packages} if packages else {}
    connector = f"{KAFKA_CONNECTOR}:{pyspark.__version__}"
    return {"spark.jars.packages": f"{packages},{connector}" if packages else connector}


def _has_connector_jar() -> bool:
    """Whether the connector is among Spark's own jars, as in the container image."""
    home = os.environ.get("SPARK_HOME")
    jars = Path(home or str(files("pyspark"))) / "jars"
    return any(jars.glob("*spark-sql-kafka-0-10_2.13-*.jar"))


def is_local_path(location: str) -> bool:
    return location.startswith("file:") or "://" not in location
