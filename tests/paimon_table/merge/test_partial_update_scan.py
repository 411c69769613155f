"""Reading and looking up partial-update tables: columns and predicates of merged rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from tests.support.bucket_harness import BucketHarness, context
from tests.support.table_driver import TableDriver, new_table

_COLUMNS = [("k", "INT"), ("a", "INT"), ("g", "INT"), ("b", "INT"), ("h", "INT"), ("u", "INT")]
_OPTIONS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "a",
    "fields.h.sequence-group": "b",
    "fields.b.aggregate-function": "sum",
    "partial-update.remove-record-on-sequence-group": "g",
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits that nothing has compacted."""
    table = new_table("/table", _COLUMNS, ["k"], options=_OPTIONS, io=MemoryFileIO())
    driver = TableDriver(table, tmp_path, write_only=True)
    driver.commit([["+I", 1, 1, 5, 1, 5, None], ["+I", 2, 1, 1, 1, 1, 1], ["+I", 3, 7, 1, None, None, 4]])
    driver.commit([["+I", 1, 2, 4, 2, 6, 3], ["-D", 2, 1, 2, 1, 1, 1]])
    driver.commit([["+U", 1, None, None, 4, 1, None]])
    return driver.table


@pytest.mark.parametrize("columns", [["a"], ["b"], ["u"], ["k", "u"], ["u", "b", "a"]])
def test_reading_some_columns_equals_choosing_from_all(table: Table, columns: list[str]) -> None:
    everything = table.to_arrow().sort_by("k")
    assert everything.column_names == ["k", "a", "g", "b", "h", "u"]
    assert [tuple(row.values()) for row in everything.to_pylist()] == [(1, 1, 5, 7, 6, 3), (3, 7, 1, None, None, 4)]
    read = table.to_arrow([*columns, *({"k"} - set(columns))]).sort_by("k")
    assert read.select(columns).equals(everything.select(columns))
    assert table.to_arrow(columns).num_rows == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        (pc.field("u").is_null(), []),
        ((pc.field("a") == 1) & (pc.field("u") == 3), [1]),
        (pc.field("b") == 4, []),
        (pc.field("b") == 7, [1]),
        (pc.field("h") > 5, [1]),
        (pc.field("k") > 1, [3]),
    ],
)
def test_predicates_on_values_hold_for_merged_rows(table: Table, predicate: pc.Expression, keys: list[int]) -> None:
    assert table.to_arrow(["k"], predicate).column("k").to_pylist() == keys


def test_rows_are_looked_up_merged_over_all_levels(tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    bucket = BucketHarness(context([("k", "INT"), ("a", "INT"), ("b", "STRING")], ["k"], options), tmp_path)
    bucket.commit([("+I", 1, 1, None), ("+I", 2, 1, "x"), ("+I", 3, 3, "y")], full=True)
    bucket.commit([("+I", 1, None, "late"), ("-D", 2, 1, "x")])
    bucket.commit([("+U", 3, 4, None)])
    found = bucket.new_writer().lookup(pa.table({"k": pa.array([3, 1, 2, 9], pa.int32())}))
    assert found.select(["k", "a", "b"]).to_pydict() == {"k": [1, 3], "a": [1, 4], "b": ["late", "y"]}
