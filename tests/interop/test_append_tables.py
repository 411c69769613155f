"""Tables without primary key have equal rows for all readers, and Java and Tidemark go on with those of each other."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from paimon_table.maintenance.job import Job
from paimon_table.maintenance.sorting import sort
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.histories import Readers, create_by_java, create_by_tidemark, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import PARTITION_TEXTS, Scenario, Step
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver

_COLUMNS = tuple((n, parse_type(t)) for n, t in {"id": "INT", "v": "STRING", "at": "TIMESTAMP(3)", "p": "INT"}.items())


def _steps(commits: int) -> tuple[Step, ...]:
    def rows(commit: int) -> tuple[list[object], ...]:
        numbers = range(commit * 7, commit * 7 + 7)
        moment = "2024-05-01 10:00:00.123"
        return tuple(["+I", n, None if n % 5 == 0 else f"{n % 3}-text", moment, n % 2] for n in numbers)

    return tuple(Step(rows(commit)) for commit in range(commits))


def _scenario(name: str, options: dict[str, str], partition_by: tuple[str, ...] = ()) -> Scenario:
    alter = Step(alter=(("add", "more", parse_type("BIGINT")),))
    later = tuple(Step(tuple([*row, 5] for row in step.rows)) for step in _steps(4))
    return Scenario(name, _COLUMNS, (), (*_steps(6), alter, *later), partition_by, options)


UNAWARE = _scenario("unaware", {"bucket": "-1"})
TABLES = [
    UNAWARE,
    _scenario("unaware-partitioned", {"bucket": "-1", "file-index.bloom-filter.columns": "v"}, ("p",)),
    _scenario("unaware-orc", {"bucket": "-1", "file.format": "orc"}),
    _scenario("unaware-avro", {"bucket": "-1", "file.format": "avro"}),
    _scenario("bucketed", {"bucket": "2", "bucket-key": "id"}),
    _scenario("bucketed-partitioned", {"bucket": "3", "bucket-key": "id,v"}, ("p",)),
]


@pytest.fixture
def readers(java: JavaPaimon, python_readers: PythonReaders) -> Readers:
    return Readers(java, python_readers)


@pytest.mark.parametrize("scenario", TABLES, ids=lambda s: s.name)
def test_what_tidemark_writes_reads_equal_and_java_goes_on(
    scenario: Scenario, tmp_path: Path, readers: Readers
) -> None:
    path = tmp_path / scenario.name
    create_by_tidemark(scenario, path)
    for position, step in enumerate(scenario.steps[:6], start=1):
        write_by_tidemark(path, [step], first_identifier=position)
    readers.assert_equal(path, scenario)
    write_by_java(readers.java, path, scenario.steps[6:])
    rows = readers.assert_equal(path, scenario)
    assert len(rows) == 70
    write_by_tidemark(path, [Step(compact=True)], first_identifier=100)
    assert readers.assert_equal(path, scenario) == rows


@pytest.mark.parametrize("scenario", TABLES, ids=lambda s: s.name)
def test_what_java_writes_reads_equal_and_tidemark_goes_on(
    scenario: Scenario, tmp_path: Path, readers: Readers
) -> None:
    path = tmp_path / scenario.name
    create_by_java(readers.java, scenario, path)
    write_by_java(readers.java, path, scenario.steps[:6])
    readers.assert_equal(path, scenario)
    write_by_tidemark(path, scenario.steps[6:])
    rows = readers.assert_equal(path, scenario)
    assert len(rows) == 70
    if scenario.options["bucket"] == "-1":
        readers.java.pack(str(path))
    else:
        readers.java.write(str(path), [], identifier=200, compact=True)
    assert readers.assert_equal(path, scenario) == rows


@pytest.mark.parametrize("options", [{"bucket": "-1"}, {"bucket": "2", "bucket-key": "id"}], ids=str)
def test_partitions_of_null_and_of_every_text_read_equal(
    options: dict[str, str], tmp_path: Path, readers: Readers
) -> None:
    """A primary key has no NULL, so that partitions of NULL are those of tables without one."""
    columns = tuple((n, parse_type(t)) for n, t in {"id": "INT", "p": "STRING", "d": "DATE"}.items())
    rows = [["+I", n, p, d] for n, p in enumerate((*PARTITION_TEXTS, None)) for d in ("1969-12-31", None)]
    scenario = Scenario("texts", columns, (), (Step(tuple(rows)),), ("p", "d"), options)
    path = tmp_path / "texts"
    create_by_tidemark(scenario, path)
    write_by_tidemark(path, scenario.steps)
    write_by_java(readers.java, path, scenario.steps)
    assert readers.assert_equal(path, scenario) == sorted_rows(row[1:] for row in rows * 2)


@pytest.mark.parametrize(
    "options", [{"bucket": "-1"}, {"bucket": "1", "bucket-key": "id"}], ids=["unaware", "bucketed"]
)
def test_joined_files_read_equal_and_java_goes_on(options: dict[str, str], tmp_path: Path, readers: Readers) -> None:
    noise = random.Random(7)
    texts = [noise.randbytes(3000).hex() for _ in range(4 * 400)]
    steps = tuple(
        Step(tuple(["+I", n, None if n % 9 == 0 else texts[n], "2024-05-01 10:00:00.123", n % 2] for n in commit))
        for commit in (range(start, start + 400) for start in range(0, 4 * 400, 400))
    )
    scenario = Scenario("joined", _COLUMNS, (), steps, (), {**options, "compaction.min.file-num": "3"})
    path = tmp_path / "joined"
    create_by_tidemark(scenario, path)
    write_by_tidemark(path, steps)
    ((bucket, (file,)),) = (table := Table.open(str(path))).state().files.items()
    assert pq.read_metadata(table.context.data_file(bucket, file)).num_row_groups == 4
    rows = readers.assert_equal(path, scenario)
    assert len(rows) == 4 * 400
    write_by_java(readers.java, path, [Step((["+I", 9999, "last", None, 0],))])
    if options["bucket"] == "-1":
        readers.java.pack(str(path))
    else:
        readers.java.write(str(path), [], identifier=200, compact=True)
    assert len(readers.assert_equal(path, scenario)) == 4 * 400 + 1


def test_the_order_inside_a_bucket_is_that_of_java(tmp_path: Path, java: JavaPaimon) -> None:
    columns = (("id", parse_type("INT")), ("n", parse_type("INT")))
    options = {"bucket": "1", "bucket-key": "id"}
    scenario = Scenario("order", columns, (), (), (), options)
    path = tmp_path / "order"
    create_by_java(java, scenario, path)
    for commit in range(12):
        rows = tuple(["+I", number % 3, commit * 10 + number] for number in range(9, 0, -1))
        if commit % 2:
            write_by_tidemark(path, [Step(rows)], first_identifier=commit)
        else:
            write_by_java(java, path, [Step(rows)], first_identifier=commit + 1)
    expected = [commit * 10 + number for commit in range(12) for number in range(9, 0, -1)]
    assert [row[2] for row in java.read(str(path))] == expected
    assert [n for rows in Table.open(str(path)).read() for n in rows.column("n").to_pylist()] == expected


@pytest.mark.parametrize("scenario", [UNAWARE, TABLES[4]], ids=lambda s: s.name)
def test_a_streaming_reader_of_java_gets_every_row_once(scenario: Scenario, tmp_path: Path, java: JavaPaimon) -> None:
    path = tmp_path / scenario.name
    create_by_tidemark(scenario, path)
    write_by_tidemark(path, scenario.steps[:6])
    own = {c.snapshot_id: sorted_rows(c.rows) for c in TableDriver(Table.open(str(path)), tmp_path).changes()}
    theirs = {c.snapshot_id: sorted_rows(c.rows) for c in java.changes(str(path))}
    assert own == theirs
    assert sum(map(len, own.values())) == 42
    assert Table.open(str(path)).snapshots.latest_id() > len(own), "compactions among the commits"  # type: ignore[operator]


def test_several_writers_at_once_are_read_by_all(tmp_path: Path, readers: Readers) -> None:
    path = tmp_path / "unaware"
    create_by_tidemark(UNAWARE, path)
    table = Table.open(str(path))
    rows = TableDriver(table, tmp_path / "lookup").arrow(UNAWARE.steps[0].rows)
    environment = WriterEnvironment(str(tmp_path / "lookup"))
    bucket = BucketId(EMPTY_ROW, 0)
    messages = []
    for part in (rows.slice(0, 3), rows.slice(3)):
        writer = table.bucket_writer(bucket, table.state().live_files().of(bucket), environment)
        writer.write(part)
        messages.append(writer.prepare_append())
    table.new_commit("u").commit(1, messages, {})
    assert len(readers.assert_equal(path, UNAWARE)) == 7


def test_java_goes_on_with_a_sorted_table_and_its_deleted_rows_stay_away(java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "sorted"
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "clustering.columns": "v"}
    java.create_table(str(path), [("v", "INT"), ("p", "INT")], [], ["p"], options)
    for number, start in enumerate((20, 10, 0), start=1):
        java.write(str(path), [["+I", start + n, n % 2] for n in range(10)], identifier=number)
    java.delete(str(path), "v", [3, 14], identifier=4)

    environment = WriterEnvironment(str(tmp_path / "job"), write_buffer_bytes=100)
    done = sort(Table.open(str(path)), Job(environment), [], lambda _: True)

    by_java = java.read(str(path))
    kept = [["+I", v, v % 2] for v in range(30) if v not in (3, 14)]
    assert sorted_rows(by_java) == sorted_rows(kept)
    for p in (0, 1):
        assert [row[1] for row in by_java if row[2] == p] == [row[1] for row in kept if row[2] == p]
    assert java.changes(str(path), done.snapshot_ids[0]) == []
    java.write(str(path), [["+I", 99, 0]], identifier=5)
    java.delete(str(path), "v", [5], identifier=6)
    assert len(java.read(str(path))) == len(TableDriver(Table.open(str(path)), tmp_path / "l").content()) == len(kept)
