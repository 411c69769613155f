"""Column defaults of tables of Java give the same rows and changes, whoever writes."""

from pathlib import Path

import pytest

from paimon_table.table import Table
from tests.interop.java_paimon import JavaPaimon
from tests.support.default_texts import CASTS
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver

UNKNOWN = {"'", "2024-01-02T3:04"}
"""Java 1.4.2 takes the first for quotes around nothing, and does not know the other form yet."""


def test_texts_of_every_type_are_cast_as_java_does(tmp_path: Path, java: JavaPaimon) -> None:
    columns = [("k", "INT"), *((f"c{i}", sql) for i, (sql, _, _) in enumerate(CASTS)), ("none", "DECIMAL(3, 2)")]
    texts = [*((f"c{i}", text) for i, (_, text, _) in enumerate(CASTS)), ("none", "12.5")]
    path = str(tmp_path / "t")
    java.create_table(path, columns, ["k"], options={"bucket": "1"})
    java.alter(path, *(("default", name, text) for name, text in texts if text not in UNKNOWN))
    nulls = [None] * (len(columns) - 1)
    java.write(path, [["+I", 1, *nulls]])

    TableDriver(Table.open(path), tmp_path / "lookup").commit([["+I", 2, *nulls]])

    first, second = sorted_rows(java.read(path))
    assert first[2:] == second[2:]
    assert first[2:] == [*(None if text in UNKNOWN else value for _, text, value in CASTS), None]


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate", "changelog-producer": "input"},
        {"merge-engine": "partial-update", "changelog-producer": "lookup", "fields.s.sequence-group": "v"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"},
    ],
    ids=lambda options: options["merge-engine"],
)
def test_rows_and_changes_with_defaults_are_those_of_java(
    options: dict[str, str], tmp_path: Path, java: JavaPaimon
) -> None:
    # given the same table twice
    columns = [("k", "INT"), ("v", "INT"), ("s", "INT"), ("t", "STRING")]
    paths = [str(tmp_path / name) for name in ("tidemark", "java")]
    for path in paths:
        java.create_table(path, columns, ["k"], options={"bucket": "1", **options})
        java.alter(path, ("default", "v", "7"), ("default", "t", "'x'"), ("default", "s", "3"))

    # when one writes to the first and the other to the second
    commits = [
        [["+I", 1, None, 1, "a"], ["+I", 2, 5, None, None], ["+I", 3, 1, 1, None]],
        [["-U", 2, 5, None, None], ["+U", 2, None, 2, None], ["-D", 3, None, None, None]],
        [["+I", 1, 2, None, None], ["+I", 3, None, 9, None]],
    ]
    driver = TableDriver(Table.open(paths[0]), tmp_path / "lookup")
    for identifier, rows in enumerate(commits, start=1):
        driver.commit(rows)
        java.write(paths[1], rows, identifier=identifier)

        # then both read equal
        assert sorted_rows(java.read(paths[0])) == sorted_rows(java.read(paths[1]))
    changes = [[sorted_rows(change.rows) for change in java.changes(path)] for path in paths]
    assert changes[0] == changes[1]
