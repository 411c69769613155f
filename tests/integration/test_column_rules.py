"""A rule with computed columns, a filter, a mask and a computed partition, run by Spark from its file."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from paimon_table.table import Table
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RULE = """\
  - match: { table: orders }
    into: lake.orders
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


def test_a_table_is_what_its_rule_makes_of_the_source(tmp_path: Path) -> None:
    history = History("orders", seed=11, keys=150).extend(1500)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=300, rules=RULE)

    done = run_once(file, {"MASK_KEY": KEY})

    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    assert [f.name for f in table.schema.fields] == ["id", "name", "version", "band", "double", "last_op"]
    rows = {row.pop("id"): row for row in table.to_arrow().to_pylist()}
    assert {row.pop("last_op") for row in rows.values()} <= {"c", "u"}
    assert rows == {key: stored(row) for key, row in history.rows.items() if row["amount"] >= 3000}
    replayed = replay_strictly((part for _, part in table.changes()), ["id"])
    assert len(replayed) == len(rows) and len(rows) > 50


def stored(row: dict[str, Any]) -> dict[str, Any]:
    digest = hmac.new(KEY.encode(), row["name"].encode(), hashlib.sha256).hexdigest()
    amount = row["amount"]
    return {"name": digest, "version": row["step"], "band": amount // 1000, "double": amount * 2}
