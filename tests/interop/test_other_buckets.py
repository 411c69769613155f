"""Tables with other numbers of buckets, dropped partitions and postponed buckets: Java and Tidemark go on in turns."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partitions import drop_partitions, partition_facts
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.maintenance.rescale import rescale
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.worker import WorkerError
from tests.support.plain_values import Plain, sorted_rows
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("p", "STRING"), ("g", "INT"), ("a", "INT"), ("b", "BIGINT")]
ENGINES: list[dict[str, str]] = [
    {},
    {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    {"merge-engine": "partial-update", "fields.g.sequence-group": "a"},
    {"merge-engine": "aggregation", "fields.b.aggregate-function": "sum", "fields.a.aggregate-function": "max"},
    {"merge-engine": "first-row"},
    {"sequence.field": "g", "file.format": "avro"},
]

NUMBERS = [(2, 3), (4, 1), (2, -1), (-1, 3)]
"""Before and after; each engine goes through two of them."""

MANY = {"dynamic-bucket.target-row-num": "3"}


def rows(commit: int) -> list[list[Plain]]:
    keys = range(commit * 10, commit * 10 + 40)
    return [["+I", k, "xy"[k % 2], (k * 7 + commit) % 5, None if k % 3 else commit, k * commit] for k in keys]


def driver(path: Path) -> TableDriver:
    return TableDriver(
        Table.open(str(path)), path.parent / "lookup", "tidemark", 100 + len(list(path.glob("snapshot/*")))
    )


def job(path: Path) -> Job:
    return Job(WriterEnvironment(str(path.parent / "job")))


def by_java(java: JavaPaimon, path: Path) -> list[list[Plain]]:
    return sorted_rows(row[1:] for row in java.read(str(path)))


@pytest.mark.parametrize(
    ("options", "numbers"), [(e, n) for i, e in enumerate(ENGINES) for n in NUMBERS[i % 2 :: 2]], ids=str
)
def test_a_rescaled_table_goes_on_as_one_that_never_was(
    java: JavaPaimon, tmp_path: Path, options: Mapping[str, str], numbers: tuple[int, int]
) -> None:
    path, twin = tmp_path / "t", tmp_path / "twin"
    for where in (path, twin):
        given = {**options, "bucket": str(numbers[0]), "dynamic-bucket.target-row-num": "9"}
        java.create_table(str(where), COLUMNS, ["k", "p"], ["p"], given)
        java.write(str(where), rows(0), identifier=1)
        driver(where).commit(rows(1))
    rescale(Table.open(str(path)), numbers[1], job(path))
    for commit in (2, 3):
        assert by_java(java, path) == driver(path).content() == by_java(java, twin)
        for where in (path, twin):
            java.write(str(where), rows(commit), identifier=commit)
            driver(where).commit(rows(commit + 1))
    assert by_java(java, path) == driver(path).content() == by_java(java, twin)
    assert set(Table.open(str(path)).state().total_buckets.values()) == {numbers[1]}


@pytest.mark.parametrize(("old", "new"), [(3, -1), (-1, 3)])
def test_other_readers_find_every_key_once_buckets_are_dynamic_or_fixed(
    java: JavaPaimon, python_readers: PythonReaders, tmp_path: Path, old: int, new: int
) -> None:
    path = tmp_path / "t"
    java.create_table(str(path), COLUMNS, ["k", "p"], ["p"], {"bucket": str(old), **MANY})
    driver(path).commit(rows(0))
    rescale(Table.open(str(path)), new, job(path))
    assert found_by_java(java, path) == rows(0)
    for read in (python_readers.pypaimon, python_readers.rust):
        content = read(str(path), columns=[name for name, _ in COLUMNS])
        assert content is not None
        assert sorted_rows(list(row.values()) for row in content.to_pylist()) == driver(path).content()


def test_java_finds_fixed_keys_under_the_option_of_dynamic_ones_and_not_the_other_way_round(
    java: JavaPaimon, tmp_path: Path
) -> None:
    found: dict[int, list[list[Plain]]] = {}
    for old, new in ((3, -1), (-1, 3)):
        path = tmp_path / f"from{old}"
        java.create_table(str(path), COLUMNS, ["k", "p"], ["p"], {"bucket": str(old), **MANY})
        driver(path).commit(rows(0))
        Table.open(str(path)).evolve([SetOption("bucket", str(new))], 1, rows_fit=True)
        found[new] = found_by_java(java, path)
        with pytest.raises(WorkerError, match=f"new bucket num {new}, but the previous bucket num is {old}"):
            java.write(str(path), rows(1), identifier=2)
    assert found[-1] == rows(0)
    assert len(found[3]) < len(rows(0)) / 2, "so the option has a number only once all files have it"


def found_by_java(java: JavaPaimon, path: Path) -> list[list[Plain]]:
    """The rows of commit 0 that it finds by their keys."""
    sought = [(row, java.read(str(path), equal={"k": row[1], "p": row[2]})) for row in rows(0)]
    return [row for row, found in sought if row in found]


def test_java_refuses_a_partition_that_kept_its_number(java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "t"
    java.create_table(str(path), COLUMNS, ["k", "p"], ["p"], {"bucket": "2"})
    java.write(str(path), rows(0), identifier=1)
    table = Table.open(str(path))
    (x, _) = partition_facts(table.context, table.state())
    rescale(table, 3, job(path), chosen=lambda partition: partition == x)
    java.write(str(path), [row for row in rows(1) if row[2] == "x"], identifier=2)
    with pytest.raises(WorkerError, match="new bucket num 3, but the previous bucket num is 2"):
        java.write(str(path), rows(1), identifier=3)


def test_dropped_partitions_are_gone_for_both(java: JavaPaimon, tmp_path: Path) -> None:
    columns = [("k", "INT"), ("d", "DATE"), ("s", "STRING"), ("n", "DECIMAL(6, 2)"), ("v", "INT")]
    values: list[list[Plain]] = [
        ["+I", 1, "2024-01-01", "a b/c=d:%", "1.50", 1],
        ["+I", 2, "2024-01-01", "", "1.50", 1],
        ["+I", 3, "1969-12-31", "   ", "-0.01", 1],
        ["+I", 4, "2024-01-02", "it's", "100.00", 1],
    ]
    for by in ("java", "tidemark"):
        path = tmp_path / by
        new_table(path, columns, ["k", "d", "s", "n"], ["d", "s", "n"])
        driver(path).commit(values[:2])
        java.write(str(path), values[2:], identifier=2)
        if by == "java":
            java.drop_partitions(str(path), {"d": "2024-01-01", "s": "a b/c=d:%", "n": "1.50"})
        else:
            table = Table.open(str(path))
            facts = partition_facts(table.context, table.state())
            named = [p for p, fact in facts.items() if fact.directory == "d=19723/s=a b%2Fc%3Dd%3A%25/n=1.50"]
            drop_partitions(table, named, job(path))
        assert by_java(java, path) == driver(path).content() == sorted_rows(row[1:] for row in values[1:])
        newest = Table.open(str(path)).snapshots.latest()
        assert newest is not None
        assert (str(newest.commit_kind), newest.total_record_count) == ("OVERWRITE", 3)


@pytest.mark.parametrize("options", [ENGINES[0], *ENGINES[2:]], ids=str)
@pytest.mark.parametrize("by", ["java", "tidemark", "both"])
def test_postponed_rows_get_their_buckets_from_whoever_compacts(
    java: JavaPaimon, tmp_path: Path, options: Mapping[str, str], by: str
) -> None:
    path, twin = tmp_path / "t", tmp_path / "twin"
    java.create_table(str(path), COLUMNS, ["k", "p"], ["p"], {**options, "bucket": "-2"})
    java.create_table(str(twin), COLUMNS, ["k", "p"], ["p"], {**options, "bucket": "1"})
    for commit in range(4):
        for where in (path, twin):
            if commit % 2:
                java.write(str(where), rows(commit), identifier=commit + 1)
            else:
                driver(where).commit(rows(commit))
        assert POSTPONED in {bucket.bucket for bucket in Table.open(str(path)).state().files}
        if by == "java" or (by == "both" and commit % 2):
            java.compact_postponed(str(path), identifier=commit + 1)
        else:
            compact_postponed(Table.open(str(path)), job(path), lambda _: True)
        if options.get("merge-engine") == "first-row":
            driver(path).compact()
            driver(twin).compact()
        assert by_java(java, path) == driver(path).content() == by_java(java, twin)


def test_rows_that_java_wrote_behind_waiting_ones_are_not_overwritten_by_these(
    java: JavaPaimon, tmp_path: Path
) -> None:
    """Java gives the older rows their buckets as if they were the newest."""
    path = tmp_path / "t"
    new_table(path, COLUMNS[:2], ["k"], options={"bucket": "-2"})
    java.write(str(path), [["+I", 1, "old"], ["+I", 2, "old"]], identifier=1)
    table = Table.open(str(path)).evolve([SetOption("bucket", "1")], 0)
    java.write(str(path), [["+I", 1, "new"]], identifier=2)
    copy = Path(shutil.copytree(path, tmp_path / "copy"))

    with pytest.raises(ConfigError, match=r"rows that wait .* set 'bucket' to -2 \(ALTER TABLE\), compact"):
        compact_postponed(table.refreshed(), job(path), lambda _: True)
    assert driver(path).content() == [[1, "new"]]

    again = table.refreshed().evolve([SetOption("bucket", "-2")], 0)
    compact_postponed(again, job(path), lambda _: True)
    java.compact_postponed(str(copy), identifier=3)
    assert driver(path).content() == by_java(java, copy) == [[1, "old"], [2, "old"]]


def test_files_of_several_commits_are_replayed_in_order_by_java(java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "t"
    new_table(path, COLUMNS[:2], ["k"], options={"bucket": "-2"})
    for text in "abcdef":
        driver(path).commit([["+I", key, text] for key in range(30)])
    driver(path).commit([["-D", key, "f"] for key in range(5)])
    assert by_java(java, path) == []
    java.compact_postponed(str(path))
    assert by_java(java, path) == driver(path).content() == sorted_rows([key, "f"] for key in range(5, 30))


LATE = "2024-01-01 00:00:00.000000002"
WITH_NANOS = [
    ("k", "INT"),
    ("t", "TIMESTAMP(9)"),
    ("z", "TIMESTAMP(7) WITH LOCAL TIME ZONE"),
    ("r", "ROW<`a-b` ARRAY<TIMESTAMP(9)>>"),
    ("m", "MAP<STRING, TIMESTAMP(8)>"),
]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_postponed_rows_that_avro_cannot_hold_are_right_for_java(
    java: JavaPaimon, tmp_path: Path, file_format: str
) -> None:
    path = tmp_path / "t"
    written: list[list[Plain]] = [
        ["+I", k, LATE, LATE.replace("002", "200"), [[LATE, None]], [["a", LATE]]] for k in range(5)
    ]
    new_table(path, WITH_NANOS, ["k"], options={"bucket": "-2", "file.format": file_format})
    driver(path).commit(written)
    assert sorted_rows(row for change in java.changes(str(path)) for row in change.rows) == sorted_rows(written)

    java.compact_postponed(str(path))
    java.write(str(path), [["-D", *written[0][1:]]], identifier=2)
    compact_postponed(Table.open(str(path)), job(path), lambda _: True)
    assert java.read(str(path)) == written[1:]
    assert driver(path).content() == [row[1:] for row in written[1:]]


@pytest.mark.parametrize(
    "options",
    [
        {"file.format.per.level": "0:avro"},
        {"file.format.per.level": "5:avro"},
        {"changelog-file.format": "avro", "changelog-producer": "input"},
    ],
    ids=str,
)
def test_a_table_of_java_whose_format_cannot_hold_a_column_is_written_by_nobody(
    java: JavaPaimon, tmp_path: Path, options: Mapping[str, str]
) -> None:
    path = tmp_path / "t"
    java.create_table(str(path), WITH_NANOS[:2], ["k"], options={"bucket": "1", **options})
    if "5:avro" not in options.values():
        with pytest.raises(WorkerError, match="Avro does not support TIMESTAMP type with precision: 9"):
            java.write(str(path), [["+I", 1, LATE]])
    with pytest.raises(ConfigError, match=r"column 't' of type TIMESTAMP\(9\) cannot be stored, because avro"):
        driver(path).commit([["+I", 1, LATE]], full_compact=True)
    assert Table.open(str(path)).snapshots.latest_id() is None
