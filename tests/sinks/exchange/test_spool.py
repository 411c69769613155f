"""Blobs that go around the shuffle arrive unchanged, and their files do not stay."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.bucket_assignment.lanes import Lane
from sinks.exchange.blob import Blob, decode_rows, encode_rows, from_record_batch, result_blob, to_record_batch
from sinks.exchange.spool import SMALLEST_BYTES, Spool, loaded

ROWS = pa.table({"id": list(range(20_000)), "name": [f"name {i}" for i in range(20_000)]})


def blob(rows: pa.Table) -> Blob:
    return Blob(7, 0, Lane(b"", 1), "shop.orders", 3, 100, rows.num_rows, encode_rows(rows))


def files(spool: Spool) -> list[str]:
    return os.listdir(spool.directory)


def comes_back(placed: list[Blob]) -> list[pa.Table]:
    """The rows of blobs that were placed, after a way through Spark."""
    return [decode_rows(arrived.data) for arrived in loaded(from_record_batch(to_record_batch(placed)))]


def test_large_blobs_travel_as_one_file_and_come_back_equal(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    parts = [ROWS, ROWS.slice(0, 3), ROWS.slice(5_000)]
    placed = spool.put([blob(rows) for rows in parts])
    (file,) = files(spool)
    assert all(len(one.data) == 0 and one.file == f"{spool.directory}/{file}" for one in placed)
    assert [one.row_count for one in placed] == [rows.num_rows for rows in parts]
    assert all(rows.equals(part) for rows, part in zip(comes_back(placed), parts, strict=True))


def test_blobs_of_several_files_come_back_in_order(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    first, second = (spool.put([blob(rows), blob(rows.slice(1))]) for rows in (ROWS, ROWS.slice(7)))
    small = blob(ROWS.slice(0, 2))
    back = comes_back([first[1], second[0], small, first[0], second[1]])
    expected = [ROWS.slice(1), ROWS.slice(7), ROWS.slice(0, 2), ROWS, ROWS.slice(8)]
    assert all(rows.equals(wanted) for rows, wanted in zip(back, expected, strict=True))


def test_rows_are_read_where_they_lie_in_the_file(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    before = pa.total_allocated_bytes()
    back = comes_back(spool.put([blob(ROWS.slice(0, 3)), blob(ROWS)]))
    assert pa.total_allocated_bytes() - before < ROWS.nbytes / 10
    assert back[1].equals(ROWS)


def test_small_blobs_stay_in_the_row(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    small = [blob(ROWS.slice(0, 10)), blob(ROWS.slice(10, 5))]
    assert sum(len(one.data) for one in small) < SMALLEST_BYTES
    assert spool.put(small) == small and files(spool) == []
    assert [rows.num_rows for rows in comes_back(small)] == [10, 5]


def test_a_large_report_stays_in_the_row(tmp_path: Path) -> None:
    """The driver reads it: one of many new tables is larger than what goes into files."""
    spool = Spool.open(str(tmp_path))
    report = result_blob(bytes(SMALLEST_BYTES), 0)
    assert spool.put([report]) == [report] and files(spool) == []
    placed = spool.put([blob(ROWS), report])
    assert placed[1] == report
    assert comes_back(placed[:1])[0].equals(ROWS)


def test_loaded_rows_stay_readable_after_the_spool_is_cleared(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    rows = comes_back(spool.put([blob(ROWS)]))[0]
    spool.clear()
    assert files(spool) == []
    assert rows.equals(ROWS)


@pytest.mark.slow
def test_spool_of_a_killed_process_is_removed_and_that_of_a_living_one_kept(tmp_path: Path) -> None:
    code = (
        f"from sinks.exchange.spool import Spool; print(Spool.open({str(tmp_path)!r}).directory, flush=True); input()"
    )
    owners = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    directories = []
    for owner in owners:
        assert owner.stdout is not None
        directories.append(Path(owner.stdout.readline().strip()))
        (directories[-1] / "blob").write_bytes(b"x")
    killed, ended, living = owners
    killed.kill()
    killed.wait()
    ended.communicate("\n")
    assert directories[0].exists() and not directories[1].exists()

    Spool.open(str(tmp_path))

    assert not directories[0].exists() and (directories[2] / "blob").exists()
    living.communicate("\n")


def test_a_directory_that_somebody_cleaned_away_is_made_again(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    os.rmdir(spool.directory)
    assert comes_back(spool.put([blob(ROWS)]))[0].equals(ROWS)
    os.remove(f"{spool.directory}/{files(spool)[0]}")
    os.rmdir(spool.directory)
    spool.clear()
    assert files(spool) == []


def test_the_driver_gets_what_tasks_announce_while_they_go_on(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    announcing = threading.Thread(target=lambda: (time.sleep(0.05), spool.announce("0", [b"a", b"b"])))
    os.rmdir(spool.directory)
    spool.announce("1", [b"c"])
    announcing.start()
    assert spool.announced(["0", "1"], lambda: False) == [b"a", b"b", b"c"]
    announcing.join()
    spool.clear()
    assert files(spool) == []


def test_what_was_left_for_a_group_is_given_once_while_more_comes(tmp_path: Path) -> None:
    batch = Spool.open(str(tmp_path))
    outcomes = batch.beside()
    outcomes.give_one_of("a", 1)
    outcomes.give_one_of("b", 2)
    batch.clear()

    assert list(outcomes.taken("a")) == [1]
    outcomes.give_one_of("a", 3)
    assert (list(outcomes.taken("a")), list(outcomes.taken("a")), list(outcomes.taken("b"))) == ([3], [], [2])
    assert files(outcomes) == []
    os.rmdir(outcomes.directory)
    assert list(outcomes.taken("a")) == []
    outcomes.give_one_of("a", 4)
    assert list(outcomes.taken("a")) == [4]


def test_the_driver_does_not_wait_for_tasks_that_have_ended(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    spool.announce("0", [b"a"])
    assert spool.announced(["0"], lambda: True) == [b"a"]
    assert spool.announced(["0", "1"], lambda: True) is None


FULL = """
import resource, sys
from paimon_table.errors import MachineFailure
from sinks.exchange.spool import SMALLEST_BYTES, Spool
from tests.sinks.exchange.test_spool import ROWS, blob
spool = Spool.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for left in (lambda: spool.put([blob(ROWS)]), lambda: spool.give("plan", bytes(SMALLEST_BYTES))):
    try:
        left()
    except MachineFailure as error:
        print(error)
"""


@pytest.mark.slow
def test_a_disk_without_room_is_told_with_the_directory_and_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 2, done.stdout + done.stderr
    for text in told:
        assert text.startswith(f"the files between tasks cannot be written to {tmp_path}/"), text
        assert "(File too large)" in text
        assert "free some space there, or set another directory (spark.local.dir), then start again" in text
