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


def test_spool_of_a_killed_process_is_removed_and_that_of_a_living_one_kept(tmp_path: Path) -> None:
    code = f"from sinks.spool import Spool; print(Spool.open({str(tmp_path)!r}).directory, flush=True); input()"
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
    assert decode_rows(loaded(spool.put(blob(ROWS))).data).equals(ROWS)
    os.remove(f"{spool.directory}/{files(spool)[0]}")
    os.rmdir(spool.directory)
    spool.clear()
    assert files(spool) == []
