"""An object store that is away for a while: the pipeline waits, goes on, and no record comes in twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table import CommitKind, Table
from tests.support.events import History, write_dump
from tests.support.pipeline_run import running, wait_until, write_pipeline
from tests.support.s3_server import s3_server
from tests.support.waiting import seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_pipeline_waits_for_its_storage_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    log, dumps = tmp_path / "messages", tmp_path / "dumps"
    history = History("orders", seed=5).extend(150)
    write_dump(dumps, [history])
    (dump,) = dumps.iterdir()
    lines = dump.read_text().splitlines(keepends=True)
    dump.write_text("".join(lines[:100]))
    with s3_server() as store:
        keys = {"s3.endpoint": store.endpoint, "s3.access-key": "a", "s3.secret-key": "b", "s3.region": "us-east-1"}
        keys["s3.path.style.access"] = "true"
        file = write_pipeline(tmp_path, dumps)
        catalog = f"catalog: {{ type: filesystem, warehouse: {tmp_path}/warehouse }}"
        options = ", ".join(f'{name}: "{value}"' for name, value in keys.items())
        text = file.read_text()
        assert catalog in text
        file.write_text(text.replace(catalog, f"catalog: {{ warehouse: s3://lake, options: {{ {options} }} }}"))

        with running(file, log) as process:
            wait_until(lambda: "batch 0:" in log.read_text(), 120, "the first batch")
            store.is_unreachable = True
            (dumps / "later.part").write_text("".join(lines[100:]))
            (dumps / "later.part").rename(dumps / "shop.public.orders-2.jsonl")
            wait_until(lambda: "(number 2)" in log.read_text(), 120, "a second try")
            store.is_unreachable = False
            wait_until(lambda: "continues after" in log.read_text(), 120, "the end of the trouble")
            wait_until(lambda: "batch 1:" in log.read_text(), 120, "the second batch")
            process.terminate()
            assert process.wait(timeout=seconds(60)) == 0, log.read_text()
        assert "is paused" not in log.read_text()

        table = Table.open("s3://lake/lake.db/orders", keys)
        assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
        appends = [s for s in table.snapshots.newest_first() if s.commit_kind == CommitKind.APPEND]
        assert len(appends) == 2
