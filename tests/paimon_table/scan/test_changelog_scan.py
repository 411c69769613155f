"""The changelog of each snapshot comes from where the producer puts it."""

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.support.table_driver import SnapshotChanges, TableDriver, new_table


def _driver(path: Path, producer: str) -> TableDriver:
    table = new_table(path / "t", [("k", "INT"), ("v", "STRING")], ["k"], options={"changelog-producer": producer})
    return TableDriver(table, path / "lookup")


def _write_history(driver: TableDriver) -> None:
    driver.commit([["+I", 1, "a"], ["+I", 2, "b"], ["+I", 1, "c"]])
    driver.commit([["+U", 1, "d"], ["-D", 2, "payload"], ["-D", 9, "absent"]])
    driver.compact()


def test_without_a_producer_the_changes_are_the_appended_rows(tmp_path: Path) -> None:
    driver = _driver(tmp_path, "none")
    _write_history(driver)
    assert driver.changes() == [
        SnapshotChanges(1, [["+I", 1, "c"], ["+I", 2, "b"]]),
        SnapshotChanges(2, [["+U", 1, "d"], ["-D", 2, "payload"], ["-D", 9, "absent"]]),
    ]


def test_input_changelog_holds_every_row(tmp_path: Path) -> None:
    driver = _driver(tmp_path, "input")
    _write_history(driver)
    assert driver.changes()[0] == SnapshotChanges(1, [["+I", 1, "a"], ["+I", 1, "c"], ["+I", 2, "b"]])


def test_lookup_changelog_holds_values_before_and_after(tmp_path: Path) -> None:
    driver = _driver(tmp_path, "lookup")
    _write_history(driver)
    assert driver.changes() == [
        SnapshotChanges(2, [["+I", 1, "c"], ["+I", 2, "b"]]),
        SnapshotChanges(4, [["-U", 1, "c"], ["+U", 1, "d"], ["-D", 2, "b"]]),
    ]


def test_ranges_are_inclusive_and_checked(tmp_path: Path) -> None:
    driver = _driver(tmp_path, "lookup")
    _write_history(driver)
    assert [change.snapshot_id for change in driver.changes(2, 3)] == [2]
    assert driver.changes(3, 3) == []
    with pytest.raises(ConfigError, match="it has the snapshots 1 to"):
        driver.changes(0, 2)
    with pytest.raises(ConfigError, match="choose a range within"):
        driver.changes(1, 99)


def test_table_without_snapshots_has_no_changes(tmp_path: Path) -> None:
    driver = _driver(tmp_path, "input")
    assert driver.changes() == []
    with pytest.raises(ConfigError, match="no snapshot yet"):
        driver.changes(1, 2)


def test_old_changes_come_in_the_current_schema_with_the_chosen_columns(tmp_path: Path) -> None:
    driver = _driver(tmp_path, "input")
    driver.commit([["+I", 1, "a"]])
    driver.evolve([AddColumn("extra", parse_type("INT"))])
    driver.commit([["+U", 1, "b", 7]])
    changes = [(s.id, rows.to_pylist()) for s, rows in driver.table.changes(columns=["extra", "k"])]
    assert changes == [
        (1, [{"_VALUE_KIND": 0, "extra": None, "k": 1}]),
        (2, [{"_VALUE_KIND": 2, "extra": 7, "k": 1}]),
    ]
