"""Columns without schema whose values look encoded: told once, with the remedy, and declared by patterns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.table import Table
from pipelines.tables.observed_columns import Seen
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.record_notes import EncodedColumns
from pipelines.tables.tables import PipelineTables
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.values.likely_meaning import looks_like
from sources.values.value_forms import ValueForms
from tests.support.item_batches import event, records, run
from tests.support.local_batches import pipeline_tables, run_batches, shop_config


def rows(*keys: int, **more: Any) -> list[tuple[Any, Any]]:
    """Rows of two tables."""
    row = {"amount": "AIk=", "born": 19_723, "created": 1_704_067_200_123_456, "n": 5, "name": "john", **more}
    return [event("c", key, {"id": key + 20_000, **row}, table=table) for key in keys for table in ("items", "other")]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "look encoded" in message]


@pytest.mark.parametrize(
    "words", [{}, {"columns": {"drop": ["name"]}}, {"schema_changes": {"primary_key": "new_table"}}]
)
def test_all_tables_of_a_batch_are_told_of_in_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, words: dict[str, Any]
) -> None:
    source = {"kafka": {"bootstrap_servers": "localhost:9", "topics": ["t"]}, "format": "debezium-json"}
    rule: dict[str, object] = {"match": {"table": ".*"}, "into": "lake.{table}", **words}
    tables = PipelineTables(shop_config(tmp_path, [rule], {"bucket": "2"}, source=source), "tidemark-shop-test")
    run(tables, tmp_path, records(*rows(1, 2)), records(*rows(3), first_offset=10))
    (message,) = told(caplog)
    for table in ("items", "other"):
        assert f"lake.{table}.amount (base64: DECIMAL(p, s) or BYTES)" in message
        assert f"lake.{table}.created (epoch microseconds: TIMESTAMP(6))" in message
        assert f"lake.{table}.born (epoch days: DATE)" in message
    assert not any(f".{name} (" in message for name in ("id", "n", "name"))
    again = PipelineTables(tables.config, tables.commit_user)
    run(again, tmp_path / "again", records(*rows(4), first_offset=20))
    assert told(caplog) == [message]


def test_a_new_column_is_told_of_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    run(
        tables,
        tmp_path,
        records(event("c", 1, {"id": 1})),
        records(event("c", 2, {"id": 2, "m": "AQ=="}), first_offset=1),
    )
    (message,) = told(caplog)
    assert "lake.items.m (base64" in message


def test_whether_a_table_has_rows_is_known_without_the_storage(tmp_path: Path) -> None:
    config = shop_config(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}], {})
    io = CountingFileIO(LocalFileIO())
    own = OwnTables(config, FilesystemCatalog(io, config.catalog.warehouse))
    tables = PipelineTables(config, "tidemark-shop-test", own)
    run(tables, tmp_path, records(event("c", 1, {"id": 1})))
    rule = config.rule_for("shop", "public", "items", "shop.public.items")
    assert rule is not None
    seen = Seen({}, None, looks={"m": "epoch days: DATE"})
    io.requests.clear()

    EncodedColumns("shop", precision_tells_unit=True).note(tables.sinks["lake.items"], rule, seen)

    assert io.requests == []


def test_patterns_declare_the_types_of_many_columns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    types = {"/am.*/": "DECIMAL(10, 2)", "/.*(born|day)/": "DATE", "/c.*/": "TIMESTAMP(6)", "never": "INT"}
    rule: dict[str, object] = {"match": {"table": ".*"}, "into": "lake.{table}", "columns": {"types": types}}
    tables = pipeline_tables(tmp_path, [rule])
    run(tables, tmp_path, records(*rows(1)), records(*rows(2, cut=1_704_067_200_123_456), first_offset=10))
    table = Table.open(f"{tables.config.catalog.warehouse}/lake.db/items")
    found = {f.name: str(f.type) for f in table.schema.fields}
    assert found | {"id": ""} == {
        "id": "", "amount": "DECIMAL(10, 2)", "born": "DATE", "created": "TIMESTAMP(6)", "n": "BIGINT",
        "name": "STRING", "never": "INT", "cut": "TIMESTAMP(6)",
    }  # fmt: skip
    assert [str(row["amount"]) for row in table.to_arrow().to_pylist()] == ["1.37", "1.37"]
    assert told(caplog) == []


def misread(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "a unit that seems wrong" in message]


@pytest.mark.parametrize("declared, is_told", [("TIMESTAMP(3)", True), ("TIMESTAMP(6)", False), ("BIGINT", False)])
def test_a_declared_precision_that_reads_numbers_in_another_unit_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, declared: str, is_told: bool
) -> None:
    rule: dict[str, object] = {"match": {"table": ".*"}, "into": "lake.{table}"}
    rule["columns"] = {"types": {"/cr.*/": declared}}
    tables = pipeline_tables(tmp_path, [rule])
    run(tables, tmp_path, records(*rows(1, 2)), records(*rows(3), first_offset=10))
    named = "lake.items.created (declared TIMESTAMP(3), looks like epoch microseconds: TIMESTAMP(6))"
    assert [named in message for message in misread(caplog)] == [True] * is_told


def test_under_connect_milliseconds_fit_every_precision(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
    rule["columns"] = {"types": {"created": "TIMESTAMP(6)", "late": "TIMESTAMP(6)"}}
    source = {"files": {"path": str(tmp_path)}, "format": {"debezium-json": {"time_precision": "connect"}}}
    tables = PipelineTables(shop_config(tmp_path, [rule], {"bucket": "2"}, source=source), "tidemark-shop-test")
    decoder = DebeziumJsonDecoder(forms=ValueForms(time_precision="connect"))
    run_batches(tables, [records(event("c", 1, {"id": 1, "late": 1_704_067_200_123}))], tmp_path, decoder=decoder)
    assert misread(caplog) == []


def test_a_pattern_names_no_column(tmp_path: Path) -> None:
    """Names that differ in case only, and the bound on new columns, are as without it."""
    rule: dict[str, object] = {
        "match": {"table": "items"},
        "into": "lake.items",
        "columns": {"types": {"/(?i)am.*/": "DECIMAL(10, 2)"}},
        "schema_changes": {"add": "quarantine"},
    }
    tables = pipeline_tables(tmp_path, [rule])
    first = event("c", 1, {"id": 1, "amount": "AIk=", "AMOUNT": "AIk="})
    reasons, _ = run(tables, tmp_path, records(first, event("c", 2, {"id": 2, "am": "AIk="})))
    assert ["differs from column" in reason for reason in reasons] == [True]
    reasons, _ = run(tables, tmp_path / "later", records(event("c", 3, {"id": 3, "ammo": "AIk="}), first_offset=2))


@pytest.mark.parametrize(
    "name, values, expected",
    [
        ("a", ["AIk=", None, "ALxh"], "base64"), ("a", ["john", "anna"], None), ("a", ["AIk=", "no"], None),
        ("a", [19_723, 10_957], "epoch days"), ("a", [19_723, 5], None), ("a", [30, 31], None),
        ("birth_date", [-3_653, 19_723], "epoch days"), ("day", [1, 31], None), ("a", [True], None), ("a", [], None),
        ("a", [1_704_067_200_123], "epoch milliseconds"), ("a", [1_704_067_200_123_456_700], "epoch nanoseconds"),
        ("a", [1_704_067_200_123, 0], None), ("a", [1.5], None),
        ("open_time", [3_661_000_000, 0], "microseconds of a day: TIME(6)"),
        ("starts_at", [3_661_000_001], "microseconds of a day: only an embedded schema"),
        ("open_time", [3_661_000_000, -1], None), ("open_time", [30, 90_000], None), ("a", [3_661_000_000], None),
    ],
)  # fmt: skip
def test_what_values_look_like(name: str, values: Iterable[Any], expected: str | None) -> None:
    found = looks_like(name, values)
    assert found is None if expected is None else found is not None and found.startswith(expected)
