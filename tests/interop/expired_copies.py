"""Tables with a history, copies of which are expired, and what is left of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from paimon_table.history.tags import TagStore, create_tag
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.option_parsing import parse_options
from paimon_table.table import Table
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("id", "INT"), ("v", "STRING"), ("p", "INT")]


_TEXTS = ("tag", "changelog", "snapshot")


NOW = {"snapshot.time-retained": "0 ms"}


TABLES = {
    "lookup": {"changelog-producer": "lookup", "bucket": "2"},
    "input": {"changelog-producer": "input", "file-index.bloom-filter.columns": "v"},
    "none": {"num-sorted-run.compaction-trigger": "3"},
    "dynamic": {"bucket": "-1"},
    "vectors": {"deletion-vectors.enabled": "true", "bucket": "2"},
    "append": {"bucket": "-1", "file-index.in-manifest-threshold": "1 b", "file-index.bloom-filter.columns": "id"},
}


def history(path: Path, options: Mapping[str, str], tmp_path: Path) -> None:
    """Updates, deletes and full compactions over two partitions, one of which is emptied."""
    key = [] if "append" in path.name else ["p", "id"]
    driver = TableDriver(new_table(path, COLUMNS, key, ["p"], options), tmp_path / "lookup")
    for commit in range(7):
        rows = [["+I", n, f"{commit}-{n}", n % 2] for n in range(commit, commit + 6)]
        if key:
            rows += [["-D", commit - 2, None, (commit - 2) % 2]] if commit > 2 else []
        driver.commit(rows, full_compact=commit in {3, 5})
    driver.overwrite([], {"p": 1})
    driver.commit([["+I", 100, "last", 0]])


def context(path: Path, options: Mapping[str, str]) -> TableContext:
    """The table as its options would be with these."""
    table = Table.open(str(path))
    merged = {**table.schema.options, **options}
    return replace(table.context, options=parse_options(merged, table.schema))


def content(path: Path) -> Mapping[str, str | int | None]:
    """Every file with its size, what hints say, and every directory.

    Texts of tags, changelogs and snapshots that come back are rewritten by Java, with the keys that it knows.
    """
    files = {str(p.relative_to(path)): p for p in path.rglob("*")}
    return {
        name: p.read_text() if p.name in {"EARLIEST", "LATEST"} else p.stat().st_size if p.is_file() else None
        for name, p in files.items()
        if not name.startswith("tidemark")
    } | {
        str(p.relative_to(path)): ""
        for what in ("tag", "changelog", "snapshot")
        for p in path.rglob(f"{what}/{what}-*")
    }


def tag(path: Path, name: str, snapshot_id: int, retained_ms: int | None = None) -> None:
    table = Table.open(str(path))
    file = table.paths.snapshot_file(snapshot_id)
    create_tag(TagStore(table.io, table.paths), name, file, now=datetime.now, retained_ms=retained_ms)


def assert_equal(ours: Path, theirs: Path) -> None:
    mine, other = content(ours), content(theirs)
    assert {n for n in mine if n not in other} == set(), "Java has removed these"
    assert {n for n in other if n not in mine} == set(), "Tidemark has removed these"
    assert mine == other
