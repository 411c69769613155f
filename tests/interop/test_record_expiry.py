"""Rows that expire leave the tables of Tidemark and of Java alike."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from paimon_table.table import Table
from paimon_table.types import parse_type
from tests.interop.histories import Readers, create_by_java, create_by_tidemark, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import Scenario, Step
from tests.support.plain_values import Plain, sorted_rows, timestamp_text
from tests.support.table_driver import TableDriver

_HOUR_S = 3600
_TYPES = ["INT", "BIGINT", "BIGINT (ms)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"]


def _history(type_name: str, options: dict[str, str]) -> Scenario:
    """Rows of which those of two hours ago expire: in level 0, merged, on the highest level, replaced, deleted."""
    time_type = parse_type(type_name.removesuffix(" (ms)"))
    now_s = int(time.time())

    def row(kind: str, key: int, age_h: int | None, value: int) -> list[Plain]:
        seconds = now_s - (age_h or 0) * _HOUR_S
        if type_name.startswith("TIMESTAMP"):
            moment: Plain = timestamp_text(seconds * 10**9, "ns", time_type.precision or 0)
        else:
            moment = seconds * 1000 if type_name.endswith("(ms)") else seconds
        return [kind, key, None if age_h is None else moment, value]

    old, new = 2, 0
    steps = (
        Step(tuple(row("+I", key, (old, new, None)[key % 3], key) for key in range(30))),
        Step(tuple(row("+U", key, new, key + 100) for key in range(0, 30, 6))),
        Step(tuple(row("+U", key, old, key + 200) for key in range(1, 30, 6)), compact=True),
        Step((row("-D", 4, new, 4), row("-D", 5, None, 5), row("+I", 3, new, 303), row("+I", 40, old, 40))),
        Step((row("+I", 41, old, 41), row("+U", 40, new, 400), row("+U", 7, new, 7))),
        Step(compact=True),
    )
    columns = (("k", parse_type("INT")), ("t", time_type), ("v", parse_type("INT")))
    expiring = {"record-level.expire-time": "1 h", "record-level.time-field": "t", **options}
    # pypaimon merges partial updates without ignore-delete only.
    skipped = frozenset({"pypaimon"}) if options.get("merge-engine") == "partial-update" else frozenset()
    return Scenario("expiring", columns, ("k",), steps, (), {"bucket": "1", **expiring}, skipped)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"changelog-producer": "input"},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"deletion-vectors.enabled": "true"},
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.t.aggregate-function": "last_value",
        },
        {"merge-engine": "partial-update", "ignore-delete": "true", "changelog-producer": "lookup"},
        {"merge-engine": "first-row", "ignore-delete": "true"},
    ],
    ids=lambda options: "-".join(options.values()) or "plain",
)
def test_equal_rows_are_left_by_both(
    options: dict[str, str], tmp_path: Path, java: JavaPaimon, python_readers: PythonReaders
) -> None:
    history, readers = _history("BIGINT", options), Readers(java, python_readers)
    ours, theirs = tmp_path / "tidemark", tmp_path / "java"
    create_by_tidemark(history, ours)
    create_by_java(java, history, theirs)
    for number, step in enumerate(history.steps, start=1):
        write_by_tidemark(ours, [step], first_identifier=number)
        write_by_java(java, theirs, [step], first_identifier=number)
        if step.compact:
            assert readers.assert_equal(ours, history) == readers.assert_equal(theirs, history)
    if options.get("changelog-producer", "none") != "none":
        assert _changes(java, ours) == _changes(java, theirs)


def _changes(java: JavaPaimon, path: Path) -> list[list[Plain]]:
    return sorted_rows(row for change in java.changes(str(path)) for row in change.rows)


@pytest.mark.parametrize("type_name", _TYPES)
def test_every_type_means_the_same_to_both(type_name: str, tmp_path: Path, java: JavaPaimon) -> None:
    history = _history(type_name, {})
    for path in (tmp_path / "tidemark", tmp_path / "java"):
        create_by_java(java, history, path)
    write_by_tidemark(tmp_path / "tidemark", history.steps)
    write_by_java(java, tmp_path / "java", history.steps)
    left = java.read(str(tmp_path / "java"))
    assert java.read(str(tmp_path / "tidemark")) == left
    assert 0 < len(left) < 30


def test_files_of_java_are_known_to_hold_expired_rows(tmp_path: Path, java: JavaPaimon) -> None:
    """By their statistics: both times without rows that would have to be merged."""
    history = _history("INT", {"record-level.expire-time": "3 h"})
    path = tmp_path / "table"
    create_by_java(java, history, path)
    write_by_java(java, path, history.steps)
    java.alter(str(path), ("set", "record-level.expire-time", "1 h"))
    before = java.read(str(path))
    driver = TableDriver(Table.open(str(path)), tmp_path / "lookup")
    driver.compact()
    assert 0 < len(driver.content()) < len(before)
    assert driver.content() == sorted_rows(row[1:] for row in java.read(str(path)))
