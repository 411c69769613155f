"""Rows of an aggregation that a lookup has added up, on a level above what they were added to, for every reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from paimon_table.table import Table
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.support.table_driver import TableDriver

LOOKUP = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "changelog-producer": "lookup",
    "num-sorted-run.compaction-trigger": "3",
}


def sums(path: Path, java: JavaPaimon, python: PythonReaders) -> dict[str, list[list[object]]]:
    found = {"java": [row[1:] for row in java.read(str(path))]}
    found["tidemark"] = TableDriver(Table.open(str(path)), path.parent).content()
    for name, read in (("pypaimon", python.pypaimon), ("rust", python.rust)):
        rows = read(str(path))
        assert rows is not None
        found[name] = [list(row.values()) for row in rows.select(["k", "v"]).to_pylist()]
    return {name: [row for row in rows if row[0] == 1] for name, rows in found.items()}


@pytest.mark.parametrize("by", ["java", "tidemark"])
@pytest.mark.parametrize(
    ("options", "of_python"),
    [({}, 10), ({"deletion-vectors.enabled": "true"}, 7)],
    ids=["merged by readers", "deletion vectors"],
)
def test_readers_in_python_add_them_up_once_more(
    options: Mapping[str, str], of_python: int, by: str, tmp_path: Path, java: JavaPaimon, python_readers: PythonReaders
) -> None:
    path = tmp_path / "t"
    java.create_table(str(path), [("k", "INT"), ("v", "INT")], ["k"], (), {**LOOKUP, **options})
    # so many that the second commit stays above the first
    for commit, rows in enumerate(([["+I", key, 3] for key in range(200)], [["+I", 1, 4]]), start=1):
        if by == "java":
            java.write(str(path), rows, identifier=commit)
        else:
            TableDriver(Table.open(str(path)), tmp_path / "lookup", "tidemark", commit).commit(rows)

    levels = {file.level for files in Table.open(str(path)).state().files.values() for file in files}
    assert levels == {2, 3}
    found = sums(path, java, python_readers)
    assert found["java"] == found["tidemark"] == [[1, 7]]
    assert found["pypaimon"] == found["rust"] == [[1, of_python]]

    TableDriver(Table.open(str(path)), tmp_path / "lookup", "tidemark", 9).compact()
    assert set(map(str, sums(path, java, python_readers).values())) == {"[[1, 7]]"}
