"""Plays one case in one mode through the engine and compares what comes out with what the case expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from paimon_table.errors import TidemarkError, UnsupportedFeature
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.types import DataField
from paimon_table.validation.schema_evolution import SetOption
from tests.semantics.case import AlterOptions, Case, CompactFull, Entry, ExpectedError, Mode, Overwrite, Row, Write
from tests.support.plain_values import Plain, canonical_rows, sort_key, sorted_rows
from tests.support.table_driver import TableDriver

_STAGES = ("create", "write", "alter", "read")

_UNSUPPORTED_OPTIONS = frozenset({"row-tracking.enabled"})
"""Options of tables that Tidemark does not write: rows with ids."""

_ONE_ASSIGNER = {"dynamic-bucket.initial-buckets": "1"}
"""What the cases say of buckets holds for a single assigner."""


DECIDED_OTHERWISE: Mapping[str, ExpectedError] = {
    "rs-bucket-check-misses-empty-buckets": ExpectedError(
        "write", ("dt=2022-06-20", "bucket num 3", "bucket num is 2")
    ),
    "cp-fixed-bucket-does-not-move-rows": ExpectedError("create", ("partition column 'pt'", "set bucket = -1")),
}
"""Quirks of Java that Tidemark does not share, by case, and the error that comes instead (docs/PARITY.md)."""


OTHER_TABLES: Mapping[str, tuple[Row, ...]] = {"cp-bulk-load-loses-row-kinds": ((3, 2, 3),)}
"""The same for cases that go well: the table that comes out."""


def claims_support(case: Case) -> bool:
    """Whether the case is about what Tidemark supports: then it may not be skipped.

    That is everything about tables without primary key, about primary-key tables with fixed or postponed buckets whose
    key holds the partition, and about those with dynamic buckets.
    """
    options = [case.table.options, *(entry.options for entry in case.commits if isinstance(entry, AlterOptions))]
    if any(name in _UNSUPPORTED_OPTIONS for given in options for name in given):
        return False
    if not case.table.primary_key:
        return True
    if not set(case.table.partition_by) <= set(case.table.primary_key):
        return case.table.options.get("bucket") == "-1"
    return all(int(given.get("bucket") or 1) >= 1 or given["bucket"] in ("-1", "-2") for given in options)


def run_case(case: Case, mode: Mode, directory: Path) -> None:
    """AssertionError when the outcome differs; UnsupportedFeature when Tidemark refuses the case by name."""
    if case.id in DECIDED_OTHERWISE:
        case = replace(case, expect_error=DECIDED_OTHERWISE[case.id])
    if case.id in OTHER_TABLES:
        case = replace(case, expect_table=OTHER_TABLES[case.id])
    run = _Run(case, mode, directory)
    if case.expect_error is None:
        run.play()
        return
    try:
        run.play()
    except TidemarkError as error:
        text = str(error).lower()
        missing = [word for word in case.expect_error.contains if word not in text]
        if missing and isinstance(error, UnsupportedFeature):
            raise
        assert not missing, f"the error at {run.stage} lacks the words {missing}: {error}"
        expected = _STAGES.index(case.expect_error.at)
        assert _STAGES.index(run.stage) <= expected, f"error at {run.stage}, later than {case.expect_error.at}: {error}"
    else:
        raise AssertionError(f"no error, expected one at {case.expect_error.at}: {case.expect_error.contains}")


class _Run:
    def __init__(self, case: Case, mode: Mode, directory: Path) -> None:
        self.case = case
        self.mode = mode
        self.directory = directory
        self.stage = "create"
        self.fields: tuple[DataField, ...] = ()

    def play(self) -> None:
        driver = self._create()
        for position, entry in enumerate(self.case.commits, start=1):
            first = (driver.table.snapshots.latest_id() or 0) + 1
            self._write(driver, entry)
            if position in self.case.expect_table_after:
                self._check_content(driver, self.case.expect_table_after[position], f"after entry {position}")
            if position in self.case.expect_buckets:
                buckets = tuple(sorted({bucket.bucket for bucket in driver.state().files}))
                assert buckets == self.case.expect_buckets[position], f"buckets after entry {position}"
            if self.case.expect_changelog is not None:
                self._check_changes(driver, self.case.expect_changelog[position - 1], first, position)
        self.stage = "read"
        if self.case.expect_table is not None:
            self._check_content(driver, self.case.expect_table, "at the end")
        elif self.case.expect_error is not None:
            driver.content()

    def _create(self) -> TableDriver:
        spec = self.case.table
        options = dict(spec.options)
        if spec.primary_key:
            options.setdefault("bucket", "1")
        if options.get("bucket") == "-1" and "dynamic-bucket.assigner-parallelism" not in options:
            options = _ONE_ASSIGNER | options
        schema = create_schema(spec.columns, spec.primary_key, spec.partition_by, options)
        self.fields = schema.fields
        table = Table.create(str(self.directory / "table"), schema, io=MemoryFileIO())
        return TableDriver(
            table,
            self.directory / "lookup",
            keeps_writers=self.mode is Mode.SESSION,
            write_only=self.mode is Mode.WRITE_ONLY,
        )

    def _write(self, driver: TableDriver, entry: Entry) -> None:
        self.stage = "write"
        match entry:
            case Write():
                full = self.mode is Mode.FULL_COMPACT if entry.full_compact is None else entry.full_compact
                driver.commit(entry.rows, full_compact=full)
                if self.mode is Mode.COMPACT_BETWEEN:
                    driver.compact()
            case CompactFull():
                driver.compact()
            case AlterOptions():
                self.stage = "alter"
                driver.evolve([SetOption(name, value) for name, value in entry.options.items()])
            case Overwrite():
                driver.overwrite(entry.rows, entry.partition, full_compact=self.mode is Mode.FULL_COMPACT)
                if self.mode is Mode.COMPACT_BETWEEN:
                    driver.compact()

    def _check_content(self, driver: TableDriver, expected: Sequence[Row], when: str) -> None:
        actual = self._unordered(driver.content(), 0)
        wanted = self._unordered(canonical_rows(expected, self.fields), 0)
        assert actual == wanted, f"table {when}: {actual}, expected {wanted}"

    def _check_changes(
        self, driver: TableDriver, expected: Sequence[Row] | None, first_snapshot: int, position: int
    ) -> None:
        if expected is None:
            return
        changes = driver.changes(first_snapshot) if (driver.table.snapshots.latest_id() or 0) >= first_snapshot else []
        actual = self._unordered((row for change in changes for row in change.rows), 1)
        kinds = [row[0] for row in expected]
        values = canonical_rows([row[1:] for row in expected], self.fields)
        wanted = self._unordered(([kind, *row] for kind, row in zip(kinds, values, strict=True)), 1)
        assert actual == wanted, f"changelog of entry {position}: {actual}, expected {wanted}"

    def _unordered(self, rows: Iterable[Sequence[Plain]], shift: int) -> list[list[Plain]]:
        """Sorted rows, with the elements of arrays whose order is free sorted too; values begin at ``shift``."""
        free = [i + shift for i, field in enumerate(self.fields) if field.name in self.case.unordered]
        out = [list(row) for row in rows]
        for row in out:
            for i in free:
                if isinstance(row[i], list):
                    row[i] = sorted(row[i], key=sort_key)
        return sorted_rows(out)
