"""Tables whose key lacks the partition column: one row per key, whatever moves, fails or is lost on the way."""

from __future__ import annotations

import errno
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paimon_table.bucket_assignment.bucket_assigner import open_assigner
from paimon_table.errors import CommitConflict, ConfigError, LanesDoNotFit, MachineFailure
from paimon_table.key_index.stored_keys import key_magnitudes
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.changelog import replay_strictly
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver, new_table, prepared

COLUMNS = [("pt", "STRING"), ("k", "INT"), ("v", "INT")]
PARTITIONS = ("a", "b", "c")
Row = list[Any]


def cross_table(**options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_table("memory/t", COLUMNS, ["k"], ["pt"], {"bucket": "-1", **named}, io=MemoryFileIO())


def played(model: dict[int, Row], rows: list[Row]) -> None:
    """What deduplicate makes of rows, wherever they are."""
    for kind, pt, k, v in rows:
        if kind == "-D":
            model.pop(k, None)
        else:
            model[k] = [pt, k, v]


def drawn(draw: random.Random, count: int, keys: int = 24) -> list[Row]:
    kinds = ["+I", "+I", "+U", "-D"]
    rows = [[draw.choice(kinds), draw.choice(PARTITIONS), draw.randrange(keys), draw.randrange(1000)]]
    while len(rows) < count:
        rows.append([draw.choice(kinds), draw.choice(PARTITIONS), draw.randrange(keys), draw.randrange(1000)])
    return rows


def test_an_index_of_keys_without_room_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    table, rows = cross_table(), [["+I", "a", key, key] for key in range(3)]
    TableDriver(table, tmp_path / "one", "one").commit(rows)
    monkeypatch.setattr("paimon_table.lookup.cache.LookupFileWriter.append", write)
    with pytest.raises(MachineFailure, match=r"the index of keys cannot be written.*for all their keys.*local\.dir"):
        TableDriver(table, tmp_path / "another", "another").commit(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("producer", "lanes"), [("none", 3), ("lookup", 1), ("lookup", 2), ("input", 3)])
def test_a_key_has_its_newest_row_and_no_other(tmp_path: Path, producer: str, lanes: int) -> None:
    """Two writers in turn, on machines of their own; now and then the files of one are lost."""
    draw = random.Random(f"{producer} {lanes}")
    counts = {"dynamic_bucket__initial_buckets": str(lanes), "dynamic_bucket__target_row_num": "4"}
    table = cross_table(changelog_producer=producer, **counts)
    drivers = [TableDriver(table, tmp_path / name, name) for name in ("one", "two")]
    model: dict[int, Row] = {}
    for number in range(10):
        driver = draw.choice(drivers)
        rows = drawn(draw, draw.randrange(1, 30))
        driver.commit(rows, full_compact=draw.random() < 0.2)
        played(model, rows)
        assert driver.content() == sorted_rows(model.values()), f"commit {number}"
        if draw.random() < 0.2:
            shutil.rmtree(tmp_path / "one", ignore_errors=True)
    if producer == "lookup":
        assert replayed(driver) == sorted_rows(model.values())


def replayed(driver: TableDriver) -> list[Row]:
    """The table that the changelog leads to, change by change and by the key alone."""
    columns = driver.table.schema.column_names
    content = replay_strictly((rows for _, rows in driver.table.changes()), ["k"])
    return sorted_rows([row[name] for name in columns] for row in content.values())


def test_a_move_deletes_the_row_that_was_there(tmp_path: Path) -> None:
    driver = TableDriver(cross_table(changelog_producer="input"), tmp_path)
    driver.commit([["+I", "a", 1, 10]])

    driver.commit([["+I", "b", 1, 20], ["+U", "c", 1, 30]])

    (changes,) = driver.changes(2)
    by_partition = sorted(changes.rows, key=lambda row: (row[1], row[0] != "+I"))
    assert by_partition == [["-D", "a", 1, 10], ["+I", "b", 1, 20], ["-D", "b", 1, 20], ["+U", "c", 1, 30]]


def test_a_row_that_moves_twice_in_a_batch_leaves_nothing_between(tmp_path: Path) -> None:
    driver = TableDriver(cross_table(), tmp_path)

    driver.commit([["+I", "a", 1, 10], ["+I", "b", 1, 20], ["+I", "c", 1, 30], ["-D", "b", 2, 0]])

    assert driver.content() == [["c", 1, 30]]
    assert len(driver.state().files) == 1


def test_buckets_fill_up_to_the_target_and_a_row_that_leaves_makes_room(tmp_path: Path) -> None:
    table = cross_table(dynamic_bucket__initial_buckets="1", dynamic_bucket__target_row_num="3")
    driver = TableDriver(table, tmp_path)
    driver.commit([["+I", "a", k, 0] for k in range(5)])
    driver.commit([["+I", "b", 0, 0]])

    driver.commit([["+I", "a", 9, 0]])

    of_partition = driver.table.context.partition_values
    files = {b.bucket: files for b, files in driver.state().files.items() if of_partition(b.partition) == ("a",)}
    assert sorted(files) == [0, 1]
    assert [f.row_count for f in files[0]][-1] == 1


def test_partial_update_stays_where_the_key_was_first(tmp_path: Path) -> None:
    driver = TableDriver(cross_table(merge_engine="partial-update"), tmp_path)
    driver.commit([["+I", "a", 1, 10]])

    driver.commit([["+I", "b", 1, 20], ["+I", "b", 2, 5], ["+I", "c", 2, 6]])

    assert driver.content() == [["a", 1, 20], ["b", 2, 6]]


def test_a_deleted_key_of_partial_update_is_free_to_come_elsewhere(tmp_path: Path) -> None:
    options = {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"}
    driver = TableDriver(cross_table(**options), tmp_path)
    driver.commit([["+I", "a", 1, 10]])
    driver.commit([["-D", "b", 1, 10]])
    assert driver.content() == []

    driver.commit([["+I", "b", 1, 20]])

    assert driver.content() == [["b", 1, 20]]


NOW_S = 1_700_000_000


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [True, False], ids=["the index is kept", "the index is lost"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_a_key_whose_row_has_expired_is_free_to_come_elsewhere(tmp_path: Path, engine: str, is_kept: bool) -> None:
    """Until a compaction has taken the row along, it keeps its key where it is."""
    expiry = {"record_level__expire_time": "100 s", "record_level__time_field": "v"}
    producer = "lookup" if engine == "first-row" else "none"
    driver = TableDriver(cross_table(merge_engine=engine, changelog_producer=producer, **expiry), tmp_path / "kept")
    driver._environment = replace(driver._environment, clock_ms=lambda: NOW_S * 1000)
    driver.commit([["+I", "a", 1, NOW_S - 200], ["+I", "a", 2, NOW_S]])
    driver.commit([["+I", "b", 2, NOW_S]])
    driver.compact()
    assert driver.content() == [["a", 2, NOW_S]]
    if not is_kept:
        shutil.rmtree(tmp_path / "kept")

    driver.commit([["+I", "b", 1, NOW_S], ["+I", "b", 2, NOW_S]], full_compact=True)
    driver.commit([["+I", "c", 1, NOW_S]], full_compact=True)

    assert driver.content() == [["a", 2, NOW_S], ["b", 1, NOW_S]]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.parametrize("first", [[["+I", "a", 1, 10]], []], ids=["a stored row", "no stored row"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (4,), (2, 2), (3, 1)])
def test_where_rows_after_a_delete_go_does_not_depend_on_batches(
    tmp_path: Path, engine: str, first: list[Row], sizes: tuple[int, ...]
) -> None:
    driver = TableDriver(
        cross_table(merge_engine=engine, **{f"{engine.replace('-', '_')}__remove_record_on_delete": "true"}), tmp_path
    )
    if first:
        driver.commit(first)
    rows = [["-D", "b", 1, 10], ["+I", "b", 1, 20], ["+I", "c", 1, 30], ["+I", "d", 2, 40]]
    for size in sizes:
        driver.commit(rows[:size])
        rows = rows[size:]

    assert driver.content() == [["b", 1, 30], ["d", 2, 40]]

    driver.commit([["-D", "a", 1, 0], ["-D", "b", 1, 0], ["+I", "c", 1, 50]])
    assert driver.content() == [["c", 1, 50], ["d", 2, 40]]


def test_first_row_drops_what_comes_later_elsewhere(tmp_path: Path) -> None:
    driver = TableDriver(cross_table(merge_engine="first-row", changelog_producer="lookup"), tmp_path)
    driver.commit([["+I", "a", 1, 10], ["+I", "b", 1, 11]])

    driver.commit([["+I", "b", 1, 20], ["+I", "a", 1, 30]])

    assert driver.content() == [["a", 1, 10]]


def with_lanes(table: Table, lanes: int) -> Table:
    """The same table, its keys shared among another number of lanes."""
    options = replace(table.options, dynamic_bucket_initial_buckets=lanes)
    return replace(table, context=replace(table.context, options=options))


@pytest.mark.parametrize(("other", "fitting"), [(3, 1), (2, 2), (6, 2)])
def test_a_layout_of_other_lanes_is_noticed_and_shared_as_it_demands(tmp_path: Path, other: int, fitting: int) -> None:
    table = cross_table(dynamic_bucket__initial_buckets="4", dynamic_bucket__target_row_num="10")
    TableDriver(table, tmp_path / "one", "one").commit([["+I", "a", k, 0] for k in range(40)])
    changed = with_lanes(table, other)
    live = table.state().live_files()
    driver = TableDriver(changed, tmp_path / "two", "two")
    assigner = open_assigner(changed.context, live, WriterEnvironment(str(tmp_path / "two")))

    for lane, part in changed.lanes(live).split(driver.arrow([["+I", "b", 1, 1]])):
        if fitting == other:
            list(assigner.assign(lane, part))
        else:
            with pytest.raises(LanesDoNotFit) as refused:
                list(assigner.assign(lane, part))
            assert refused.value.lanes == fitting

    driver.commit([["+I", "b", k, 1] for k in range(40)])
    assert driver.content() == sorted_rows(["b", k, 1] for k in range(40))


def test_each_bucket_may_demand_fewer_lanes_than_the_one_that_is_read_before_it(tmp_path: Path) -> None:
    table = cross_table(dynamic_bucket__initial_buckets="8", dynamic_bucket__target_row_num="1000")
    of_one = TableDriver(with_lanes(table, 1), tmp_path / "one", "one")
    magnitudes = key_magnitudes(table.schema, of_one.arrow([["+I", "a", k, 0] for k in range(400)]))
    for partition, lane in (("a", 1), ("b", 2), ("c", 4)):
        of_one.commit([["+I", partition, k, 0] for k in np.flatnonzero(magnitudes % 8 == lane).tolist()])

    TableDriver(table, tmp_path / "eight", "eight").commit([["+I", "d", k, 1] for k in range(400)])

    assert of_one.content() == sorted_rows(["d", k, 1] for k in range(400))


@pytest.mark.parametrize("partition", ["a", "b"])
@pytest.mark.parametrize("is_new", [True, False], ids=["an empty table", "a table with rows"])
def test_a_second_job_is_refused(tmp_path: Path, partition: str, is_new: bool) -> None:
    table = cross_table()
    one, two = (TableDriver(table, tmp_path / name, name) for name in ("one", "two"))
    if not is_new:
        one.commit([["+I", "c", 9, 0]])
    messages = prepared(one, [["+I", "a", 1, 10]])
    two.commit([["+I", partition, 1, 20]])

    with pytest.raises(CommitConflict, match=r"of user two was committed .* another job writes this table"):
        table.new_commit("one").commit(99, messages, {})

    one.commit([["+I", "a", 1, 30]])
    assert [row for row in one.content() if row[1] == 1] == [["a", 1, 30]]


def test_compactions_of_others_do_not_disturb(tmp_path: Path) -> None:
    table = cross_table()
    one, two = (TableDriver(table, tmp_path / name, name) for name in ("one", "two"))
    one.commit([["+I", "c", 9, 0]])
    messages = prepared(one, [["+I", "a", 1, 10]])
    two.compact()
    newest = table.state().snapshot
    assert newest is not None and newest.commit_kind == CommitKind.COMPACT

    table.new_commit("one").commit(99, messages, {})

    assert one.content() == [["a", 1, 10], ["c", 9, 0]]


def test_rows_placed_by_a_state_that_is_gone_are_refused(tmp_path: Path) -> None:
    table = cross_table()
    driver = TableDriver(table, tmp_path)
    driver.commit([["+I", "c", 9, 0]])
    messages = prepared(driver, [["+I", "a", 1, 10]])
    driver.overwrite([["+I", "c", 8, 0]])

    with pytest.raises(CommitConflict, match="OVERWRITE"):
        table.new_commit("late").commit(1, messages, {})

    driver.compact()
    for file in (1, 2):
        table.io.delete(table.paths.snapshot_file(file))
    with pytest.raises(CommitConflict, match=r"snapshot 1, from which .* no longer exists"):
        table.new_commit("late").commit(1, messages, {})


def test_a_key_in_two_partitions_is_refused_with_its_places(tmp_path: Path) -> None:
    table = cross_table()
    one, two = (TableDriver(table, tmp_path / name, name) for name in ("one", "two"))
    one.commit([["+I", "c", 9, 0]])
    messages = prepared(one, [["+I", "a", 1, 10]], notes=False)
    two.commit([["+I", "b", 1, 20]])
    table.new_commit("one").commit(99, messages, {})

    for name in ("one", "two", "three"):
        with pytest.raises(ConfigError, match=r"k = 1.*pt="):
            TableDriver(table, tmp_path / name, name).commit([["+I", "b", 1, 30]])


@pytest.mark.slow
def test_damaged_files_of_the_index_are_not_believed(tmp_path: Path) -> None:
    draw = random.Random(8)
    table = cross_table(dynamic_bucket__initial_buckets="1")
    one = TableDriver(table, tmp_path, "one")
    one.commit([["+I", "a", k, 0] for k in range(3)])
    for number in range(24):
        one.commit([["+U", draw.choice(PARTITIONS), draw.randrange(3), number], ["+I", "b", 7, number]])
        saved = sorted(path for path in tmp_path.rglob("*.index*") if path.is_file())
        assert len(saved) == 2
        for path in saved:
            content = bytearray(path.read_bytes())
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            path.write_bytes(content[: draw.choice((len(content), len(content), draw.randrange(len(content))))])

        one.commit([["+U", draw.choice(PARTITIONS), k, number] for k in range(3)])
        assert [row[1] for row in sorted(one.content(), key=lambda row: row[1])] == [0, 1, 2, 7]


def test_what_was_not_committed_is_forgotten(tmp_path: Path) -> None:
    table = cross_table()
    driver = TableDriver(table, tmp_path)
    driver.commit([["+I", "a", 1, 10]])
    rows_lost = driver.arrow([["+I", "b", 1, 11], ["+I", "b", 2, 11]])
    lost = table.assign(rows_lost, table.state().live_files(), driver._environment)
    messages = []
    for bucket, rows in lost.buckets.items():
        writer = driver._new_writer(table.context, bucket, table.state())
        writer.write(rows)
        messages.append(writer.prepare_append())
    lost.appended(messages)

    driver.commit([["+I", "a", 1, 20], ["+I", "c", 2, 20]])
    driver.commit([["+I", "a", 2, 30]])

    assert driver.content() == [["a", 1, 20], ["a", 2, 30]]
