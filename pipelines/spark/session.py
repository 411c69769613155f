"""The Spark session of a run: its start, its private directories, and our own code for the executors."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.storage.private_directory import SharedDirectory, make_file, process_directory
from paimon_table.storage.secret import Secret, note_inherited, secret_variables
from pipelines.config.config import PipelineConfig
from pipelines.spark.jvm_output import JVM_OUTPUT
from pipelines.spark.kafka_reading import master_of, reads_directly
from pipelines.spark.nameless_user import NamelessUser, nameless_user
from pipelines.spark.session_properties import (
    KAFKA_CONNECTOR,
    LOCAL_PARENT,
    merged_properties,
    session_properties,
    without_sensitive,
)
from pipelines.spark.spark_errors import first_cause
from pipelines.storage import hold_secrets
from sinks import faults
from sinks.exchange.spool import Spool
from sources.kafka.client_properties import SECRET, librdkafka_properties

log = logging.getLogger(__name__)

_MADE_BY_SPARK = ("spark-", "artifacts")
"""How directories for artifacts begin: 4.0 makes them where the JVM runs, 4.2 among temporary files."""

CODE_PACKAGES = ("paimon_table", "pipelines", "sinks", "sources", "tidemark")
"""Our import packages, which travel with the job to executors on other machines."""

_CODE = "tidemark-code"
"""The directory into which an executor unpacks them, below its working directory."""

LOCAL_ALLOCATION = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MIMALLOC_PURGE_DELAY": "5000",
}
"""Environment of a JVM and its Python workers: buffers of a batch are given back to the system later than at once.

