"""The changelog that Tidemark writes is the one that Java would have written, for Java's own streaming reader."""

from collections import defaultdict
from pathlib import Path

import pytest

from paimon_table.table import Table
from tests.interop.histories import (
    Readers,
    Rows,
    create_by_java,
    create_by_tidemark,
    write_by_java,
    write_by_tidemark,
)
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import ROW_KIND, PythonReaders
from tests.interop.scenarios import CHANGELOGS, Scenario
from tests.support.plain_values import Plain, rows_plain, sort_key, sorted_rows
from tests.support.table_driver import TableDriver


def _by_identifier(path: Path, changes: dict[int, Rows]) -> dict[int, Rows]:
    """Changes per commit instead of per snapshot: Tidemark and Java may publish other numbers of snapshots."""
    snapshots = Table.open(str(path)).snapshots
    out: dict[int, Rows] = defaultdict(list)
    for snapshot_id, rows in changes.items():
        out[snapshots.read(snapshot_id).commit_identifier] += rows
    return {identifier: _per_key(rows) for identifier, rows in out.items()}


def _per_key(rows: Rows) -> Rows:
    """Rows sorted, -U directly before the +U of the same columns; the order among keys is free."""
    order = {"-D": 0, "-U": 1, "+U": 2, "+I": 3}
    return sorted(rows, key=lambda row: (sort_key(row[1]), order[str(row[0])], sort_key(row[2:])))


def _java_changes(java: JavaPaimon, path: Path) -> dict[int, Rows]:
    return {change.snapshot_id: change.rows for change in java.changes(str(path))}


@pytest.mark.parametrize("scenario", CHANGELOGS, ids=lambda s: s.name)
def test_changelog_equals_the_one_of_java(
    scenario: Scenario, tmp_path: Path, java: JavaPaimon, python_readers: PythonReaders
) -> None:
    # given the same history written by both
    ours, theirs = tmp_path / "tidemark", tmp_path / "java"
    create_by_tidemark(scenario, ours)
    create_by_java(java, scenario, theirs)
    write_by_tidemark(ours, scenario.steps)
    write_by_java(java, theirs, scenario.steps)

    # then Java's streaming reader sees equal changes in both
    seen_by_java = _java_changes(java, ours)
    expected = _by_identifier(theirs, _java_changes(java, theirs))
    assert _by_identifier(ours, seen_by_java) == expected

    # and Tidemark's and the Rust reader's changelog reads see them too
    table = Table.open(str(ours))
    own = {change.snapshot_id: change.rows for change in TableDriver(table, tmp_path).changes()}
    assert {at: sorted_rows(rows) for at, rows in own.items()} == {
        at: sorted_rows(rows) for at, rows in seen_by_java.items()
    }
    if not scenario.skipped_readers & {"rust", "rust-changes"}:
        assert _rust_changes(python_readers, ours, table) == sorted_rows(r for rows in own.values() for r in rows)
    Readers(java, python_readers).assert_equal(ours, scenario)


def _rust_changes(python_readers: PythonReaders, path: Path, table: Table) -> list[list[Plain]]:
    rows = python_readers.rust_changes(str(path), 0, table.snapshots.latest_id() or 0)
    if rows is None:
        return []
    kinds = rows.column(ROW_KIND).to_pylist()
    values = rows_plain(rows, table.schema.fields)
    return sorted_rows([kind, *row] for kind, row in zip(kinds, values, strict=True))


@pytest.mark.parametrize("scenario", [CHANGELOGS[2], CHANGELOGS[4]], ids=lambda s: s.name)
def test_changelog_goes_on_when_the_writer_changes(scenario: Scenario, tmp_path: Path, java: JavaPaimon) -> None:
    # given a history whose commits are written by Java and Tidemark in turn, compacted by whoever writes
    mixed, alone = tmp_path / "mixed", tmp_path / "java"
    create_by_java(java, scenario, mixed)
    create_by_java(java, scenario, alone)
    for identifier, step in enumerate(scenario.steps, start=1):
        if identifier % 2:
            write_by_java(java, mixed, [step], first_identifier=identifier)
        else:
            write_by_tidemark(mixed, [step], first_identifier=identifier)
    write_by_java(java, alone, scenario.steps)

    # then the changes are those of one writer
    assert _by_identifier(mixed, _java_changes(java, mixed)) == _by_identifier(alone, _java_changes(java, alone))
