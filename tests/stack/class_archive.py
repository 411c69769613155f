"""An archive of the classes that Spark's JVM loads, which Java maps in a third of the time that it takes to load them.

``python -m tests.stack.class_archive`` makes it beside the jars of this environment unless it is there: one run of a
small pipeline leaves it. Java passes over an archive that is not there, or is one of other jars.
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

from tests.stack.paths import SHORT_LIVED, StackUnavailable, java_command
from tests.support.pipeline_run import run_once, wait_until, write_pipeline

_PREFIX = "spark-classes-"
_SHORT_LIVED = " ".join(SHORT_LIVED)


def jvm_options() -> str:
    """What each JVM of Spark that a test starts is told."""
    try:
        archive = _archive()
    except StackUnavailable:  # no Java: most tests need none
        return _SHORT_LIVED
    return f"{_SHORT_LIVED} -XX:SharedArchiveFile={archive} -Xlog:cds*=off" if archive.exists() else _SHORT_LIVED


def _archive() -> Path:
    """The file for these jars and this Java: its name changes with them."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    jars = sorted((Path(spec.origin).parent / "jars").glob("*.jar"))
    known = [(jar.name, (stat := jar.stat()).st_size, stat.st_mtime_ns) for jar in jars]
    digest = hashlib.sha256(repr((os.path.realpath(java_command()), known)).encode()).hexdigest()
    return Path(sys.prefix) / f"{_PREFIX}{digest[:12]}.jsa"


def main() -> None:
    archive = _archive()
    if archive.exists():
        return
    for other in archive.parent.glob(f"{_PREFIX}*"):
        other.unlink()
    made = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (dumps := root / "dumps").mkdir()
        (dumps / "orders.jsonl").write_text("".join(f"{_record(number)}\n" for number in range(100)))
        file = write_pipeline(root, dumps, max_records=50)
        done = run_once(file, {"SPARK_SUBMIT_OPTS": f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={made}"})
        # The JVM writes it when everything else is done, and does not hold up the run.
        wait_until(lambda: not _is_named_by_a_process(str(made)), 120, "the end of the JVM")
    if done.returncode == 0 and made.exists():
        made.rename(archive)
    else:
        print("there is no archive of Spark's classes: each start of Spark takes some seconds longer", file=sys.stderr)


def _record(number: int) -> str:
    event = {"op": "c", "before": None, "after": {"id": number}, "source": {"schema": "public", "table": "orders"}}
    key, payload = json.dumps({"id": number}), json.dumps(event)
    return json.dumps({"topic": "orders", "partition": 0, "offset": number, "key": key, "payload": payload})


def _is_named_by_a_process(text: str) -> bool:
    return any(text in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


if __name__ == "__main__":
    main()
