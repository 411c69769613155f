"""A running pipeline whose file changes, with its messages for machines."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paimon_table import Table
from tests.support.command import TIDEMARK
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, running, wait_until, write_pipeline
from tests.support.waiting import seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ANY = "  - match: { schema: public, table: '(.*)' }\n    into: 'lake.{table}'\n"
ONE = "  - match: {{ schema: public, table: {0} }}\n    into: lake.{0}\n"


def test_a_changed_file_is_taken_between_two_batches_and_a_wrong_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "json")
    log, dumps = tmp_path / "messages", tmp_path / "dumps"
    orders, items = History("orders", seed=3).extend(100), History("items", seed=4).extend(100)
    write_dump(dumps, [orders])
    write_dump(tmp_path / "later", [items])
    file = write_pipeline(tmp_path, dumps)
    whole = file.read_text()
    assert ANY in whole
    wrong = ONE.format("orders") + "    columns: { drop: [totall] }\n"
    file.write_text(whole.replace(ANY, wrong))

    def events(name: str) -> list[dict[str, Any]]:
        return [event for line in log.read_text().splitlines() if (event := json.loads(line))["event"] == name]

    def says(name: str) -> Callable[[], bool]:
        return lambda: bool(events(name))

    with running(file, log) as process:
        wait_until(says("batch"), 120, "the first batch")
        file.write_text(whole.replace("interval: 1s", "intervall: 1s"))
        process.send_signal(signal.SIGHUP)
        wait_until(says("reload-refused"), 30, "the refusal of a wrong file")
        assert f"{file}:6:12:" in events("reload-refused")[0]["message"]

        file.write_text(whole.replace(ANY, wrong + ONE.format("items")))
        done = subprocess.run([*TIDEMARK, "reload", str(file)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "pipeline shop: tables added: lake.items\n"), done.stderr
        wait_until(says("reloaded"), 30, "the word about the new file")
        assert events("reloaded")[0]["message"].endswith("tables added: lake.items")
        for dump in (tmp_path / "later").iterdir():
            shutil.copy(dump, dumps / f"later-{dump.name}.part")
            (dumps / f"later-{dump.name}.part").rename(dumps / f"later-{dump.name}")
        wait_until(says("table-created"), 60, "the new table")
        wait_until(lambda: any("lake.items" in e["rows"] for e in events("batch")), 60, "rows in the new table")
        process.terminate()
        assert process.wait(timeout=seconds(60)) == 0, log.read_text()

    for history in (orders, items):
        rows = Table.open(f"{tmp_path}/warehouse/lake.db/{history.table}").to_arrow().to_pylist()
        assert {row["id"]: row for row in rows} == history.rows
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"started", "stopping"} <= {message["event"] for message in messages}
    unmatched = "rule into lake.orders: columns.drop: 'totall' matches no column of shop.public.orders:"
    assert sum(message["message"].startswith(unmatched) for message in messages) == 1


def has_text(file: Path, text: str) -> bool:
    return text in file.read_text()


@pytest.mark.crash
def test_a_kill_while_a_changed_file_is_taken_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """In append tables, where each record that is read twice would be seen."""
    dumps = tmp_path / "dumps"
    orders, items = History("orders", seed=5).extend(60), History("items", seed=6).extend(60)
    write_dump(dumps, [orders])
    write_dump(tmp_path / "later", [items])
    file = write_pipeline(tmp_path, dumps, producer="none", buckets="bucket: -1")
    whole = file.read_text()
    log_rule = "    mode: append\n    on_change: log\n"
    one, both = (
        whole.replace(ANY, "".join(ONE.format(name) + log_rule for name in names))
        for names in (["orders"], ["orders", "items"])
    )
    for number, wait_s in enumerate((0.0, 0.3)):
        file.write_text(one)
        log = tmp_path / f"messages-{number}"
        with running(file, log) as process:
            wait_until(partial(has_text, log, "shop: reads"), 120, "the start")
            file.write_text(both)
            process.send_signal(signal.SIGHUP)
            time.sleep(wait_s)
            if number == 0:
                for dump in (tmp_path / "later").iterdir():
                    shutil.copy(dump, dumps / f"later-{dump.name}")
            process.kill()
            process.wait()
        done = run_once(file)
        assert done.returncode == 0, done.stderr
        for history in (orders, items):
            rows = Table.open(f"{tmp_path}/warehouse/lake.db/{history.table}").to_arrow().to_pylist()
            places = {(row["event_partition"], row["event_offset"]) for row in rows}
            count = sum(envelope is not None for _, _, envelope in history.events)
            assert (len(rows), len(places)) == (count, count), done.stderr
