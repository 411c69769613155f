"""Run `tidemark` the way a user does: as a process of its own, from a YAML file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from paimon_table.errors import ConfigError
from paimon_table.table import Table
from tests.stack.process import die_with_parent
from tests.support.waiting import seconds

NOT_THERE_YET = (ConfigError, OSError, LookupError, ValueError)
LOG_TAIL = 6_000
"""How many characters of its log a failure shows of a process that still runs."""

YAML = """\
version: 1
name: {name}
source:
  files: {{ path: {dumps}, max_records_per_batch: {max_records} }}
  format: debezium-json
trigger: {{ interval: 1s }}
checkpoint: {root}/checkpoint
catalog: {{ type: filesystem, warehouse: {root}/warehouse }}
spark:
  master: {master}
  spark.driver.memory: 1g
defaults:
  options: {{ {buckets}, changelog-producer: {producer} }}
tables:
"""

ALL_TABLES = """\
  - match: { schema: public, table: '(.*)' }
    into: 'lake.{table}'
"""


def write_pipeline(
    root: Path,
    dumps: Path,
    max_records: int = 400,
    producer: str = "lookup",
    master: str = "local[2]",
    buckets: str = "bucket: 2",
    rules: str = "",
) -> Path:
    """A pipeline file below ``root`` that reads ``dumps`` into ``root/warehouse``, by ``rules`` before one for all."""
    file = root / "pipeline.yaml"
    given = {"max_records": max_records, "producer": producer, "master": master, "buckets": buckets}
    file.write_text(YAML.format(name="shop", dumps=dumps, root=root, **given) + rules + ALL_TABLES)
    return file


def rows_so_far(location: str | Path) -> list[dict[str, Any]]:
    """The rows of a table that a running pipeline writes; none while it is being created."""
    try:
        rows: list[dict[str, Any]] = Table.open(str(location)).to_arrow().to_pylist()
    except NOT_THERE_YET:
        return []
    return rows


def run_once(file: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`tidemark run FILE --once` in a session (and process group) of its own."""
    return run_together([file], env, timeout_s=240)


def run_together(
    files: Sequence[Path], env: Mapping[str, str] | None = None, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """`tidemark run FILES --once`: all of them in one process, in a session (and process group) of its own."""
    tidemark = Path(sys.executable).with_name("tidemark")
    return subprocess.run(
        [str(tidemark), "run", *map(str, files), "--once"],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=seconds(timeout_s),
        start_new_session=True,
        check=False,
    )


@contextlib.contextmanager
def running(file: Path | Sequence[Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tidemark run FILES` in a session of its own, its messages in ``log``; killed at the end if it still runs."""
    with killed_at_the_end(started(file, log), log) as process:
        yield process


@contextlib.contextmanager
def killed_at_the_end(process: subprocess.Popen[bytes], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process is killed at the end of the block if it still runs; a failure in it shows the end of the log."""
    try:
        yield process
    except BaseException as error:
        state = "runs" if process.poll() is None else f"has ended with {process.returncode}"
        error.add_note(f"The process {state}. The end of {log}:\n{log.read_text(errors='replace')[-LOG_TAIL:]}")
        raise
    finally:
        kill(process)


def started(file: Path | Sequence[Path], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """`tidemark run FILES` in a session of its own, its messages at the end of ``log``; the caller ends it."""
    tidemark = Path(sys.executable).with_name("tidemark")
    with log.open("ab") as out:
        return subprocess.Popen(
            [str(tidemark), "run", *map(str, [file] if isinstance(file, Path) else file)],
            env={**os.environ, **(env or {})},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_hear_hangups_and_end_with_the_tests,
        )


def _hear_hangups_and_end_with_the_tests() -> None:
    """In the new process: SIGHUP is not ignored, as it is where the tests run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if sys.platform == "linux":
        die_with_parent()


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the driver and everything it started, at whatever step it is."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    for victim in (psutil.Process(process.pid), *children):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.wait(timeout=seconds(30))


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll until the condition holds; fails with ``what`` when it does not in time (of a quiet machine).

    A condition without data does not hold yet: a missing table or file, a half-written line, a port without a listener.
    The limit grows with the load while it waits.
    """
    began_s, limit_s = time.monotonic(), 0.0
    while True:
        asked_s, trouble = time.monotonic(), None
        try:
            if condition():
                return
        except NOT_THERE_YET as error:
            trouble = error
        now_s, limit_s = time.monotonic(), max(limit_s, seconds(timeout_s))
        if now_s - began_s > limit_s:
            raise AssertionError(f"{what} did not happen within {now_s - began_s:.0f} s") from trouble
        time.sleep(min(0.3, max(0.02, 3 * (now_s - asked_s))))
