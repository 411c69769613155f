"""What people meet: wide tables, pipes, wrong paths, options that are not followed."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption
from pipelines.inspect.table_commands import table_app
from pipelines.inspect.where import parse_condition
from pipelines.report.output import RowFormat
from pipelines.report.row_output import write_rows
from pipelines.report.run_totals import Totals
from pipelines.report.summary import RunSummary, TableSample, TableSummary, next_commands
from tests.support.command import TIDEMARK
from tests.support.pipeline_run import write_pipeline
from tests.support.table_driver import TableDriver, new_table

WIDE = pa.table({f"number_{i}": [10_000_000 + i, 5] for i in range(12)} | {"note": ["x" * 300, "y"]})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    columns = [("id", "INT"), ("name", "STRING")]
    table = new_table(tmp_path / "w" / "shop.db" / "orders", columns, ["id"], options={"scan.mode": "latest"})
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit([["+I", 1, "a"], ["+I", 2, "b"]])
    driver.commit([["-D", 1, "a"]])
    new_table(tmp_path / "w" / "shop.db" / "items", columns, ["id"])
    return tmp_path / "w"


def run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(table_app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_a_wide_table_on_a_terminal_says_which_columns_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()

    write_rows([WIDE], RowFormat.TABLE, out)

    lines = out.getvalue().splitlines()
    assert "\x1b" not in out.getvalue()
    assert lines[1].split() == [str(10_000_000 + i) for i in range(len(lines[1].split()))]
    assert re.match(r"\+\d+ columns: number_\d+, .*note$", lines[3])
    assert max(len(line) for line in lines[:3]) <= 80 and "--format vertical" in lines[-1]


def test_a_long_text_pads_no_line_of_a_pipe() -> None:
    out = io.StringIO()

    write_rows([WIDE.select(["note", "number_0"])], RowFormat.TABLE, out)

    assert max(map(len, out.getvalue().splitlines())) < 120
    assert not any(line.endswith(" ") for line in out.getvalue().splitlines())


def test_vertical_rows_show_every_value_whole() -> None:
    out = io.StringIO()

    assert write_rows([WIDE], RowFormat.VERTICAL, out) == 2
    assert out.getvalue().startswith("-- row 1\nnumber_0   10000000\n") and "x" * 300 in out.getvalue()


def test_the_tables_of_a_warehouse_are_listed(warehouse: Path) -> None:
    paths = [f"{warehouse}/shop.db/items", f"{warehouse}/shop.db/orders"]

    assert run("list", str(warehouse))[0].split() == paths == run("list", f"{warehouse}/shop.db")[0].split()
    for path in (warehouse, warehouse / "shop.db"):
        with pytest.raises(ConfigError, match="there are tables below it") as told:
            run("scan", str(path))
        assert all(path in str(told.value) for path in paths)


def test_a_table_shows_how_many_rows_it_has(warehouse: Path) -> None:
    assert re.search(r"^rows +1$", run("show", f"{warehouse}/shop.db/orders")[0], re.M)


def test_what_a_scan_follows_and_what_changes_are_is_said(warehouse: Path) -> None:
    path = f"{warehouse}/shop.db/orders"

    assert run("scan", path)[1] == ""
    table = Table.open(path).evolve([SetOption("scan.snapshot-id", "1"), SetOption("scan.mode", "from-snapshot")], 1)
    assert "select snapshot 1, so this shows its rows; for other rows use --snapshot ID" in run("scan", path)[1]
    table.evolve([SetOption("scan.watermark", "5")], 1)
    with pytest.raises(UnsupportedFeature, match=r"'scan\.watermark' = '5', which chooses .* Name a snapshot"):
        run("scan", path)
    assert "no changelog producer" in run("changes", path)[1]


def test_a_moment_before_the_table_is_told_with_its_earliest_one(warehouse: Path) -> None:
    with pytest.raises(ConfigError, match=r"at or before 2020-01-01T00:00:00\.000Z; its earliest one is of 2\d{3}-"):
        run("scan", f"{warehouse}/shop.db/orders", "--timestamp", "2020-01-01T00:00:00Z")


@pytest.mark.parametrize("arguments", [("README.md",), ("{table}", "-o", "a=b"), ("{table}", "-o", "s3.endpoint=x")])
def test_wrong_requests_are_refused(warehouse: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        run("scan", *(text.format(table=f"{warehouse}/shop.db/orders") for text in arguments))


@pytest.mark.slow
def test_a_full_disk_under_stdout_is_told_as_such(warehouse: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*TIDEMARK, "table", "scan", f"{warehouse}/shop.db/orders"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert done.returncode == 1
    assert "the output cannot be written (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("-h",), ("table", "show", "-h"), ("version",), ("schema",), ("validate", "{file}")]
)
def test_what_other_commands_print_into_a_full_disk_is_told_as_such(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = write_pipeline(tmp_path, tmp_path)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*TIDEMARK, *(text.format(file=file) for text in arguments)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr == "the output cannot be written (No space left on device); check its destination\n"


@pytest.mark.slow
def test_help_for_a_reader_that_has_gone_says_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*TIDEMARK, "-h"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)

    assert done.stderr == ""


def test_types_in_messages_are_paimons() -> None:
    schema = pa.schema([("total", pa.decimal128(10, 2))])

    with pytest.raises(ConfigError, match=r"which is DECIMAL\(10, 2\)"):
        parse_condition("total > 'x'", schema, {"total": "DECIMAL(10, 2)"})
    with pytest.raises(ConfigError, match=r"<> .*IS NOT NULL.*NOT IN"):
        parse_condition("total", schema)


def test_changes_are_not_suggested_without_a_changelog() -> None:
    table = TableSummary("lake.a", "/w/lake.db/a", 1, 1, 1, 0, True)
    rows = pa.table({"id": [1]})
    without = RunSummary("p", Totals(1), (table,), TableSample("lake.a", rows, None, ()), None)

    assert not any("table changes" in command for command in next_commands(without, "tidemark"))


def test_rows_in_postponed_buckets_are_told_and_not_shown(warehouse: Path) -> None:
    path = warehouse / "shop.db" / "late"
    table = new_table(path, [("id", "INT"), ("name", "STRING")], ["id"], options={"bucket": "-2"})
    TableDriver(table, warehouse / "lookup").commit([["+I", 1, "a"], ["+I", 2, "b"]])

    rows, told = run("scan", str(path))

    assert (path / "bucket-postpone").is_dir()
    assert rows.split() == ["id", "name"]
    assert "2 rows wait in postponed buckets" in told
    changes = run("changes", str(path), "--format", "json")[0].splitlines()
    assert sorted(json.loads(line)["id"] for line in changes) == [1, 2]
    shown = run("show", str(path))[0]
    assert "2 rows wait in postponed buckets" in shown
    assert "0 with data" in shown
