"""`tidemark table ...` against a table that the engine wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paimon_table import AddColumn, SetOption, Table, TableName, TextColumn, WidenColumn, create_schema
from paimon_table.errors import ConfigError
from paimon_table.types import parse_type
from pipelines.config.config_file import load_pipeline
from pipelines.inspect.table_commands import table_app
from pipelines.storage import catalog_of
from tests.support.command import TIDEMARK, tidemark
from tests.support.s3_server import s3_server
from tests.support.small_table import SmallTable
from tests.support.waiting import seconds

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
JSON = ("--format", "json")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three commits: inserts; an update and a delete; an insert with NULLs."""
    root = tmp_path_factory.mktemp("warehouse")
    small = SmallTable(root / "lake.db" / "orders", root / "work")
    two = ("+I", 2, 'b, "c"', None, NOON)
    small.commit(0, [("+I", 1, "a", Decimal("1.50"), NOON), two, ("+I", 3, "", None, None)])
    small.commit(1, [("+U", 1, "a2", Decimal("2.00"), NOON), ("-D", 3, "", None, None)])
    small.commit(2, [("+I", 4, None, None, None)])
    return str(root / "lake.db" / "orders")


def output(*arguments: str) -> str:
    """stdout of a command that succeeds; errors are raised as they are."""
    done = CliRunner().invoke(table_app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def records(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output(*arguments, *JSON).splitlines()]


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def test_scan_prints_the_merged_rows(path: str) -> None:
    assert by_id(records("scan", path)) == [
        {"id": 1, "name": "a2", "total": "2.00", "placed_at": "2024-05-01T12:00:00.000Z"},
        {"id": 2, "name": 'b, "c"', "total": None, "placed_at": "2024-05-01T12:00:00.000Z"},
        {"id": 4, "name": None, "total": None, "placed_at": None},
    ]


def test_scan_takes_columns_conditions_and_limits(path: str) -> None:
    assert records("scan", path, "--columns", "name,id", "--where", "id >= 2 AND name IS NOT NULL") == [
        {"name": 'b, "c"', "id": 2}
    ]
    assert list(records("scan", path, "--columns", "name,id", "--limit", "1")[0]) == ["name", "id"]
    assert len(records("scan", path, "--limit", "2")) == 2
    assert records("scan", path, "--limit", "0") == []


def test_scan_travels_by_snapshot_and_by_time(path: str) -> None:
    first = records("snapshots", path)[0]
    for travel in (("--snapshot", "1"), ("--timestamp", first["time"]), ("--timestamp", "1714521600000")):
        rows = by_id(records("scan", path, *travel))
        assert [row["id"] for row in rows] == [1, 2, 3] or rows == []


def test_a_time_without_a_zone_is_utc(path: str) -> None:
    first = records("snapshots", path)[0]["time"]
    assert first.endswith("Z")
    assert records("scan", path, "--timestamp", first.removesuffix("Z")) == records("scan", path, "--timestamp", first)
    with pytest.raises(ConfigError, match=r"at or before 2020-01-01T00:00:00\.000Z"):
        output("scan", path, "--timestamp", "2020-01-01")


def test_csv_has_a_header_also_without_rows(path: str) -> None:
    assert output("scan", path, "--format", "csv", "--where", "id = 2") == (
        'id,name,total,placed_at\n2,"b, ""c""",,2024-05-01T12:00:00.000Z\n'
    )
    assert output("scan", path, "--format", "csv", "--where", "id = 99") == "id,name,total,placed_at\n"


def test_changes_say_what_happened_to_every_row(path: str) -> None:
    changes = records("changes", path, "--columns", "id,name")
    assert [c for c in changes if c["id"] == 1] == [
        {"_row_kind": "+I", "id": 1, "name": "a"},
        {"_row_kind": "-U", "id": 1, "name": "a"},
        {"_row_kind": "+U", "id": 1, "name": "a2"},
    ]
    assert [c["_row_kind"] for c in changes if c["id"] == 3] == ["+I", "-D"]
    assert list(changes[0]) == ["_row_kind", "id", "name"]


def test_changes_can_be_cut_by_snapshots(path: str) -> None:
    ids = [snapshot["id"] for snapshot in records("snapshots", path) if snapshot["identifier"] == 1]
    part = records("changes", path, "--from", str(ids[0]), "--to", str(ids[-1]), "--snapshot-ids")
    assert sorted(c["_row_kind"] for c in part) == ["+U", "-D", "-U"]
    assert {c["_snapshot_id"] for c in part} <= set(ids)


def test_snapshots_are_listed_oldest_first(path: str) -> None:
    snapshots = records("snapshots", path)
    assert [s["id"] for s in snapshots] == list(range(1, len(snapshots) + 1))
    assert [s["identifier"] for s in snapshots] == sorted(s["identifier"] for s in snapshots)
    assert {s["user"] for s in snapshots} == {"tester"}
    assert snapshots[0]["kind"] == "APPEND"
    assert sum(s["changelog_rows"] for s in snapshots) == 7


def test_schemas_are_listed_with_what_they_have_changed(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "lake.db" / "orders", tmp_path / "work")
    table = Table.open(str(tmp_path / "lake.db" / "orders"))
    note, wide = AddColumn("note", parse_type("INT")), WidenColumn("note", parse_type("BIGINT"))
    table.evolve([note], 5).evolve([wide, SetOption("write-only", "true")], 6).evolve([TextColumn("note")], 7)
    assert small is not None

    found = records("schemas", str(tmp_path / "lake.db" / "orders"))

    assert [(row["id"], row["columns"], row["changes"]) for row in found] == [
        (0, 4, "the first"),
        (1, 5, "+ note INT"),
        (2, 5, "note INT -> BIGINT; option write-only = true"),
        (3, 5, "note BIGINT -> STRING"),
    ]


def test_files_are_listed_with_level_and_key_range(path: str) -> None:
    files = records("files", path)
    assert sum(f["rows"] for f in files) >= 3
    assert {f["bucket"] for f in files} <= {0, 1}
    assert all(int(f["min_key"]) <= int(f["max_key"]) for f in files)
    assert all(f["bytes"] > 0 and f["file"].endswith(".parquet") for f in files)
    assert records("files", path, "--snapshot", "1") != files


def test_show_has_schema_options_and_state(path: str) -> None:
    (facts,) = records("show", path)
    assert [(c["name"], c["type"]) for c in facts["columns"]][:2] == [("id", "BIGINT NOT NULL"), ("name", "STRING")]
    assert facts["primary_key"] == ["id"]
    assert facts["options"]["changelog-producer"] == "lookup"
    assert facts["snapshot"]["properties"] == {"tidemark.batch": "2"}
    text = output("show", path)
    assert "placed_at" in text
    assert "bucket = 2, changelog-producer = lookup" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("scan", "{path}", "--columns", "nmae"), "--columns: there is no column 'nmae'; did you mean 'name'?"),
        (("scan", "{path}", "--where", "id ="), "--where, character 5: expected a constant"),
        (("scan", "{path}", "--snapshot", "99"), "has no snapshot 99"),
        (("scan", "{path}", "--timestamp", "2020-01-01T00:00:00Z"), "no snapshot at or before"),
        (("scan", "{path}", "--timestamp", "yesterday"), "--timestamp: expected an ISO time"),
        (("scan", "{path}", "--timestamp", "1", "--snapshot", "1"), "exclude each other"),
        (("changes", "{path}", "--from", "99"), "--from 99 is after the last snapshot to read"),
        (("changes", "{path}", "--from", "2", "--to", "1"), "--from 2 is after the last snapshot to read, which is 1"),
        (("changes", "{path}", "--to", "99"), "99"),
        (("files", "{path}", "--snapshot", "99"), "has no snapshot 99; it has 1 to"),
        (("show", "{path}", "--format", "csv"), "use table or json"),
        (("show", "{path}/nothing"), "there is no table at"),
        (("show", "{path}", "--option", "s3.endpoint"), "expected NAME=VALUE"),
        (("show", "hdfs://a/b"), "'hdfs' is not supported"),
    ],
)
def test_a_wrong_request_is_a_config_error(path: str, arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        output(*(argument.replace("{path}", path) for argument in arguments))
    assert told in str(refusal.value)


def test_a_wrong_request_ends_with_code_2_and_one_line(path: str) -> None:
    done = tidemark("table", "scan", path, "--where", "id")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "--where, character 3: expected a comparison after column id: = != <> < <= > >=, IS NULL, IS NOT NULL, "
        "IN (...), NOT IN (...)\n"
    )


