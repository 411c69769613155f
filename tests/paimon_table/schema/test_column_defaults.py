"""Defaults of columns take the place of NULL in rows of every kind, or are refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.errors import MalformedRecord, UnsupportedFeature
from paimon_table.schema.column_defaults import column_defaults
from paimon_table.schema.table_schema import TableSchema, create_schema, to_json
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, WidenColumn
from tests.support.default_texts import CASTS
from tests.support.plain_values import column_plain
from tests.support.table_driver import TableDriver


def schema_with(sql: str, default: str, options: dict[str, str] | None = None) -> TableSchema:
    columns = [("k", parse_type("INT")), ("v", parse_type(sql)), ("w", parse_type("INT"))]
    schema = create_schema(columns, ["k"], (), {"bucket": "1", **(options or {})})
    fields = tuple(replace(f, default_value=default) if f.name == "v" else f for f in schema.fields)
    return replace(schema, fields=fields)


def driver_of(tmp_path: Path, schema: TableSchema) -> TableDriver:
    (tmp_path / "t" / "schema").mkdir(parents=True)
    (tmp_path / "t" / "schema" / "schema-0").write_text(to_json(schema))
    return TableDriver(Table.open(str(tmp_path / "t")), tmp_path / "lookup")


@pytest.mark.parametrize(("sql", "text", "value"), CASTS)
def test_the_text_of_a_default_is_cast_as_java_does(sql: str, text: str, value: object) -> None:
    scalar = column_defaults(schema_with(sql, text))["v"]
    assert column_plain(
        pa.array([scalar.as_py() if sql != "TIMESTAMP(9)" else scalar.value], scalar.type), parse_type(sql)
    ) == [value]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("BOOLEAN", "maybe"), ("TINYINT", "128"), ("INT", ""), ("INT", "1e3"), ("DOUBLE", "0x1p3"), ("DOUBLE", " 1"),
        ("DECIMAL(5, 2)", "x"), ("DATE", "2024-02-30"), ("DATE", "1500-01-01"), ("TIME(3)", "24:00:00"),
        ("TIMESTAMP(3)", "2024-01-02 03:04"), ("TIMESTAMP(4)", "60"), ("TIMESTAMP(9)", "2300-01-01"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-02"), ("ARRAY<INT>", "[1, 2]"), ("MAP<INT, INT>", "{1 -> 2}"),
    ],
)  # fmt: skip
def test_a_default_that_is_not_applied_as_java_does_is_refused(tmp_path: Path, sql: str, text: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"column 'v' of type .* has the default .*remove the default"):
        driver_of(tmp_path, schema_with(sql, text))
    assert Table.open_for_reading(str(tmp_path / "t")).schema.field("v").default_value == text


def test_a_decimal_default_with_too_many_digits_is_null() -> None:
    assert column_defaults(schema_with("DECIMAL(3, 2)", "12.5")) == {}


def test_rows_of_every_kind_get_the_default(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, schema_with("INT", "7", {"changelog-producer": "input"}))
    driver.commit([["+I", 1, None, None], ["+I", 2, 5, None], ["+I", 3, None, 3]])
    driver.commit([["-U", 2, None, None], ["+U", 2, None, 2], ["-D", 3, None, None]])

    assert driver.content() == [[1, 7, None], [2, 7, 2]]
    assert driver.changes()[1].rows == [["-U", 2, 7, None], ["+U", 2, 7, 2], ["-D", 3, 7, None]]


def test_partial_update_overwrites_with_the_default(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, schema_with("INT", "7", {"merge-engine": "partial-update"}))
    driver.commit([["+I", 1, 5, 1]])
    driver.commit([["+I", 1, None, None]])

    assert driver.content() == [[1, 7, 1]]


def test_not_null_columns_take_no_null_in_spite_of_a_default(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, schema_with("INT NOT NULL", "7"))

    with pytest.raises(MalformedRecord, match=r"cannot write null to non-null column\(v\)"):
        driver.commit([["+I", 1, None, None]])


def test_the_kind_of_a_row_may_be_a_default(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, schema_with("STRING", "-D", {"rowkind.field": "v"}))
    driver.commit([["+I", 1, "+I", 1], ["+I", 2, "+I", 2]])
    driver.commit([["+I", 1, None, 1]])

    assert driver.content() == [[2, "+I", 2]]


def test_a_default_stays_when_the_schema_changes(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, schema_with("INT", "7"))
    driver.evolve([AddColumn("x", parse_type("STRING")), WidenColumn("v", parse_type("DECIMAL(12, 2)"))])
    driver.commit([["+I", 1, None, None, None]])

    assert driver.table.schema.field("v").default_value == "7"
    assert driver.content() == [[1, "7.00", None, None]]


def test_a_default_that_decides_where_a_row_lies_is_refused() -> None:
    schema = schema_with("INT", "7", {"primary-key.nullable": "true"})
    with pytest.raises(UnsupportedFeature, match="the partition or bucket of a row"):
        column_defaults(replace(schema, primary_keys=("k", "v")))
