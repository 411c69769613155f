"""Deletes that stay on the highest level: no reader sees them, and a compaction of Java lets them go."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from paimon_table.table import Table
from tests.interop.histories import Readers, write_by_java
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import Scenario, Step
from tests.support.local_batches import pipeline_tables, reported_batches
from tests.support.placed_changes import RULE, content, drawn_history, folded, postgresql, shuffled
from tests.support.source_content import open_table


def kept_deletes(table: Table) -> int:
    files = table.state().files.values()
    return sum(
        file.delete_row_count or 0 for bucket in files for file in bucket if file.level == table.options.max_level
    )


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "none", "full-compaction.delta-commits": "1"},
        {"changelog-producer": "lookup", "num-levels": "2"},
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1", "file.format": "orc"},
    ],
    ids=lambda options: options["changelog-producer"],
)
def test_no_reader_sees_deletes_that_stay(
    options: dict[str, str], tmp_path: Path, java: JavaPaimon, python_readers: PythonReaders
) -> None:
    r = random.Random(5)
    changes = drawn_history(r, 40, postgresql)
    tables = pipeline_tables(tmp_path, [RULE], **options)
    reported_batches(tables, shuffled(r, changes), tmp_path)
    table, scenario = open_table(tables, "items"), Scenario("ordered", (), ("id",), ())
    path = Path(table.paths.root)

    assert kept_deletes(table) > 0
    rows = Readers(java, python_readers).assert_equal(path, scenario)

    assert {row[0]: row[1] for row in rows} == folded(changes) == content(table)
    arrow = table.to_arrow()
    query = "SELECT id, n FROM arrow WHERE _tidemark_deleted_at IS NOT NULL"
    found = duckdb.connect().execute(query).fetchall()
    assert (found, len(arrow)) == ([], len(rows))

    write_by_java(java, path, [Step(compact=True)])
    assert Readers(java, python_readers).assert_equal(path, scenario) == rows