@pytest.mark.slow
def test_output_into_a_closed_pipe_ends_quietly(path: str) -> None:
    command = [*TIDEMARK, "table", "changes", path, *JSON]
    code = f"import subprocess, sys; p = subprocess.Popen({command!r}, stdout=subprocess.PIPE)\n"
    code += "p.stdout.close(); sys.exit(p.wait())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds(60), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_table_has_no_rows_and_no_files(tmp_path: Path) -> None:
    empty = str(tmp_path / "empty")
    SmallTable(tmp_path / "empty", tmp_path / "work")
    for command in ("scan", "changes", "snapshots", "files"):
        assert records(command, empty) == []
    assert records("show", empty)[0]["snapshot"] is None
    assert output("changes", empty, "--format", "csv") == "_row_kind,id,name,total,placed_at\n"


def test_the_form_for_people_is_cut_with_a_note(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "many", tmp_path / "work")
    small.commit(0, [("+I", n, "x", None, None) for n in range(150)])
    done = tidemark("table", "scan", str(tmp_path / "many"))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 101
    assert done.stderr == "the first 100 rows; --limit shows more, --format json or csv shows all\n"
    assert len(tidemark("table", "scan", str(tmp_path / "many"), "--format", "json").stdout.splitlines()) == 150


def pipeline_file(directory: Path, warehouse: str, options: str = "") -> str:
    file = directory / "shop.yaml"
    catalog = f"{{ warehouse: '{warehouse}', options: {{ {options} }} }}"
    source = f"{{ files: {{ path: '{directory}' }}, format: debezium-json }}"
    file.write_text(
        f"version: 1\nname: shop\nsource: {source}\ncheckpoint: '{directory}/state'\ncatalog: {catalog}\n"
        "otherwise: create\n"
    )
    return str(file)


