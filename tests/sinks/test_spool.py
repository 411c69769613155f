"""Blobs that go around the shuffle arrive unchanged, and their files do not stay."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from paimon_table.data_file import BucketId
from sinks.blob import Blob, decode_rows, encode_rows, from_record_batch, to_record_batch
from sinks.spool import SMALLEST_BYTES, Spool, loaded

ROWS = pa.table({"id": list(range(20_000)), "name": [f"name {i}" for i in range(20_000)]})


def blob(rows: pa.Table) -> Blob:
    return Blob(7, 0, BucketId(b"", 1), "shop.orders", 3, 100, rows.num_rows, encode_rows(rows))


def files(spool: Spool) -> list[str]:
    return os.listdir(spool.directory)


def test_large_blob_travels_as_a_file_and_comes_back_equal(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    placed = spool.put(blob(ROWS))
    assert len(placed.data) == 0 and placed.file in {f"{spool.directory}/{name}" for name in files(spool)}
    (arrived,) = from_record_batch(to_record_batch([placed]))
    assert arrived.row_count == ROWS.num_rows
    assert decode_rows(loaded(arrived).data).equals(ROWS)


def test_small_blob_stays_in_the_row(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    small = blob(ROWS.slice(0, 10))
    assert len(small.data) < SMALLEST_BYTES
    assert spool.put(small) is small and files(spool) == []
    assert decode_rows(loaded(small).data).equals(ROWS.slice(0, 10))


def test_loaded_rows_stay_readable_after_the_spool_is_cleared(tmp_path: Path) -> None:
    spool = Spool.open(str(tmp_path))
    rows = decode_rows(loaded(spool.put(blob(ROWS))).data)
    spool.clear()
    assert files(spool) == []
    assert rows.equals(ROWS)


def test_spool_of_an_ended_process_is_removed_and_that_of_a_living_one_kept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid in (ended.pid, os.getppid()):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "left").write_bytes(b"x")
    Spool.open(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([str(os.getppid()), str(os.getpid())])
