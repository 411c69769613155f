"""Apicurio's schema registry as a local process, with its schemas in memory; it speaks Confluent's REST API too."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.stack.jars import locked
from tests.stack.paths import CACHE_DIR, SHORT_LIVED, StackUnavailable, java_command
from tests.stack.process import ServerProcess, free_port
from tests.support.waiting import seconds

VERSION = "3.0.9"
START_TIMEOUT_S = 120
_ARCHIVE = f"https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
"""Ivy cannot have it: it asks for the pom of a parent that Maven Central lacks."""
_SMALL = ("-Xms96m", "-Xmx384m", "-XX:+UseSerialGC", *SHORT_LIVED)


@dataclass(frozen=True, slots=True)
class Apicurio:
    """A registry that runs."""

    port: int

    @property
    def url(self) -> str:
        """The address of its part for Confluent's API."""
        return f"{self.address}/apis/ccompat/v7"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> int:
        """The id of a schema under a subject."""
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        path = f"{self.url}/subjects/{quote(subject, safe='')}/versions"
        return int(self.asked(path, json.dumps(body).encode())["id"])

    def global_id(self, subject: str) -> int:
        """The id of the newest schema of a subject in Apicurio's own API."""
        path = f"/apis/registry/v3/groups/default/artifacts/{quote(subject, safe='')}/versions/branch=latest"
        return int(self.asked(self.address + path)["globalId"])

    def asked(self, url: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=seconds(30)) as answer:
            return json.loads(answer.read())


@contextmanager
def running_apicurio(directory: Path) -> Iterator[Apicurio]:
    """Run a registry for the length of the block; StackUnavailable where its jars cannot be had."""
    jar = next(_unpacked().rglob("apicurio-registry-app-*-runner.jar"))
    registry = Apicurio(free_port())
    settings = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={registry.port}")
    process = ServerProcess(
        "Apicurio", [java_command(), *_SMALL, *settings, "-jar", str(jar)], directory / "apicurio.log"
    )
    process.start(lambda: _answers(registry), START_TIMEOUT_S)
    try:
        yield registry
    finally:
        process.stop()


def _unpacked() -> Path:
    """The directory of the registry's jars, fetched once."""
    found = CACHE_DIR / "jars" / f"apicurio-{VERSION}"
    with locked(CACHE_DIR / "jars" / "apicurio.lock"):
        if not found.is_dir():
            building = Path(tempfile.mkdtemp(prefix=f"{found.name}-", dir=found.parent))
            try:
                with (
                    urllib.request.urlopen(_ARCHIVE, timeout=seconds(60)) as answer,
                    tarfile.open(fileobj=answer, mode="r|gz") as tar,
                ):
                    tar.extractall(building, filter="data")
                building.rename(found)
            except (OSError, tarfile.TarError) as error:
                raise StackUnavailable(f"cannot fetch {_ARCHIVE}: {error}; check the network") from error
            finally:
                shutil.rmtree(building, ignore_errors=True)
    return found


def _answers(registry: Apicurio) -> bool:
    try:
        return isinstance(registry.asked(f"{registry.url}/subjects"), list)
    except (OSError, urllib.error.URLError, ValueError):
        return False
