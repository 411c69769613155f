"""Cases of the semantics corpus as values; the form is described in ``cases/README.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from paimon_table.types import DataType, parse_type
from tests.support.plain_values import Plain

OWN_CASES = Path(__file__).with_name("cases")

Row = Sequence[Plain]


class Mode(StrEnum):
    """How the entries of a case are written; the outcome must not depend on it."""

    SESSION = "session"
    """One writer for all commits."""
    FRESH = "fresh"
    """A new writer for each commit."""
    COMPACT_BETWEEN = "compactbetween"
    """A full compaction after each commit."""
    WRITE_ONLY = "writeonly"
    """Nothing is compacted before reading."""
    FULL_COMPACT = "fullcompact"
    """A full compaction as part of each commit."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    columns: tuple[tuple[str, DataType], ...]
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Write:
    """Rows ``[kind, values...]``; ``full_compact`` None leaves it to the mode."""

    rows: tuple[Row, ...]
    full_compact: bool | None = None


@dataclass(frozen=True, slots=True)
class Overwrite:
    partition: Mapping[str, Plain]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class AlterOptions:
    options: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class CompactFull:
    """A full compaction with no new rows."""


Entry = Write | Overwrite | AlterOptions | CompactFull


@dataclass(frozen=True, slots=True)
class ExpectedError:
    at: str
    contains: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    id: str
    table: TableSpec
    commits: tuple[Entry, ...]
    expect_table: tuple[Row, ...] | None
    expect_table_after: Mapping[int, tuple[Row, ...]]
    expect_changelog: tuple[tuple[Row, ...] | None, ...] | None
    expect_error: ExpectedError | None
    expect_buckets: Mapping[int, tuple[int, ...]]
    unordered: frozenset[str]
    bulk_load: bool
    run_modes: tuple[Mode, ...]

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which the outcome must hold."""
        if self.run_modes:
            return self.run_modes
        options = self.table.options
        if options.get("changelog-producer") == "full-compaction":
            return (Mode.FULL_COMPACT,)
        is_lookup = options.get("changelog-producer") == "lookup" or options.get("merge-engine") == "first-row"
        if is_lookup or not self.table.primary_key:
            return (Mode.SESSION, Mode.FRESH)
        modes = (Mode.SESSION, Mode.FRESH, Mode.COMPACT_BETWEEN)
        compacts = any(isinstance(entry, CompactFull) for entry in self.commits)
        return modes if compacts else (*modes, Mode.WRITE_ONLY)


def load_cases(directory: Path) -> list[Case]:
    """All cases of the YAML files of a directory, in file and line order."""
    cases = []
    for path in sorted(directory.glob("*.yaml")):
        documents = yaml.load(path.read_bytes(), yaml.CSafeLoader)
        cases += [_case(document) for document in documents or ()]
    return cases


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(rows: Any) -> tuple[Row, ...]:
    return tuple(tuple(row) for row in rows)


def _case(document: Mapping[str, Any]) -> Case:
    known = {"origin", "quirk", "notes", "ingest", "id", "table", "commits", "run_modes", "unordered"}
    expectations = {key for key in document if key.startswith("expect_")}
    unknown = set(document) - known - expectations
    assert not unknown, f"case {document['id']} has unknown keys {sorted(unknown)}"
    changelog = document.get("expect_changelog")
    error = document.get("expect_error")
    content = document.get("expect_table")
    return Case(
        id=document["id"],
        table=_table(document["table"]),
        commits=tuple(_entry(entry) for entry in document.get("commits") or ()),
        expect_table=None if content is None else _rows(content),
        expect_table_after={int(at): _rows(rows) for at, rows in (document.get("expect_table_after") or {}).items()},
        expect_changelog=None
        if changelog is None
        else tuple(None if rows is None else _rows(rows) for rows in changelog),
        expect_error=None
        if error is None
        else ExpectedError(error["at"], tuple(str(word).lower() for word in error["contains"])),
        expect_buckets={int(at): tuple(b) for at, b in (document.get("expect_buckets") or {}).items()},
        unordered=frozenset(document.get("unordered") or ()),
        bulk_load=document.get("ingest") == "batch",
        run_modes=tuple(Mode(mode) for mode in document.get("run_modes") or ()),
    )


def _table(document: Mapping[str, Any]) -> TableSpec:
    return TableSpec(
        columns=tuple((name, parse_type(text)) for name, text in document["columns"]),
        primary_key=tuple(document.get("primary_key") or ()),
        partition_by=tuple(document.get("partition_by") or ()),
        options={key: _option_text(value) for key, value in (document.get("options") or {}).items()},
    )


def _entry(entry: Any) -> Entry:
    if isinstance(entry, list):
        return Write(_rows(entry))
    if "overwrite" in entry:
        return Overwrite(entry["overwrite"], _rows(entry["rows"]))
    if "alter_options" in entry:
        changes = entry["alter_options"].items()
        return AlterOptions({key: None if value is None else _option_text(value) for key, value in changes})
    if "compact" in entry:
        assert entry["compact"] == "full"
        return CompactFull()
    return Write(_rows(entry["rows"]), entry.get("full_compact"))
