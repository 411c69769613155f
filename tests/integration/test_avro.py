"""A captured topic in Avro through a real run: a registry that is away at first, and lacks a schema."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from paimon_table import Table
from tests.support.command import tidemark
from tests.support.pipeline_run import running, wait_until
from tests.support.registry_server import RegistryServer, running_registry
from tests.support.replay import CAPTURES, final_rows, plain_rows
from tests.support.waiting import seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PASSWORD = "s3cretOfTheRegistry"
YAML = """\
version: 1
name: shop
source:
  files: {{ path: {dumps} }}
  format: {{ debezium-avro: {{ registry: {registry} }} }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
trigger: {{ interval: 1s }}
defaults: {{ options: {{ bucket: 1 }}, max_bad_records: null }}
tables:
  - match: {{ schema: public, table: 'customers|orders|order_items' }}
    into: 'lake.{{table}}'
otherwise: skip
"""
SCHEMAS: dict[str, Any] = json.loads((CAPTURES / "shop_avro.schemas.json").read_text())["schemas"]


def dump(directory: Path, lines: list[str]) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "shop.jsonl").write_text("".join(lines))
    return directory


def captured() -> list[str]:
    with gzip.open(CAPTURES / "shop_avro.raw.jsonl.gz", "rt", encoding="utf-8") as lines:
        return list(lines)


def assert_final(root: Path, table: str, key: tuple[str, ...]) -> None:
    """The table has the rows of the source, under the types that the schemas say."""
    stored = Table.open(f"{root}/warehouse/lake.db/{table}")
    types = {f.name: f.type for f in stored.schema.fields}
    expected = {tuple(row[k] for k in key): row for row in final_rows("shop", table, types)}
    assert {tuple(row[k] for k in key): row for row in plain_rows(stored.to_arrow())} == expected


def shown_commands(pid: int) -> str:
    """The command lines of a process and of all below it, as anybody on the machine sees them."""
    found: list[str] = []
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.Error):
            found += process.cmdline()
    assert found
    return " ".join(found)


def told_to_spark(events: Path) -> bytes:
    """What Spark's event log holds, also inside of properties that are packed."""
    text = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
    packed = set(re.findall(rb'"tidemark.decode":"([^"]+)"', text))
    assert packed
    return text + b"".join(zlib.decompress(base64.b64decode(one)) for one in packed)


def test_a_run_waits_for_its_registry_and_shows_no_secret(tmp_path: Path) -> None:
    """The registry lacks a schema until the run is over: then its records come back from quarantine."""
    dumps, log = dump(tmp_path / "dumps", captured()), tmp_path / "messages"
    login = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    known = {number: schema for number, schema in SCHEMAS.items() if number != "6"}
    with running_registry(RegistryServer(known, failure="503", login=login)) as server:
        registry = f"{{ url: '{server.url()}', username: me, password: '{PASSWORD}', proxy: none }}"
        file = tmp_path / "shop.yaml"
        events = tmp_path / "events"
        events.mkdir()
        settings = "spark.eventLog.enabled: true, spark.eventLog.compress: false"
        log_events = f"spark: {{ {settings}, spark.eventLog.dir: 'file://{events}' }}\n"
        file.write_text(YAML.format(root=tmp_path, dumps=dumps, registry=registry) + log_events)
        with running(file, log) as process:
            wait_until(lambda: "no schema registry answers" in log.read_text(), 120, "the outage")
            commands = shown_commands(process.pid)
            server.failure = None
            wait_until(lambda: "batch 0:" in log.read_text(), 120, "the first batch")
            process.terminate()
            assert process.wait(timeout=seconds(60)) == 0, log.read_text()
        assert {path for path, _ in server.requests} == {f"/schemas/ids/{number}" for number in range(1, 9)}
        _check_quarantined(tmp_path)
        assert not (tmp_path / "warehouse/lake.db/orders").exists()

        server.schemas = SCHEMAS
        retried = tidemark("quarantine", "retry", "--even-if-older", file)

    assert retried.returncode == 0, retried.stderr + retried.stdout
    for table, key in (("customers", ("id",)), ("orders", ("id",)), ("order_items", ("order_id", "line_no"))):
        assert_final(tmp_path, table, key)
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    for secret in (PASSWORD, login.removeprefix("Basic ")):
        assert secret not in log.read_text() and secret not in commands
        assert not any(secret.encode() in text for text in (*kept, told_to_spark(events)))


def _check_quarantined(root: Path) -> None:
    (bad,) = (root / "checkpoint-quarantine").glob("*/batch-*")
    lines = [json.loads(line) for path in bad.glob("*.jsonl") for line in path.read_text().splitlines()]
    (reason,) = {line["reason"] for line in lines}
    assert reason.startswith("schema 6 does not exist")
    assert all(line["payload_b64"].startswith("AAAAAAY") and "payload" not in line for line in lines)
