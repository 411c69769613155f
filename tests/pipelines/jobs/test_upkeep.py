"""`tidemark table remove-orphans | repair` as they are called."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from tests.support.command import tidemark
from tests.support.table_driver import TableDriver, new_table


def made(tmp_path: Path) -> TableDriver:
    driver = TableDriver(new_table(tmp_path / "t", [("k", "INT"), ("v", "STRING")], ["k"]), tmp_path / "lookup")
    for commit in range(3):
        driver.commit([["+I", key, f"v{commit}"] for key in range(5)])
    return driver


def left_behind(tmp_path: Path, days: float) -> str:
    path = tmp_path / "t/bucket-0" / f"data-{uuid.uuid4()}-0.parquet"
    path.write_bytes(b"x" * 1234)
    then = time.time() - days * 24 * 3600
    os.utime(path, (then, then))
    return f"bucket-0/{path.name}"


def test_orphans_are_listed_then_removed(tmp_path: Path) -> None:
    driver = made(tmp_path)
    content = driver.content()
    old, young = left_behind(tmp_path, 2), left_behind(tmp_path, 0.5)
    (tmp_path / "t/mine.txt").write_text("mine")
    listed = tidemark("table", "remove-orphans", tmp_path / "t", "--dry-run")
    assert listed.stdout.splitlines()[0].endswith(f"Z  1,234  {old}")
    assert listed.stdout.splitlines()[1] == "would remove 1 file of 1,234 bytes that nothing refers to"
    assert (tmp_path / "t" / old).exists()
    done = tidemark("table", "remove-orphans", tmp_path / "t")
    assert (done.returncode, done.stdout) == (0, "removed 1 file of 1,234 bytes that nothing refers to\n")
    assert "1 file of 1,234 bytes are not referred to either, but younger than 1d: a writer may" in done.stderr
    assert done.stderr.endswith("not files of a Paimon table, left alone:\n  mine.txt\n")
    assert not (tmp_path / "t" / old).exists() and (tmp_path / "t" / young).exists()
    again = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "36 h")
    assert again.stdout.startswith("nothing to remove: of ")
    assert driver.content() == content


def test_a_day_is_the_least_unless_nobody_writes(tmp_path: Path) -> None:
    made(tmp_path)
    young = left_behind(tmp_path, 0.1)
    refused = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "1h")
    assert (refused.returncode, "say that nobody writes" in refused.stderr) == (2, True)
    assert tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "soon").returncode == 2
    assert (tmp_path / "t" / young).exists()
    done = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "1h", "--nobody-writes")
    assert done.stdout == "removed 1 file of 1,234 bytes that nothing refers to\n"
