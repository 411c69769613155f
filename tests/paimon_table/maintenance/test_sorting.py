"""Sorting tables without primary key and buckets: whole partitions in the order of columns, with bounded memory."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import ConfigError
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.sorting import sort
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.file_io import FileIO
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.write import sorted_runs
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("p", "INT"), ("a", "STRING"), ("b", "INT"), ("l", "ARRAY<INT>")]
APPEND = {"bucket": "-1"}


def filled(tmp_path: Path, io: FileIO | None = None, **options: str) -> TableDriver:
    given_options = {**APPEND, **{name.replace("_", "."): text for name, text in options.items()}}
    table = new_table(tmp_path / "t", COLUMNS, [], ["p"], given_options, io or MemoryFileIO())
    driver = TableDriver(table, tmp_path / "lookup")
    numbers = random.Random(7)
    for _ in range(4):
        rows = [["+I", n % 2, numbers.choice("abcä") if n % 5 else None, numbers.randrange(99), [n]] for n in range(60)]
        driver.commit(rows)
    return driver


def job(tmp_path: Path, buffer_bytes: int = 2_000) -> Job:
    return Job(WriterEnvironment(str(tmp_path / "job"), write_buffer_bytes=buffer_bytes))


def keys(driver: TableDriver, partition: int) -> list[tuple[str, int]]:
    """The columns a, b in the order in which the files have them; NULL as a text before all others."""
    rows = driver.table.to_arrow(predicate=pc.field("p") == partition).to_pylist()
    return [(row["a"] or "", row["b"]) for row in rows]


@pytest.mark.parametrize("buffer_bytes", [1_000, 3_000, 1 << 20])
def test_a_partition_is_sorted_as_a_whole(tmp_path: Path, buffer_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "BATCH_ROWS", 7)
    driver = filled(tmp_path)
    before = driver.content()
    done = sort(driver.table, job(tmp_path, buffer_bytes), ["a", "b"], lambda _: True)

    assert driver.content() == before
    assert all(keys(driver, p) == sorted(keys(driver, p)) and keys(driver, p) for p in (0, 1))
    assert (done.buckets, done.files_before, done.files_after, done.snapshot_ids) == (2, 8, 2, (5,))
    assert driver.table.snapshots.read(5).commit_kind is CommitKind.COMPACT
    assert list((tmp_path / "job" / "sorting").glob("*") if buffer_bytes < 1 << 20 else []) == []


def test_chosen_partitions_are_sorted_by_the_columns_of_the_option(tmp_path: Path) -> None:
    driver = filled(tmp_path, clustering_columns="b,a")
    left = keys(driver, 1)
    path_of = driver.table.context.partition_path
    zero = {b.partition for b in driver.state().files if path_of(b.partition) == "p=0"}
    sort(driver.table, job(tmp_path), [], zero.__contains__)
    assert [b for _, b in keys(driver, 0)] == sorted(b for _, b in keys(driver, 0))
    assert sorted(keys(driver, 1)) == sorted(left) and len(driver.state().files) == 2


def test_rows_that_arrive_meanwhile_stay(tmp_path: Path) -> None:
    driver = filled(tmp_path)
    others = TableDriver(driver.table, tmp_path / "others", "others")

    class Arriving:
        def begin(self, step: str, count: int, unit: str = "rows") -> None:
            others.commit([["+I", 0, "new", 1, None]])

        def advance(self, count: int) -> None: ...

    watched = Job(job(tmp_path).environment, Arriving())
    before = len(driver.content())
    sort(driver.table, watched, ["b"], lambda _: True)
    assert len(driver.content()) == before + 1
    assert [0, "new", 1, None] in driver.content()


@pytest.mark.parametrize(
    ("options", "key", "columns", "words"),
    [
        (APPEND, [], [], "no columns to sort .*by; name them, or set the option 'clustering.columns'"),
        (APPEND, [], ["bb"], "has no column 'bb'; did you mean 'b'"),
        (APPEND, [], ["l"], "cannot be sorted by 'l', which is nested"),
        ({"bucket": "1"}, ["p", "b"], ["a"], "cannot be sorted: its rows are in the order of the primary key"),
        ({"bucket": "1", "bucket-key": "b"}, [], ["a"], "cannot be sorted: its buckets keep their order"),
    ],
    ids=str,
)
def test_what_cannot_be_sorted_is_refused(
    tmp_path: Path, options: dict[str, str], key: list[str], columns: list[str], words: str
) -> None:
    table = new_table(tmp_path / "t", COLUMNS, key, ["p"], options, MemoryFileIO())
    with pytest.raises(ConfigError, match=words):
        sort(table, job(tmp_path), columns, lambda _: True)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 5)), max_size=9), max_size=9),
    st.integers(1, 400),
)
def test_sorted_rows_are_all_rows_in_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int | None, int]]], most_bytes: int
) -> None:
    schema = pa.schema([("x", pa.int32()), ("y", pa.int32())])
    tables = [pa.table({"x": [x for x, _ in rows], "y": [y for _, y in rows]}, schema) for rows in batches]
    directory = str(tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "BATCH_ROWS", 2)
        parts = sorted_runs.sorted_rows(tables, ("x", "y"), most_bytes, directory)
        found = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    rows = [row for batch in batches for row in batch]
    expected = sorted(rows, key=lambda row: (row[0] is not None, row[0] or 0, row[1]))
    assert found == expected