def test_a_table_is_named_as_its_pipeline_names_it(path: str, tmp_path: Path) -> None:
    file = pipeline_file(tmp_path, str(Path(path).parents[1]))
    assert records("scan", "lake.orders", "-c", file) == records("scan", path)
    assert output("compact", "lake.orders", "--config", file, "--dry-run")
    assert output("tags", "list", "-c", file, "lake.orders")
    with pytest.raises(ConfigError, match=r"pipeline shop has no table lake\.order; did you mean 'lake\.orders'\?"):
        output("scan", "lake.order", "-c", file)
    with pytest.raises(ConfigError, match=r"name the table as DATABASE\.TABLE"):
        output("scan", path, "-c", file)


@pytest.mark.slow
def test_its_storage_is_reached_with_the_options_of_the_file(tmp_path: Path) -> None:
    with s3_server() as server:
        options = {"s3.endpoint": server.endpoint, "s3.access-key": "key", "s3.secret-key": "secret"}
        told = ", ".join(f"{name}: '{value}'" for name, value in options.items())
        file = pipeline_file(tmp_path, "s3://lake/wh", told)
        config = load_pipeline(file)
        schema = create_schema([("id", parse_type("BIGINT"))], ["id"], (), {"bucket": "1"}, time_ms=0)
        catalog_of(config).create(TableName("lake", "orders"), schema)

        assert "id" in output("show", "lake.orders", "-c", file)
