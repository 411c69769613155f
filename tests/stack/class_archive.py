"""Archives of the classes that the JVMs of Spark and Kafka load: Java maps them in a third of the time of loading them.

``python -m tests.stack.class_archive`` makes them in this environment unless they are there: one run of a small
pipeline leaves one, a short life of a broker the other. Java passes over an archive that is one of other jars.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psutil

from tests.stack.jars import resolve
from tests.stack.paths import SHORT_LIVED, StackUnavailable, java_command
from tests.support.pipeline_run import run_once, wait_until, write_pipeline

_SHORT_LIVED = " ".join(SHORT_LIVED)
_END_S = 120


def jvm_options() -> str:
    """What each JVM of Spark that a test starts is told."""
    try:
        return " ".join((*SHORT_LIVED, *_mapped(_of_spark())))
    except StackUnavailable:  # no Java: most tests need none
        return _SHORT_LIVED


def kafka_options() -> tuple[str, ...]:
    """What maps the classes of JVMs with the jars of Kafka."""
    return _mapped(_of_kafka())


def _mapped(archive: Path) -> tuple[str, ...]:
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off") if archive.exists() else ()


def _of_spark() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return _archive("spark", Path(spec.origin).parent / "jars")


def _of_kafka() -> Path:
    return _archive("kafka", resolve("kafka"))


def _archive(name: str, jars: Path) -> Path:
    """The file for these jars and this Java: its name changes with them."""
    known = [(jar.name, (stat := jar.stat()).st_size, stat.st_mtime_ns) for jar in sorted(jars.glob("*.jar"))]
    digest = hashlib.sha256(repr((os.path.realpath(java_command()), str(jars), known)).encode()).hexdigest()
    return Path(sys.prefix) / f"{name}-classes-{digest[:12]}.jsa"


def main() -> None:
    for archive, leave in ((_of_spark(), _run_pipeline), (_of_kafka(), _run_broker)):
        if archive.exists():
            continue
        name = archive.name.partition("-")[0]
        for other in archive.parent.glob(f"{name}-classes-*"):
            other.unlink()
        made = archive.with_suffix(".part")
        with tempfile.TemporaryDirectory() as folder:
            leave(Path(folder), f"-XX:ArchiveClassesAtExit={made}")
        if made.exists():
            made.rename(archive)
        else:
            print(f"no archive of {name}'s classes: each start of its JVM takes some seconds longer", file=sys.stderr)


def _run_pipeline(root: Path, option: str) -> None:
    (dumps := root / "dumps").mkdir()
    (dumps / "orders.jsonl").write_text("".join(f"{_record(number)}\n" for number in range(100)))
    run_once(write_pipeline(root, dumps, max_records=50), {"SPARK_SUBMIT_OPTS": f"{_SHORT_LIVED} {option}"})
    # The JVM writes it when everything else is done, and does not hold up the run.
    wait_until(lambda: not _is_named_by_a_process(option), _END_S, "the end of the JVM")


def _run_broker(root: Path, option: str) -> None:
    from tests.stack.kafka import KafkaBroker  # which asks here for the options of its JVM
    from tests.stack.topics import TopicRecord

    broker = KafkaBroker(root / "broker", jvm_options=(option,))
    broker.start()
    broker.topics.create("orders")
    broker.topics.produce("orders", [TopicRecord(b"key", b"value")])
    broker.topics.read_all("orders")
    broker.stop(_END_S)


def _record(number: int) -> str:
    event = {"op": "c", "before": None, "after": {"id": number}, "source": {"schema": "public", "table": "orders"}}
    key, payload = json.dumps({"id": number}), json.dumps(event)
    return json.dumps({"topic": "orders", "partition": 0, "offset": number, "key": key, "payload": payload})


def _is_named_by_a_process(text: str) -> bool:
    return any(text in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


if __name__ == "__main__":
    main()