The next batch needs as much again, and every page of it that was given back is faulted in and zeroed again.
"""


def open_session(configs: Sequence[PipelineConfig]) -> SparkSession:
    """Start Spark for these pipelines, or join the session of ``spark-submit``.

    Raises ConfigError when two files ask for different Spark properties or when threads are not pinned, SinkUnavailable
    when Spark does not start.
    """
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        raise ConfigError(
            "PYSPARK_PIN_THREAD is false, but Tidemark passes plans to tasks through the thread that starts them: "
            "unset it"
        )
    is_joined = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_joined and any(config.source.kafka is not None and not reads_directly(config) for config in configs):
        SparkContext._ensure_initialized()
        check_connector(SparkContext._jvm)
    master = _master(configs)
    is_local = master.startswith("local")
    properties = session_properties(configs, master, is_joined, _local_directories(configs))
    secrets = _storage_secrets(configs)
    if secrets and not is_local:
        properties |= {f"spark.executorEnv.{name}": text for name, text in secrets.items()}
    elif secrets and is_joined:
        raise ConfigError(
            "the keys under catalog.options cannot be passed to the workers of a local spark-submit. Start with "
            "`tidemark run`, or set them for spark-submit as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if is_local and not is_joined:
        hold_kafka_secrets(configs)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get(faults.CRASH_VARIABLE):
        os.environ[faults.DRIVER_VARIABLE] = str(os.getpgrp())
    if is_local:
        for name, value in LOCAL_ALLOCATION.items():
            os.environ.setdefault(name, value)
    else:
        properties = {**{f"spark.executorEnv.{name}": value for name, value in LOCAL_ALLOCATION.items()}, **properties}
    name = "tidemark " + " ".join(c.name for c in configs)
    user = None if is_joined else nameless_user()
    if user is not None:
        properties = user.in_jvm(properties)
    session = _started(name, master, properties, user)
    session.sparkContext.setLogLevel("ERROR")
    leave_no_residue(session)
    if not is_joined:
        _ignore_sigterm(session)
    for variable in secrets:
        # Otherwise it is in every serialized task; the processes of the executors have it.
        session.sparkContext.environment.pop(variable, None)
    _hand_on_code(session.sparkContext, is_elsewhere=not runs_here(session), is_joined=is_joined)
    return session


def _hand_on_code(context: SparkContext, *, is_elsewhere: bool, is_joined: bool) -> None:
    """Give our packages to workers that may not have them installed.

    Executors unpack them, so that their daemon of workers finds and imports them once: each worker of a zip file would
    compile all modules again.
    """
    if not is_elsewhere and not is_joined:
        return
    # Spark's process for a source runs on the driver's machine and gets no files.
    path = context.environment.get("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    if is_elsewhere:
        context.addArchive(f"{code_archive()}#{_CODE}")
        path = os.pathsep.join([_CODE, path])
    else:
        context.addPyFile(str(code_archive()))
    context.environment["PYTHONPATH"] = path


def check_connector(jvm: Any) -> None:
    """Raise ConfigError if the JVM of ``spark-submit`` lacks the Kafka connector: no property can add it later."""
    needed = (jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider, jvm.org.apache.kafka.clients.admin.Admin)
    if any(isinstance(one, JavaPackage) for one in needed):  # py4j takes a missing class for a package
        connector = f"{KAFKA_CONNECTOR}:{pyspark.__version__}"
        raise ConfigError(
            f"Spark has no Kafka connector: call spark-submit with --packages {connector}, or with the connector and"
            " kafka-clients under --jars"
        )


_NO_ROOM = ("No space left on device", "Failed to create any local dir")


def _started(name: str, master: str, properties: Mapping[str, str], user: NamelessUser | None) -> SparkSession:
    at_launch = without_sensitive(properties)
    on_command_line = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    on_command_line.setAll(list(at_launch.items()))
    try:
        with _environment_of_jvm(properties):
            is_new = JVM_OUTPUT.launch(on_command_line, _working_directory(), None if user is None else user.home)
        if is_new:
            note_inherited()
        if user is not None and is_new:
            user.log_in()
        builder = SparkSession.builder.appName(name).master(master)
        for property_name, value in properties.items():
            if not is_new or property_name not in at_launch:  # each one takes several calls
                builder = builder.config(property_name, value)
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        _check_room(properties, error)
        packages = properties.get("spark.jars.packages")
        remedy = (
            f"; if its output names unresolved dependencies, {packages} could not be fetched. Run once with"
            " access to a Maven repository (spark.jars.ivySettings names a mirror), or put the jars into the"
            " directory jars of pyspark"
            if packages
            else ""
        )
        raise SinkUnavailable(f"Spark did not start: {error}{remedy}{JVM_OUTPUT.tail()}") from error
    except Py4JJavaError as error:
        _check_room(properties, error)
        raise SinkUnavailable(f"Spark did not start: {first_cause(error)}{JVM_OUTPUT.tail()}") from error
    except (Py4JNetworkError, ConnectionError) as error:
        _check_room(properties, error)
        raise SinkUnavailable(
            "Spark did not start: its JVM ended; start again, and if that happens again, give it memory"
            f" (spark.driver.memory){JVM_OUTPUT.tail()}"
        ) from error


def _check_room(properties: Mapping[str, str], error: Exception) -> None:
    """Raise what helps where the JVM could not make its files."""
    output = f"{JVM_OUTPUT.tail()} {error if isinstance(error, Py4JJavaError) else ''}"
    if any(sign in output for sign in _NO_ROOM):
        raise SinkUnavailable(
            "Spark did not start: it cannot create its local files, possibly because "
            f"{properties.get(LOCAL_PARENT, 'TMPDIR')} is full; free some space there, or set spark.local.dir to "
            "another directory"
        ) from error


def _working_directory() -> str | None:
    """The working directory of the JVM, if it is not ours: each query creates directories for artifacts there."""
    return None if os.access(".", os.W_OK | os.X_OK) else process_directory(tempfile.gettempdir())


def _ignore_sigterm(session: SparkSession) -> None:
    """Let the JVM and its child processes survive SIGTERM, which may go to all processes of a service at once.

    This process gets it too and ends the others when the running batch is done. They end without us too.
    """
    jvm = session.sparkContext._jvm
    if jvm is not None:
        signals = jvm.sun.misc
        with suppress(Py4JError):  # a JVM with the option -Xrs leaves signals to the system
            signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


@contextmanager
def _environment_of_jvm(properties: Mapping[str, str]) -> Iterator[None]:
    """The environment for the start of the JVM, which would win over our properties."""
    before = dict(os.environ)
    if LOCAL_PARENT in properties:
        os.environ.pop("SPARK_LOCAL_DIRS", None)
        if "spark.driver.bindAddress" in properties:
            os.environ.setdefault("SPARK_LOCAL_IP", properties["spark.driver.bindAddress"])
    try:
        yield
    finally:
        for name in ("SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


def _storage_secrets(configs: Sequence[PipelineConfig]) -> Mapping[str, str]:
    """Environment variables that the storage needs wherever tasks run."""
    for config in configs:
        hold_secrets(config)
    return secret_variables()


def hold_kafka_secrets(configs: Sequence[PipelineConfig]) -> None:
    """Make what tasks log in to Kafka with known to the processes that are started next."""
    for config in configs:
        kafka = config.source.kafka
        if kafka is not None and reads_directly(config):
            said = librdkafka_properties(kafka.bootstrap_servers, kafka.options)
            for name in SECRET & said.keys():
                Secret.of(said[name])


def code_archive() -> Path:
    """Our packages as one zip file that Spark hands to the executors."""
    root = Path(__file__).resolve().parents[2]
    archive = Path(process_directory(tempfile.gettempdir())) / "tidemark-code.zip"
    archive.unlink(missing_ok=True)
    make_file(str(archive))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for package in CODE_PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                out.write(file, file.relative_to(root))
    return archive


def lookup_root(session: SparkSession) -> str | SharedDirectory:
    """The directory for lookup files, on a local disk of each machine that runs tasks; removed with the run."""
    if runs_here(session):
        return f"{process_directory(_local_directory(session))}/lookup"
    return SharedDirectory(_local_directory(session), f"application-{session.sparkContext.applicationId}")


def spool(session: SparkSession) -> Spool | None:
    """The directory in which tasks leave large blobs and results, and the driver the plans of tasks.

    None if tasks run on other machines. Also None with a master ``local[N, M]``, which retries failed tasks: the rows
    of an earlier result may already be committed.
    """
    if not runs_here(session) or "," in (session.sparkContext.master or ""):
        return None
    return Spool.open(_local_directory(session))


def _local_directory(session: SparkSession) -> str:
    """The directory for local files: the first one that Spark was given."""
    given = session.sparkContext.getConf().get(LOCAL_PARENT) or session.sparkContext.getConf().get("spark.local.dir")
    return (given or tempfile.gettempdir()).split(",")[0].strip()


def _local_directories(configs: Sequence[PipelineConfig]) -> list[str]:
    """The user's directory for local files, as Spark understands it."""
    given = os.environ.get("SPARK_LOCAL_DIRS") or merged_properties(configs).get("spark.local.dir")
    return [directory.strip() for directory in (given or tempfile.gettempdir()).split(",")]


