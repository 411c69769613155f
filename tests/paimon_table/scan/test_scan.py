"""Scans give the merged rows of a snapshot, and read no more files and columns than they must."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.scan.scan import TableScan
from paimon_table.schema.table_schema import create_schema, to_json
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, SetOption, WidenColumn
from tests.support.table_driver import TableDriver, new_table


def _driver(
    path: Path, partition_by: tuple[str, ...] = (), io: MemoryFileIO | None = None, **options: str
) -> TableDriver:
    columns = [("k", "INT"), ("p", "STRING"), ("v", "STRING"), ("n", "BIGINT")]
    key = [*partition_by, "k"]
    table = new_table(path / "t", columns, key, partition_by, {"bucket": "2", **options}, io)
    return TableDriver(table, path / "lookup")


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_rows_of_all_levels_are_merged(tmp_path: Path) -> None:
    # given files on level 0 above a compacted level, with an update and a delete
    driver = _driver(tmp_path)
    driver.commit([["+I", k, "x", "old", k] for k in range(10)], full_compact=True)
    driver.commit([["+U", 3, "x", "new", 30], ["-D", 4, "x", None, None]])

    rows = _rows(driver.table.to_arrow(columns=["v", "k"]))

    assert rows == sorted([("old", k) for k in range(10) if k not in {3, 4}] + [("new", 3)])


def test_predicate_sees_merged_rows_only(tmp_path: Path) -> None:
    # given a row whose old version matches and whose new version does not
    driver = _driver(tmp_path)
    driver.commit([["+I", 1, "x", "match", 1], ["+I", 2, "x", "match", 1]], full_compact=True)
    driver.commit([["+U", 1, "x", "other", 1]])

    found = driver.table.to_arrow(columns=["k"], predicate=pc.field("v") == "match")

    assert _rows(found) == [(2,)]
    assert found.column_names == ["k"]


def test_empty_table_gives_no_rows_of_the_right_schema(tmp_path: Path) -> None:
    empty = _driver(tmp_path).table.to_arrow(columns=["n", "k"])
    assert empty.num_rows == 0
    assert empty.schema == pa.schema([pa.field("n", pa.int64()), pa.field("k", pa.int32(), False)])


def _plan(driver: TableDriver, predicate: pc.Expression) -> list[str]:
    scan = TableScan.make(driver.table.context, None, predicate)
    return [file.file_name for split in scan.plan(driver.state().snapshot) for file in split.files]


def test_partitions_and_keys_prune_files_before_they_are_merged(tmp_path: Path) -> None:
    driver = _driver(tmp_path, ("p",), bucket="1")
    for start in (0, 100):
        driver.commit([["+I", start + i, p, "v", i] for i in range(10) for p in ("a", "b")])
    assert len(_plan(driver, pc.field("p") == "a")) == 2
    assert len(_plan(driver, (pc.field("p") == "a") & (pc.field("k") > 50))) == 1
    assert _plan(driver, pc.field("p") == "c") == []
    assert _plan(driver, pc.field("k") == 50) == []


def test_values_prune_only_files_that_overlap_no_other(tmp_path: Path) -> None:
    driver = _driver(tmp_path, bucket="1")
    driver.commit([["+I", 1, "x", "a", 1], ["+I", 9, "x", "a", 1]])
    driver.commit([["+I", 5, "x", "b", 2]])
    driver.commit([["+I", 50, "x", "c", 3]])
    # the first two overlap: dropping one of them by its values could bring an old version back
    assert len(_plan(driver, pc.field("n") == 2)) == 2
    assert len(_plan(driver, pc.field("n") == 3)) == 3
    driver.compact()
    assert _plan(driver, pc.field("n") == 4) == []


def test_values_prune_where_files_know_ranges_of_different_columns(tmp_path: Path) -> None:
    driver = _driver(tmp_path, bucket="1")
    driver.evolve([AddColumn("m", parse_type("INT"))])
    driver.commit([["+I", 1, "x", "a", 1, 5]])
    driver.evolve([WidenColumn("m", parse_type("BIGINT"))])
    driver.commit([["+I", 2, "x", "b", 2, 6]])
    assert len(_plan(driver, (pc.field("v") > "a") & (pc.field("m") > 0))) == 1
    assert len(_plan(driver, (pc.field("m") > 0) & (pc.field("n") > 1))) == 1
    assert len(_plan(driver, (pc.field("m") > 9) & (pc.field("n") > 0))) == 1, "the old file's range of m says nothing"


def test_splits_and_scans_travel_to_executors(tmp_path: Path) -> None:
    driver = _driver(tmp_path)
    driver.commit([["+I", k, "x", "v", k] for k in range(20)])
    driver.commit([["-D", 7, "x", "v", 7]])
    scan = TableScan.make(driver.table.context, ["k"], pc.field("n") < 10)

    splits = pickle.loads(pickle.dumps(scan.plan(driver.state().snapshot)))
    copy = pickle.loads(pickle.dumps(scan))

    assert len(splits) == 2
    found = [row for split in splits for piece in copy.read(split) for row in piece.column("k").to_pylist()]
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 6, 8, 9]


def _many(keys: range, text: str) -> pa.Table:
    count = len(keys)
    return pa.table({
        "k": pa.array(keys, pa.int32()),
        "p": pa.repeat("x", count),
        "v": pa.repeat(text, count),
        "n": pa.array(keys, pa.int64()),
        "_VALUE_KIND": pa.repeat(pa.scalar(0, pa.int8()), count),
    })  # fmt: skip


def test_large_buckets_come_in_pieces(tmp_path: Path) -> None:
    driver = _driver(tmp_path, bucket="1")
    driver.commit_arrow(_many(range(200_000), "old"))
    pieces = [piece.num_rows for piece in driver.table.read()]
    assert sum(pieces) == 200_000
    assert max(pieces) < 200_000


@pytest.mark.slow
def test_parts_of_files_are_skipped_without_bringing_old_versions_back(tmp_path: Path) -> None:
    # given files of several row groups that overlap, so that predicates can skip groups of one file only
    driver = _driver(tmp_path, bucket="1")
    driver.commit_arrow(_many(range(300_000), "old"))
    driver.commit_arrow(_many(range(0, 300_000, 3), "new"))
    driver.commit([["-D", 150_000, "x", None, None]])

    def found(predicate: pc.Expression) -> list[tuple[Any, ...]]:
        return _rows(driver.table.to_arrow(["k", "v"], predicate))

    k, v, n = (pc.field(name) for name in ("k", "v", "n"))
    assert found(k.isin([149_999, 150_000, 150_003])) == [(149_999, "old"), (150_003, "new")]
    assert found((k == 9) & (v == "old")) == []
    assert found((n >= 149_999) & (n < 150_002)) == [(149_999, "old"), (150_001, "old")]
    assert len(found(v == "old")) == 200_000


rows_of_key = st.tuples(st.sampled_from(["+I", "+U", "-D"]), st.integers(0, 8), st.sampled_from("ab"))
texts = st.sampled_from(["", "x", "xy"])
histories = st.lists(
    st.tuples(st.lists(st.tuples(rows_of_key, texts, st.integers(0, 3)), max_size=8), st.booleans()),
    min_size=1,
    max_size=4,
)
comparisons = st.one_of(
    st.builds(lambda c: pc.field("k") < c, st.integers(-1, 9)),
    st.builds(lambda c: pc.field("k") == c, st.integers(0, 8)),
    st.builds(lambda c: pc.field("p") == c, st.sampled_from("abc")),
    st.builds(lambda c: pc.field("v") >= c, texts),
    st.builds(lambda c: pc.field("n").isin(c), st.lists(st.integers(0, 3), min_size=1)),
    st.just(pc.field("v").is_null()),
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(history=histories, predicate=predicates)
def test_predicates_give_what_filtering_the_whole_table_gives(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any], predicate: pc.Expression
) -> None:
    driver = _driver(tmp_path_factory.mktemp("t"), ("p",), MemoryFileIO())
    for rows, compacts in history:
        driver.commit([[kind, k, p, v, n] for (kind, k, p), v, n in rows], full_compact=compacts)
    whole = driver.table.to_arrow()
    assert _rows(driver.table.to_arrow(["n", "k", "p"], predicate)) == _rows(
        whole.filter(predicate).select(["n", "k", "p"])
    )


def test_time_travel_by_id_and_time_uses_the_schema_of_the_snapshot(tmp_path: Path) -> None:
    driver = _driver(tmp_path)
    driver.commit([["+I", 1, "x", "v", 1]])
    driver.evolve([AddColumn("extra", parse_type("INT"))])
    driver.commit([["+I", 2, "x", "v", 2, 5]])
    first, second = (driver.table.snapshots.read(snapshot_id) for snapshot_id in (1, 2))

    assert _rows(driver.table.to_arrow(snapshot_id=1)) == [(1, "x", "v", 1)]
    assert _rows(driver.table.to_arrow()) == [(1, "x", "v", 1, None), (2, "x", "v", 2, 5)]
    by_time = driver.table.to_arrow(timestamp_ms=second.time_ms)
    assert by_time.num_rows == (2 if second.time_ms >= first.time_ms else 1)
    with pytest.raises(ConfigError, match="no snapshot at or before"):
        driver.table.to_arrow(timestamp_ms=first.time_ms - 1)
    with pytest.raises(ConfigError, match="no snapshot 9; it has the snapshots 1 to 2"):
        driver.table.to_arrow(snapshot_id=9)


def test_nan_is_found_although_no_range_contains_it(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", [("k", "INT"), ("f", "DOUBLE")], ["k"])
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit([["+I", 1, "NaN"], ["+I", 2, 1.0]])
    assert table.to_arrow(["k"], ~(pc.field("f") <= 5.0)).to_pylist() == [{"k": 1}]


def test_unknown_columns_and_unfit_predicates_are_refused_at_once(tmp_path: Path) -> None:
    table = _driver(tmp_path).table
    with pytest.raises(ConfigError, match="'nope'"):
        table.read(columns=["nope"])
    with pytest.raises(ConfigError, match="columns are: k, p, v, n"):
        table.read(predicate=pc.field("nope") == 1)
    with pytest.raises(ConfigError, match="does not fit"):
        table.read(predicate=pc.field("k") == "text")


@pytest.mark.parametrize(("option", "value"), [("index-file-in-data-file-dir", "true"), ("merge-engine", "new")])
def test_tables_that_would_be_read_wrongly_are_refused(option: str, value: str, tmp_path: Path) -> None:
    schema = create_schema([("k", parse_type("INT"))], ["k"], (), {"bucket": "1", option: value})
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema-0").write_text(to_json(schema))
    with pytest.raises(UnsupportedFeature, match=option):
        Table.open_for_reading(str(tmp_path)).to_arrow()


def test_tables_with_options_of_other_writers_are_read(tmp_path: Path) -> None:
    driver = _driver(tmp_path)
    driver.commit([["+I", 1, "x", "v", 1]])
    path = tmp_path / "t"
    foreign = {"full-compaction.delta-commits": "3", "data-file.thin-mode": "true", "some.new.option": "1"}
    options = {"bucket": "2", "changelog-producer": "full-compaction", **foreign}
    schema = replace(driver.table.schema, id=1, options=options)
    (path / "schema" / "schema-1").write_text(to_json(schema))

    with pytest.raises(ConfigError):
        Table.open(str(path))
    assert _rows(Table.open_for_reading(str(path)).to_arrow()) == [(1, "x", "v", 1)]
    assert _rows(Table.open_for_reading(str(path)).to_arrow(snapshot_id=1)) == [(1, "x", "v", 1)]


def test_ignored_deletes_of_older_files_are_ignored_in_the_merge(tmp_path: Path) -> None:
    driver = _driver(tmp_path)
    driver.commit([["+I", 1, "x", "v", 1]])
    driver.commit([["-D", 1, "x", "v", 1]])
    assert _rows(driver.table.to_arrow()) == []
    driver.evolve([SetOption("ignore-delete", "true")])
    assert _rows(driver.table.to_arrow()) == [(1, "x", "v", 1)]
