"""The Spark session of a run: properties from the YAML, the Kafka connector, and our own code for the executors."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.config import PipelineConfig
from pipelines.jvm_output import JVM_OUTPUT
from pipelines.spark_residue import leave_no_residue
from sinks import faults
from sinks.spool import Spool

CODE_PACKAGES = ("paimon_table", "pipelines", "sinks", "sources", "tidemark")
"""Our import packages, which travel with the job to executors on other machines."""

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"

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
}
"""Properties that differ from Spark's own defaults; the YAML's `spark:` block wins over them."""


_LOCAL_DEFAULTS = {
    "spark.python.daemon.module": "pipelines.worker_daemon",
    "spark.shuffle.compress": "false",
    # Python workers belong to one environment, and this is a part of it for SQL jobs only: without it the tasks that
    # decode and those that write share their workers.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Properties for masters on this machine, whose workers have our packages installed."""

_LOCAL_COLLECTOR = "-XX:+UseParallelGC"
"""Records pass through the JVM once and die young: the collector with the cheapest allocation wins."""

LOCAL_ALLOCATION = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MIMALLOC_PURGE_DELAY": "5000",
}
"""Environment of the JVM and its Python workers: buffers of a batch are given back to the system later than at once.

The next batch needs as much again, and every page of it that was given back is faulted in and zeroed anew.
"""

_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""On local disks Spark's defaults start several processes (readlink, chmod) for every file of the checkpoint.

The raw file system writes no checksum files (``.crc``), each of which costs such a process too.
"""


def is_local_path(location: str) -> bool:
    return location.startswith("file:") or "://" not in location


def open_session(configs: Sequence[PipelineConfig]) -> SparkSession:
    """Start Spark for these pipelines, or join the session of ``spark-submit``.

    Raises ConfigError when two files ask for different Spark properties or when threads are not pinned, SinkUnavailable
    when Spark does not start.
    """
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        raise ConfigError(
            "PYSPARK_PIN_THREAD is false, but tasks get their plan by the thread that starts them: unset it"
        )
    given = _merged_properties(configs)
    properties = {**_DEFAULTS, **given}
    if any(c.source.kafka is not None for c in configs):
        properties["spark.jars.packages"] = with_kafka_connector(given.get("spark.jars.packages", ""))
    log4j = Path(__file__).with_name("log4j2.properties")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get(faults.CRASH_VARIABLE):
        os.environ[faults.DRIVER_VARIABLE] = str(os.getpgrp())
    master = _master(configs)
    java_options = given.get("spark.driver.extraJavaOptions", "")
    if master is not None and master.startswith("local") and not names_collector(given):
        java_options = f"{_LOCAL_COLLECTOR} {java_options}"
    properties["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log4j.as_uri()} {java_options}".strip()
    if master is not None and master.startswith("local"):
        properties = {**_LOCAL_DEFAULTS, **properties}
        for name, value in LOCAL_ALLOCATION.items():
            os.environ.setdefault(name, value)
    if all(is_local_path(c.checkpoint) for c in configs):
        properties = {**_LOCAL_CHECKPOINT, **properties}
    builder = SparkSession.builder.appName("tidemark " + " ".join(c.name for c in configs))
    if master is not None:
        builder = builder.master(master)
    for name, value in properties.items():
        builder = builder.config(name, value)
    try:
        JVM_OUTPUT.launch(_conf(properties, master))
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        packages = properties.get("spark.jars.packages")
        remedy = (
            f"; if its output names unresolved dependencies, {packages} could not be fetched: run once with"
            " access to a Maven repository (spark.jars.ivySettings names a mirror), or give the jars under spark.jars"
            " and leave spark.jars.packages empty"
            if packages
            else ""
        )
        raise SinkUnavailable(f"Spark did not start: {error}{remedy}{JVM_OUTPUT.tail()}") from error
    session.sparkContext.setLogLevel("ERROR")
    leave_no_residue(session)
    if not runs_here(session):
        session.sparkContext.addPyFile(str(code_archive()))
    return session


def _conf(properties: Mapping[str, str], master: str | None) -> SparkConf:
    conf = SparkConf().setAll(list(properties.items()))
    return conf if master is None else conf.setMaster(master)


def names_collector(given: Mapping[str, str]) -> bool:
    """Whether somebody chooses the JVM's garbage collector; a second choice keeps it from starting."""
    properties = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
    variables = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    texts = [*(given.get(name, "") for name in properties), *(os.environ.get(name, "") for name in variables)]
    return any(re.search(r"-XX:[+-]Use\w+GC", text) for text in texts)


def with_kafka_connector(packages: str) -> str:
    """``spark.jars.packages`` with the connector of the installed pyspark, unless one is named or jars are given."""
    if "spark-sql-kafka" in packages:
        return packages
    connector = f"{KAFKA_CONNECTOR}:{pyspark.__version__}"
    return f"{packages},{connector}" if packages else connector


def code_archive() -> Path:
    """Our packages as one zip file that Spark hands to the executors."""
    root = Path(__file__).resolve().parent.parent
    directory = tempfile.mkdtemp(prefix="tidemark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = Path(directory) / "tidemark-code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for package in CODE_PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                out.write(file, file.relative_to(root))
    return archive


def lookup_root(session: SparkSession) -> str:
    """Directory for lookup files on the local disk of whichever machine runs a task."""
    return f"{_local_directory(session)}/tidemark-lookup-{os.getuid()}"


def spool(session: SparkSession) -> Spool | None:
    """Where tasks leave large blobs and results, and the driver leaves the plans of tasks.

    None where they run on other machines, and with a master ``local[N, M]``: it tries failed tasks again, but the rows
    whose result a task has left there may be committed already.
    """
    if not runs_here(session) or "," in (session.sparkContext.master or ""):
        return None
    return Spool.open(f"{_local_directory(session)}/tidemark-spool-{os.getuid()}")


def _local_directory(session: SparkSession) -> str:
    """Where Spark keeps its own local files; the first directory if it has several."""
    of_driver = os.environ.get("SPARK_LOCAL_DIRS") if runs_here(session) else None
    directories = of_driver or session.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
    return directories.split(",")[0].strip()


def runs_here(session: SparkSession) -> bool:
    """Whether the executor is the driver itself."""
    master = session.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def jvm_has_ended(session: SparkSession, within_s: float = 0.0) -> bool:
    """Whether the JVM that this process started is gone, or is so ``within_s``; Spark itself does not tell."""
    process = getattr(session.sparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def write_slots(session: SparkSession) -> int:
    """How many write tasks a batch has: one per core of the session."""
    return max(1, session.sparkContext.defaultParallelism)


def _master(configs: Sequence[PipelineConfig]) -> str | None:
    masters = {c.spark.master for c in configs if c.spark.master is not None}
    if len(masters) > 1:
        raise ConfigError(f"the files ask for different Spark masters ({', '.join(sorted(masters))}); run them apart")
    if masters:
        return masters.pop()
    return None if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


def _merged_properties(configs: Sequence[PipelineConfig]) -> Mapping[str, str]:
    merged: dict[str, str] = {}
    for config in configs:
        for name, value in config.spark.properties.items():
            if merged.setdefault(name, value) != value:
                raise ConfigError(f"the files give {name} different values; run them apart, or make them agree")
    return merged
