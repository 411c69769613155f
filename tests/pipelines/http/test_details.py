"""What the page says of a table agrees with what the commands say."""

from __future__ import annotations

from pathlib import Path

from paimon_table import RenameColumn
from pipelines.http.page.details import history
from pipelines.report.table_report import schema_rows
from tests.support.table_driver import new_table


def test_a_renamed_column_is_not_shown_as_a_new_one(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", [("k", "INT"), ("a", "INT")], ["k"])
    table = table.evolve([RenameColumn("a", "b")], 1)
    newest, first = history(table)["schemas"]
    assert "; ".join(newest["changes"]) == schema_rows(table).column("changes")[1].as_py()
    assert first["changes"] == ["+ k INT NOT NULL", "+ a INT"]
