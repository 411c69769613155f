"""Tables of every feature have equal rows for Tidemark, Java Paimon, pypaimon and pypaimon-rust, whoever wrote them."""

from pathlib import Path

import pytest

from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.table import Table
from paimon_table.types import parse_type
from tests.interop.histories import Readers, create_by_java, create_by_tidemark, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import (
    BUCKET_FUNCTIONS,
    BUCKET_KEY,
    DELETION_VECTOR_TABLES,
    EVOLUTION,
    KEYS_OF_ALL_TYPES,
    LEVELS,
    TABLES,
    Scenario,
    Step,
)
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver


@pytest.fixture
def readers(java: JavaPaimon, python_readers: PythonReaders) -> Readers:
    return Readers(java, python_readers)


@pytest.mark.parametrize("scenario", TABLES, ids=lambda s: s.name)
def test_table_written_by_tidemark_reads_equal_after_every_commit(
    scenario: Scenario, tmp_path: Path, readers: Readers
) -> None:
    path = tmp_path / scenario.name
    create_by_tidemark(scenario, path)
    for position, step in enumerate(scenario.steps, start=1):
        write_by_tidemark(path, [step], first_identifier=position)
        if not step.alter:
            readers.assert_equal(path, scenario)


@pytest.mark.parametrize("scenario", TABLES, ids=lambda s: s.name)
def test_table_of_java_is_continued_by_tidemark_and_by_java_again(
    scenario: Scenario, tmp_path: Path, readers: Readers
) -> None:
    # given a table whose first commits, a compaction among them, are Java's
    path, oracle = tmp_path / scenario.name, tmp_path / f"{scenario.name}-java-only"
    steps = scenario.steps
    one, two = max(1, len(steps) // 3), len(steps) - len(steps) // 3
    first, second, last = steps[:one], steps[one:two], steps[two:]
    create_by_java(readers.java, scenario, path)
    write_by_java(readers.java, path, first)
    readers.java.write(str(path), [], identifier=100, compact=True)
    readers.assert_equal(path, scenario)

    # when Tidemark continues it and Java takes over again
    write_by_tidemark(path, second)
    readers.assert_equal(path, scenario)
    write_by_java(readers.java, path, last, first_identifier=101)
    readers.java.write(str(path), [], identifier=200, compact=True)

    # then it equals a table that Java wrote alone
    create_by_java(readers.java, scenario, oracle)
    write_by_java(readers.java, oracle, scenario.steps)
    assert readers.assert_equal(path, scenario) == readers.assert_equal(oracle, scenario)


def test_tables_of_java_with_other_writer_options_are_read(tmp_path: Path, readers: Readers) -> None:
    # given files without key columns, with file indexes, compacted for a changelog that Tidemark does not write
    options = {
        "changelog-producer": "full-compaction",
        "data-file.thin-mode": "true",
        "file-index.bloom-filter.columns": "v",
        "metadata.stats-mode": "none",
        "changelog-file.format": "parquet",
    }
    scenario = LEVELS.with_options("other-writer", options)
    path = tmp_path / scenario.name
    create_by_java(readers.java, scenario, path)
    write_by_java(readers.java, path, scenario.steps)

    # then Tidemark reads the table and its changes
    readers.assert_equal(path, scenario)
    table = Table.open_for_reading(str(path))
    own = {change.snapshot_id: sorted_rows(change.rows) for change in TableDriver(table, tmp_path).changes()}
    assert own == {change.snapshot_id: sorted_rows(change.rows) for change in readers.java.changes(str(path))}


@pytest.mark.parametrize("scenario", DELETION_VECTOR_TABLES[:2], ids=lambda s: s.name)
def test_deletion_vectors_of_java_are_read_and_its_marks_kept(
    scenario: Scenario, tmp_path: Path, readers: Readers
) -> None:
    # given a table of Java in which rows of the highest level are marked as deleted
    path = tmp_path / scenario.name
    create_by_java(readers.java, scenario, path)
    write_by_java(readers.java, path, scenario.steps[:3])
    driver = TableDriver(Table.open(str(path)), tmp_path / "lookup")
    marked = _marked(driver)
    assert marked
    readers.assert_equal(path, scenario)

    # when Tidemark writes on, then no mark is lost that still has its file
    write_by_tidemark(path, scenario.steps[3:4])
    files = {file.file_name for files in driver.state().files.values() for file in files}
    assert {mark for mark in marked if mark[0] in files} < _marked(driver)
    readers.assert_equal(path, scenario)


def _marked(driver: TableDriver) -> set[tuple[str, int]]:
    """Data file and position of every deleted row."""
    index = [file for files in driver.state().deletion_files().values() for file in files]
    vectors = read_vectors(driver.table.io, driver.table.paths, index)
    return {(name, position) for name, vector in vectors.items() for position in vector.positions.tolist()}


@pytest.mark.parametrize("full_compact", [False, True])
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_overwritten_tables_read_equal_and_are_continued_by_java(
    producer: str, full_compact: bool, tmp_path: Path, readers: Readers
) -> None:
    # given a table of three partitions
    path = tmp_path / "overwritten"
    columns = tuple((name, parse_type(text)) for name, text in {"p": "INT", "k": "INT", "v": "STRING"}.items())
    steps = tuple(
        Step(tuple(["+I", p, k, f"{p}-{k}"] for p in range(3) for k in range(low, low + 40))) for low in (0, 20)
    )
    scenario = Scenario("overwritten", columns, ("p", "k"), steps, ("p",), {"changelog-producer": producer})
    create_by_tidemark(scenario, path)
    write_by_tidemark(path, steps)
    driver = TableDriver(Table.open(str(path)), tmp_path / "lookup", "overwriter")

    # when one partition is overwritten by name and another one by its rows
    driver.overwrite([["+I", 1, 7, "new"]], {"p": 1}, full_compact)
    first = readers.assert_equal(path, scenario)
    driver.overwrite([["+I", 2, 8, "newer"], ["+I", 2, 9, "newest"]], full_compact=full_compact)

    # then all readers see the new rows in place of the old ones, and Java goes on from there
    untouched = [[0, k, f"0-{k}"] for k in range(60)]
    kept = [[2, k, f"2-{k}"] for k in range(60)]
    assert first == sorted_rows([*untouched, [1, 7, "new"], *kept])
    left = [*untouched, [1, 7, "new"], [2, 8, "newer"], [2, 9, "newest"]]
    assert readers.assert_equal(path, scenario) == sorted_rows(left)
    readers.java.write(str(path), [["-D", 1, 7, "new"], ["+U", 2, 8, "java"]], identifier=100, compact=True)
    left = [*untouched, [2, 8, "java"], [2, 9, "newest"]]
    assert readers.assert_equal(path, scenario) == sorted_rows(left)


@pytest.mark.parametrize("has_rows", [False, True], ids=["first snapshot", "between others"])
def test_a_snapshot_without_files_is_nothing_to_any_reader(has_rows: bool, tmp_path: Path, readers: Readers) -> None:
    """That of a batch whose records of the table were all bad, which tells how far it is read."""
    path = tmp_path / "empty"
    columns = tuple((name, parse_type(text)) for name, text in {"k": "INT", "v": "STRING"}.items())
    steps = (Step(tuple(["+I", k, f"{k}"] for k in range(40))), Step(tuple(["+U", k, "new"] for k in range(20, 60))))
    scenario = Scenario("empty", columns, ("k",), steps, (), {"changelog-producer": "lookup"})
    create_by_tidemark(scenario, path)
    if has_rows:
        write_by_tidemark(path, steps[:1])
    result = Table.open(str(path)).new_commit("stream").commit(7, [], {"note": "empty"}, also_empty=True)
    assert result.append is not None and result.append.delta_record_count == 0
    assert readers.assert_equal(path, scenario) == sorted_rows([[k, f"{k}"] for k in range(40)] if has_rows else [])
    readers.java.write(str(path), [["+U", 3, "java"]], identifier=100, compact=True)
    write_by_tidemark(path, steps[1:], first_identifier=200)
    rows = {k: f"{k}" for k in range(40)} if has_rows else {}
    rows |= {3: "java"} | dict.fromkeys(range(20, 60), "new")
    assert readers.assert_equal(path, scenario) == sorted_rows([[k, v] for k, v in rows.items()])


def test_time_travel_gives_equal_rows_at_every_snapshot(tmp_path: Path, readers: Readers) -> None:
    path = tmp_path / "evolution"
    create_by_tidemark(EVOLUTION, path)
    write_by_tidemark(path, EVOLUTION.steps)
    snapshots = Table.open(str(path)).snapshots
    for snapshot_id in range(1, (snapshots.latest_id() or 0) + 1):
        readers.assert_equal(path, EVOLUTION, snapshot_id)


@pytest.mark.parametrize("scenario", [*BUCKET_FUNCTIONS, BUCKET_KEY, KEYS_OF_ALL_TYPES], ids=lambda s: s.name)
def test_rows_lie_in_the_buckets_that_java_gives_them(scenario: Scenario, tmp_path: Path, java: JavaPaimon) -> None:
    # given one commit per row, so that its file tells the row's bucket
    path = tmp_path / scenario.name
    scenario = scenario.with_options("uncompacted", {"write-only": "true"})
    create_by_tidemark(scenario, path)
    rows = scenario.steps[0].rows[:12]
    expected = java.buckets(str(path), rows)
    before: set[Path] = set()
    for position, row in enumerate(rows, start=1):
        write_by_tidemark(path, [Step((row,))], first_identifier=position)
        files = set(path.glob("bucket-*/data-*"))
        (new,) = files - before
        assert new.parent.name == f"bucket-{expected[position - 1]}", row
        before = files


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_java_reads_files_of_small_blocks(file_format: str, tmp_path: Path, java: JavaPaimon) -> None:
    path = str(tmp_path / "small-blocks")
    options = {"bucket": "1", "file.format": file_format, "file.block-size": "8 kb"}
    java.create_table(path, [("k", "INT"), ("v", "STRING")], ["k"], options=options)
    driver = TableDriver(Table.open(path), tmp_path / "lookup")
    rows = [["+I", k, f"{k}-" * 20] for k in range(3_000)]

    driver.commit(rows, full_compact=True)
    java.write(path, [["+U", k, "new"] for k in range(0, 3_000, 7)], identifier=100, compact=True)

    assert sorted_rows(row[1:] for row in java.read(path)) == driver.content()
