"""`tidemark table remove-orphans | repair | remove-duplicates` as they are called."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from tests.support.command import tidemark
from tests.support.table_driver import TableDriver, new_table, prepared


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
    assert listed.stdout.splitlines()[1] == "would remove 1 file of 1,234 bytes that nothing references"
    assert (tmp_path / "t" / old).exists()
    done = tidemark("table", "remove-orphans", tmp_path / "t")
    assert (done.returncode, done.stdout) == (0, "removed 1 file of 1,234 bytes that nothing references\n")
    assert "1 file of 1,234 bytes are not referenced either, but younger than 1d: a writer may" in done.stderr
    assert done.stderr.endswith("not files of a Paimon table, kept:\n  mine.txt\n")
    assert not (tmp_path / "t" / old).exists() and (tmp_path / "t" / young).exists()
    again = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "36 h")
    assert again.stdout.startswith("nothing to remove: none of ")
    assert driver.content() == content


def test_keys_in_two_partitions_are_listed_then_one_row_of_each_is_left(tmp_path: Path) -> None:
    columns = [("k", "INT"), ("dt", "STRING"), ("v", "INT")]
    table = new_table(tmp_path / "t", columns, ["k"], ["dt"], {"bucket": "-1"})
    one, two = (TableDriver(table, tmp_path / name, name) for name in ("one", "two"))
    unaware = prepared(one, [["+I", 7, "a", 9], ["+I", 8, "a", 1]], notes=False)
    two.commit([["+I", 7, "b", 5], ["+I", 1, "b", 1]])
    table.new_commit("one").commit(99, unaware, {})

    command = ("table", "remove-duplicates", tmp_path / "t", "--newest-by", "v")
    listed = tidemark(*command, "--dry-run")
    assert listed.stdout == "would delete 1 row:\n  k = 7: dt=b, bucket 3 goes, that of dt=a, bucket 3 stays\n"
    refused = tidemark(*command)
    assert (refused.returncode, "nothing was deleted: add --yes" in refused.stderr) == (2, True)
    assert len(two.content()) == 4
    done = tidemark(*command, "--yes")
    assert done.stdout.endswith("deleted 1 row, snapshot 3; each key has one row now\n")
    assert sorted(two.content()) == [[1, "b", 1], [7, "a", 9], [8, "a", 1]]
    assert tidemark(*command).stdout == "nothing to remove: no key is in two partitions\n"
    two.commit([["+I", 7, "b", 10]])
    assert sorted(two.content()) == [[1, "b", 1], [7, "b", 10], [8, "a", 1]]


def test_a_day_is_the_least_unless_nobody_writes(tmp_path: Path) -> None:
    made(tmp_path)
    young = left_behind(tmp_path, 0.1)
    refused = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "1h")
    assert (refused.returncode, "If nothing writes to the table, use --nobody-writes" in refused.stderr) == (2, True)
    assert tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "soon").returncode == 2
    bare = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "2", "--nobody-writes")
    assert (bare.returncode, "--older-than: '2' has no unit" in bare.stderr) == (2, True)
    assert (tmp_path / "t" / young).exists()
    done = tidemark("table", "remove-orphans", tmp_path / "t", "--older-than", "1h", "--nobody-writes")
    assert done.stdout == "removed 1 file of 1,234 bytes that nothing references\n"


def test_a_whole_table_needs_no_repair(tmp_path: Path) -> None:
    made(tmp_path)
    done = tidemark("table", "repair", tmp_path / "t", "--deep")
    assert (done.returncode, done.stdout) == (0, "3 snapshots and 3 files looked at: nothing is damaged\n")


def test_a_dry_run_leaves_hints_as_they_are(tmp_path: Path) -> None:
    made(tmp_path)
    hint = tmp_path / "t/snapshot/LATEST"
    hint.write_text("1")
    dry = tidemark("table", "repair", tmp_path / "t", "--dry-run")
    assert (dry.returncode, hint.read_text()) == (1, "1")
    assert dry.stdout.startswith("snapshot/LATEST: says '1', should say 3\n")
    done = tidemark("table", "repair", tmp_path / "t")
    assert (done.returncode, hint.read_text()) == (0, "3")
    assert done.stdout.startswith("snapshot/LATEST: says '1', says 3 now\n")


def test_damage_of_the_newest_snapshot_is_told_with_what_to_do(tmp_path: Path) -> None:
    columns = [("k", "INT"), ("dt", "STRING")]
    driver = TableDriver(new_table(tmp_path / "t", columns, ["dt", "k"], ["dt"]), tmp_path / "lookup")
    driver.commit([["+I", 1, "a"]])
    driver.commit([["+I", 1, "it's"]])
    (damaged,) = (tmp_path / "t/dt=it%27s/bucket-0").iterdir()
    damaged.unlink()
    done = tidemark("table", "repair", tmp_path / "t")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"dt=it%27s/bucket-0/{damaged.name}: is missing (partition dt=it%27s, bucket 0; needed by snapshot 2)",
        "2 snapshots and 2 files looked at: 1 damaged file",
    ]
    root = tmp_path / "t"
    assert f"tidemark table drop-partition {root} --partition dt=it%27s'" in done.stderr
    assert f"tidemark table rollback {root} --snapshot 1'" in done.stderr
    assert tidemark("table", "drop-partition", root, "--partition", "dt=it%27s", "--yes").returncode == 0
    after = tidemark("table", "repair", root)
    assert "the newest snapshot (3) is complete" in after.stderr


def test_a_table_without_readable_schema_is_refused_in_words(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "t/schema/schema-0").write_text("{")
    done = tidemark("table", "repair", tmp_path / "t")
    assert done.returncode == 1 and "no schema of" in done.stderr
    assert tidemark("table", "repair", tmp_path / "nothing").returncode == 2
