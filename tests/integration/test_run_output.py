"""What one run from a file makes and prints, as a process of its own, where packages have the names of ours.

The run reads changes, a table with a rule of its own, a line that is no JSON, and a file that was cut short.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from paimon_table.table import Table
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline
from tidemark.own_packages import PACKAGES

pytestmark = pytest.mark.spark

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S.*")
RULE = """\
  - match: { table: ruled }
    into: lake.ruled
    where: amount >= 3000
    partition_by: [band]
    options: { bucket: -1 }
    columns:
      rename: { step: version }
      drop: [amount]
      add: { band: amount // 1000, double: amount * 2, last_op: $op }
      mask: { name: { hash: sha256, key: '${env:MASK_KEY}' } }
"""
KEY = "a key of the test"


@dataclass
class Run:
    root: Path
    done: CompletedProcess[str]
    ruled: History


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("run_output")
    for name in PACKAGES:
        (root / name).mkdir()
        (root / name / "__init__.py").write_text("raise RuntimeError('somebody else')\n")
    ruled = History("ruled", seed=11, keys=150).extend(700)
    write_dump(root / "dumps", [History("orders", seed=9).extend(200), ruled])
    (root / "dumps" / "broken.jsonl").write_text("no JSON\n")
    whole = gzip.compress("".join(f"{_record(number)}\n" for number in range(20_000)).encode())
    (root / "dumps" / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    file = write_pipeline(root, root / "dumps", max_records=5_000, rules=RULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        paths = os.pathsep.join([".", *filter(None, [os.environ.get("PYTHONPATH")])])
        yield Run(root, run_once(file, {"PYTHONPATH": paths, "MASK_KEY": KEY}), ruled)


def _record(number: int) -> str:
    source = {"db": "shop", "schema": "public", "table": "cut"}
    event = {"op": "c", "before": None, "after": {"id": number, "note": f"{number * 7919:x}"}, "source": source}
    key, payload = json.dumps({"id": number}), json.dumps(event)
    return json.dumps({"topic": "shop.cut", "partition": 0, "offset": number, "key": key, "payload": payload})


def test_a_run_tells_what_it_does_without_the_noise_of_the_jvm(run: Run) -> None:
    told, lines = run.done.stderr, run.done.stderr.splitlines()
    assert [line for line in lines[:-1] if not LINE.fullmatch(line)] == []
    for words in ("starting Spark", "started in", "shop: reads 4 files", "begins at the earliest", "shop: batch 0: 5"):
        assert words in told
    quarantine = f"{run.root}/checkpoint-quarantine"
    assert f"1 quarantined in {quarantine}: 1 " in told
    assert f"1 quarantined in {quarantine}: 1 " in run.done.stdout
    assert " table scan warehouse/lake.db/cut --limit 10" in run.done.stdout


def test_a_cut_dump_is_read_as_far_as_it_goes_and_ends_the_run_with_1(run: Run) -> None:
    assert run.done.returncode == 1, run.done.stderr
    last = run.done.stderr.splitlines()[-1]
    assert f"pipeline shop: {run.root}/dumps/cut.jsonl.gz: its compressed stream is incomplete" in last
    assert f"not all was read: {run.root}/dumps/cut.jsonl.gz" in run.done.stdout
    assert 5_000 < len(Table.open(f"{run.root}/warehouse/lake.db/cut").to_arrow()) < 20_000


def test_a_table_is_what_its_rule_makes_of_the_source(run: Run) -> None:
    assert KEY not in run.done.stdout + run.done.stderr
    table = Table.open(f"{run.root}/warehouse/lake.db/ruled")
    assert [f.name for f in table.schema.fields] == ["id", "name", "version", "band", "double", "last_op"]
    rows = {row.pop("id"): row for row in table.to_arrow().to_pylist()}
    assert {row.pop("last_op") for row in rows.values()} <= {"c", "u"}
    assert rows == {key: _stored(row) for key, row in run.ruled.rows.items() if row["amount"] >= 3000}
    replayed = replay_strictly((part for _, part in table.changes()), ["id"])
    assert len(replayed) == len(rows) and len(rows) > 50


def _stored(row: dict[str, Any]) -> dict[str, Any]:
    digest = hmac.new(KEY.encode(), row["name"].encode(), hashlib.sha256).hexdigest()
    amount = row["amount"]
    return {"name": digest, "version": row["step"], "band": amount // 1000, "double": amount * 2}


def test_what_the_jvm_said_is_shown_when_spark_does_not_start(tmp_path: Path) -> None:
    write_dump(tmp_path / "dumps", [History("orders", seed=9).extend(2)])
    file = write_pipeline(tmp_path, tmp_path / "dumps")
    file.write_text(file.read_text().replace("spark.driver.memory: 1g", "spark.driver.memory: 1k"))

    done = run_once(file)

    assert done.returncode == 1
    told, *jvm = done.stderr[done.stderr.index("Spark did not start") :].splitlines()
    assert "JAVA_GATEWAY_EXITED" in told
    assert any(line.startswith("  ") and "Too small maximum heap" in line for line in jvm), done.stderr
    assert "Traceback" not in done.stderr
