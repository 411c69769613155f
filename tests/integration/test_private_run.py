"""What other users of the machine can see of a running pipeline: no port, no secret, no row."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import psutil
import pytest

from paimon_table.storage.file_io import file_io_for
from paimon_table.table import Table
from tests.support.events import History, write_dump
from tests.support.pipeline_run import running, wait_until
from tests.support.s3_server import s3_server
from tests.support.waiting import seconds

pytestmark = pytest.mark.spark

SECRET = "TOPSECRETKEY"
KEY_ID = "AKIDOFTHETEST"
YAML = """\
version: 1
name: shop
source:
  files: {{ path: {root}/dumps, max_records_per_batch: 300 }}
  format: debezium-json
trigger: {{ interval: 1s }}
checkpoint: {root}/checkpoint
catalog:
  type: filesystem
  warehouse: s3://lake
  options:
    s3.endpoint: {endpoint}
    s3.access-key: {key}
    s3.secret-key: "${{env:STORE_KEY}}"
    s3.path.style.access: true
spark: {{ master: 'local[2]', spark.driver.memory: 1g, spark.hadoop.fs.s3a.secret.key: "${{env:STORE_KEY}}" }}
defaults: {{ options: {{ bucket: 2, changelog-producer: lookup }} }}
tables:
  - match: {{ schema: public, table: orders }}
    into: lake.orders
"""


def test_a_run_shows_other_users_no_port_no_secret_and_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tmp_path / "local"
    local.mkdir()
    local.chmod(0o1777)
    for name, value in {"STORE_KEY": SECRET, "SPARK_LOCAL_DIRS": str(local), "TMPDIR": str(local)}.items():
        monkeypatch.setenv(name, value)
    history = History("orders", seed=21).extend(3_000)
    write_dump(tmp_path / "dumps", [history])
    (tmp_path / "dumps" / "bad.jsonl").write_text(
        '{"topic": "t", "partition": 0, "offset": 0, "payload": "no event"}\n'
    )
    file, log = tmp_path / "pipeline.yaml", tmp_path / "tidemark.log"
    old = os.umask(0o022)
    try:
        with s3_server() as server:
            file.write_text(YAML.format(root=tmp_path, endpoint=server.endpoint, key=KEY_ID))
            with running(file, log) as process:
                wait_until(lambda: "batch 0:" in log.read_text() or process.poll() is not None, 240, "a batch")
                seen = _watched(process.pid, tmp_path, lambda: "batch 6:" in log.read_text())
                process.terminate()
                assert process.wait(timeout=seconds(120)) == 0, log.read_text()
            options = {"s3.endpoint": server.endpoint, "s3.access-key": "k", "s3.secret-key": "s"}
            io, _ = file_io_for("s3://lake", {**options, "s3.path.style.access": "true"})
            assert io.list_names("s3://lake/lake.db/orders")
            table = Table.open("s3://lake/lake.db/orders", {**options, "s3.path.style.access": "true"})
            assert table.to_arrow().num_rows > 0
    finally:
        os.umask(old)

    assert seen.ports and {address for address in seen.ports if not _is_loopback(address)} == set()
    assert seen.leaks == set()
    assert any("lookup" in path for path in seen.files) and any("/spark/" in path for path in seen.files)
    assert seen.exposed == set()
    assert list(local.rglob("*.lookup")) == [], "local files go with the run"


class _Seen:
    def __init__(self) -> None:
        self.ports: set[str] = set()
        self.files: set[str] = set()
        self.leaks: set[str] = set()
        self.exposed: set[str] = set()


def _watched(pid: int, root: Path, is_over: object) -> _Seen:
    """Look at ports, command lines and files again and again, at least thrice, until enough batches are done."""
    seen = _Seen()
    deadline = time.monotonic() + seconds(240)
    rounds = 0
    while rounds < 3 or not is_over():  # type: ignore[operator]
        assert time.monotonic() < deadline, "the batches did not happen"
        rounds += 1
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            try:
                connections = process.net_connections("inet")
                seen.ports |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
                if SECRET in " ".join(process.cmdline()):
                    seen.leaks.add(f"command line of {process.name()}")
            except psutil.Error:
                continue
        _look_at_files(root, seen)
    return seen


def _look_at_files(root: Path, seen: _Seen) -> None:
    for directory, names, files in os.walk(root):
        for path in (Path(directory, name) for name in [*names, *files]):
            try:
                mode, content = path.stat().st_mode, path.read_bytes() if path.is_file() else b""
            except OSError:
                continue
            seen.files.add(str(path))
            if SECRET.encode() in content or (KEY_ID.encode() in content and path.name != "pipeline.yaml"):
                seen.leaks.add(str(path))
            if path.is_relative_to(root / "local") or path.is_relative_to(root / "checkpoint-quarantine"):
                reachable = all(_is_open(above) for above in [path, *path.parents] if above.is_relative_to(root))
                own = path.is_relative_to(root / "local") and f"/tidemark-{os.geteuid()}" in str(path)
                if reachable or (own and not _in_spark(path) and stat.S_IMODE(mode) & 0o077):
                    seen.exposed.add(f"{path} {stat.S_IMODE(mode):o}")


def _is_open(path: Path) -> bool:
    """Whether a user that is not the owner gets at it, or through it."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def _in_spark(path: Path) -> bool:
    """Spark's own files, whose modes it chooses; the directory above them is private."""
    return "/spark/" in str(path)


def _is_loopback(address: str) -> bool:
    return address.removeprefix("::ffff:") in {"127.0.0.1", "::1"}
