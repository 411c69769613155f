"""Keys that two writers have put into two partitions: one row of each is left, and writing goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.maintenance import repeated_keys
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.repeated_keys import find_repeated, remove_repeated
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.changelog import replay_strictly
from tests.support.table_driver import TableDriver, new_table, prepared

COLUMNS = [("pt", "STRING"), ("k", "INT"), ("v", "INT"), ("at", "BIGINT")]


def cross_table(**options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_table("memory/t", COLUMNS, ["k"], ["pt"], {"bucket": "-1", **named}, io=MemoryFileIO())


def two_writers(table: Table, directory: Path) -> TableDriver:
    """The keys 0 to 5: 0 to 3 lie in a and b, of the writers that did not know of each other."""
    one, two = (TableDriver(table, directory / name, name) for name in ("one", "two"))
    one.commit([["+I", "c", 9, 0, 0]])
    messages = prepared(one, [["+I", "a", k, 10, [5, 1, None, 7][k]] for k in range(4)], notes=False)
    time.sleep(0.005)  # the files of the other one are younger
    two.commit([["+I", "b", k, 20, [3, 2, 0, 6][k] if k < 4 else 0] for k in range(6)])
    table.new_commit("one").commit(99, messages, {})
    return TableDriver(table, directory / "next", "next")


def job(directory: Path) -> Job:
    return Job(WriterEnvironment(str(directory / "job")))


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
@pytest.mark.parametrize("slice_keys", [1 << 23, 3])
def test_one_row_of_each_key_is_left_and_writing_goes_on(
    tmp_path: Path, producer: str, slice_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_keys, "SLICE_KEYS", slice_keys)
    table = cross_table(changelog_producer=producer)
    driver = two_writers(table, tmp_path)
    with pytest.raises(ConfigError, match=r"remove-duplicates memory/t` lists such keys"):
        driver.commit([["+I", "c", 1, 30, 9]])

    found = find_repeated(table, job(tmp_path), "at")
    snapshot_id = remove_repeated(table, job(tmp_path), found)

    assert sorted(found.keys.column("k").to_pylist()) == [0, 1, 2, 3]
    rows = [["a", 0, 10, 5], ["a", 3, 10, 7], ["b", 1, 20, 2], ["b", 2, 20, 0], ["b", 4, 20, 0], ["b", 5, 20, 0]]
    assert sorted(driver.content()) == [*rows, ["c", 9, 0, 0]]
    assert snapshot_id == table.snapshots.latest_id()
    assert not find_repeated(table, job(tmp_path)).gone
    driver.commit([["+I", "c", 1, 30, 9], ["+I", "b", 0, 31, 9]])
    assert sorted(row[:3] for row in driver.content() if row[1] < 2) == [["b", 0, 31], ["c", 1, 30]]
    if producer in ("input", "lookup"):
        driver.compact()  # which tells of the rows that their writer only appended
        assert replay_strictly([part for _, part in table.changes()], ["k", "pt"]).keys() == {
            (row[1], row[0]) for row in driver.content()
        }


def test_without_a_column_the_row_of_the_youngest_file_stays(tmp_path: Path) -> None:
    table = cross_table(changelog_producer="none")
    driver = two_writers(table, tmp_path)

    remove_repeated(table, job(tmp_path), find_repeated(table, job(tmp_path)))

    assert sorted(row[:2] for row in driver.content()) == [*(["b", k] for k in range(6)), ["c", 9]]


@pytest.mark.slow
def test_a_changelog_holds_the_deletes_with_the_rows_as_they_were(tmp_path: Path) -> None:
    table = cross_table(changelog_producer="input")
    two_writers(table, tmp_path)

    snapshot_id = remove_repeated(table, job(tmp_path), find_repeated(table, job(tmp_path), "at"))

    assert snapshot_id is not None
    rows = [row for at, part in table.changes() if at.id >= snapshot_id for row in part.to_pylist()]
    assert sorted((r["_VALUE_KIND"], r["pt"], r["k"], r["v"]) for r in rows) == [
        (3, "a", 1, 10), (3, "a", 2, 10), (3, "b", 0, 20), (3, "b", 3, 20)
    ]  # fmt: skip


@pytest.mark.slow
def test_rows_that_came_meanwhile_are_not_decided_about(tmp_path: Path) -> None:
    table = cross_table()
    late = prepared(TableDriver(table, tmp_path / "x", "x"), [["+I", "c", 20, 0, 0]], notes=False)
    two_writers(table, tmp_path)
    found = find_repeated(table, job(tmp_path), "at")
    table.new_commit("x").commit(1, late, {})
    before = table.snapshots.latest_id()

    with pytest.raises(CommitConflict, match="Nothing was deleted: stop the pipelines"):
        remove_repeated(table, job(tmp_path), found)

    assert table.snapshots.latest_id() == before


@pytest.mark.slow
def test_files_stay_if_nobody_knows_whether_a_snapshot_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = cross_table()
    driver = two_writers(table, tmp_path)
    found = find_repeated(table, job(tmp_path), "at")
    publish = MemoryFileIO.publish

    def interrupted(io: MemoryFileIO, path: str, data: bytes) -> bool:
        publish(io, path, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MemoryFileIO, "publish", interrupted)
        remove_repeated(table, job(tmp_path), found)

    assert len(driver.content()) == 7


@pytest.mark.parametrize(
    ("options", "column", "text"),
    [
        ({"merge_engine": "aggregation"}, None, "removing a row would lose values. Drop the partitions"),
        ({}, "att", "did you mean 'at'?"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    tmp_path: Path, options: dict[str, str], column: str | None, text: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        find_repeated(cross_table(**options), job(tmp_path), column)
    assert text in str(refused.value)


def test_other_tables_have_no_such_keys(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, ["pt", "k"], ["pt"], {"bucket": "2"})
    with pytest.raises(ConfigError, match="there are no duplicates to remove"):
        find_repeated(table, job(tmp_path))