def runs_here(session: SparkSession) -> bool:
    """Whether the executor is the driver itself."""
    master = session.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def jvm_has_ended(session: SparkSession, within_s: float = 0.0) -> bool:
    """Whether the JVM that this process started has ended, or ends ``within_s``; Spark itself does not report it."""
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


def _master(configs: Sequence[PipelineConfig]) -> str:
    """The master in the files, or else that of ``spark-submit``, or else all cores of this machine."""
    masters = {c.spark.master for c in configs if c.spark.master is not None}
    if len(masters) > 1:
        raise ConfigError(
            f"the files name different Spark masters ({', '.join(sorted(masters))}); run them in separate processes"
        )
    return masters.pop() if masters else master_of(configs[0]) if configs else "local[*]"


def leave_no_residue(session: SparkSession) -> None:
    """Remove the directories for artifacts, which stay empty here, and silence the threads that the JVM talks to."""
    _remove_artifacts(session)
    server = session.sparkContext._accumulatorServer

    def ended(_request: object, _address: object) -> None:
        log.debug("the connection for accumulators has ended", exc_info=True)

    if server is not None:
        server.handle_error = ended  # type: ignore[assignment, method-assign]


def _remove_artifacts(session: SparkSession) -> None:
    """Only empty directories are removed; Spark creates them again when it needs them."""
    with suppress(Py4JError):  # another version of Spark may not have it, or create it elsewhere
        made = Path(session._jsparkSession.artifactManager().artifactPath().toString())
        with suppress(OSError):
            for directory in made.parents[:2]:
                if directory.name.startswith(_MADE_BY_SPARK):
                    directory.rmdir()
