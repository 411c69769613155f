"""Files of an older schema, read as rows of the current one."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_table.data_files.key_value_file import iter_key_value_batches, read_key_value_file
from paimon_table.errors import CorruptFile, UnsupportedFeature
from paimon_table.metadata.table_context import TableContext
from paimon_table.schema.mapping import conform_column
from paimon_table.types import DataField, DataType, arrow_type, parse_type
from tests.support.data_files import bucket_dir, context, table, write


def evolved(ctx: TableContext, *fields: DataField) -> TableContext:
    """The table after a schema change: the key column stays, ``fields`` are the other columns."""
    schema = replace(ctx.schema, id=1, fields=(ctx.schema.fields[0], *fields))
    return replace(ctx, schema=schema, schemas={0: ctx.schema, 1: schema})


def field(number: int, name: str, t: str | DataType) -> DataField:
    return DataField(number, name, parse_type(t) if isinstance(t, str) else t)


def row_type(*fields: tuple[int, str, str]) -> DataType:
    return replace(parse_type("ROW<>"), fields=tuple(field(*f) for f in fields))


def test_columns_are_found_by_field_id(tmp_path: Path) -> None:
    old = context(tmp_path, {"id": "INT", "kept": "STRING", "dropped": "STRING", "renamed": "INT"})
    meta = write(old, table(old, [[1, 2], ["a", None], ["b", "b"], [7, 8]]))
    ctx = evolved(old, field(3, "now", "INT"), field(4, "dropped", "STRING"), field(1, "kept", "STRING"))

    rows = read_key_value_file(ctx, bucket_dir(ctx), meta)

    assert rows.drop_columns(["_SEQUENCE_NUMBER", "_VALUE_KIND"]).to_pydict() == {
        "id": [1, 2], "now": [7, 8], "dropped": [None, None], "kept": ["a", None]
    }  # fmt: skip
    assert read_key_value_file(ctx, bucket_dir(ctx), meta, ["dropped"]).column("dropped").to_pylist() == [None, None]
    assert [b.column("now").to_pylist() for b in iter_key_value_batches(ctx, bucket_dir(ctx), meta, ["now"])] == [
        [7, 8]
    ]


def test_a_file_without_a_column_of_its_schema_is_damaged(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "v": "STRING"})
    meta = write(ctx, table(ctx, [[1], ["a"]]))
    path = f"{bucket_dir(ctx)}/{meta.file_name}"
    pq.write_table(pq.read_table(path).drop_columns(["v"]), path)
    meta = replace(meta, file_size_bytes=Path(path).stat().st_size)

    with pytest.raises(CorruptFile, match="it lacks column 'v' of its schema"):
        read_key_value_file(ctx, bucket_dir(ctx), meta)


def test_unknown_schema_is_reported(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    meta = write(ctx, table(ctx, [[1]]))

    with pytest.raises(CorruptFile, match="was written with schema 5"):
        read_key_value_file(ctx, bucket_dir(ctx), replace(meta, schema_id=5))


CASTS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("TINYINT", "BIGINT", [-128, None], [-128, None]),
    ("INT", "DOUBLE", [2**31 - 1], [float(2**31 - 1)]),
    ("SMALLINT", "FLOAT", [-7], [-7.0]),
    ("BIGINT", "INT", [2**32 + 5], [5]),
    ("INT", "DECIMAL(10, 0)", [-(2**31)], [Decimal(-(2**31))]),
    ("BIGINT", "DECIMAL(38, 19)", [2**63 - 1], [Decimal(2**63 - 1)]),
    ("INT", "STRING", [-5, None], ["-5", None]),
    ("BOOLEAN", "STRING", [True, False], ["true", "false"]),
    ("DATE", "STRING", [dt.date(2024, 2, 29)], ["2024-02-29"]),
    ("FLOAT", "DOUBLE", [0.5], [0.5]),
    ("DOUBLE", "FLOAT", [0.5], [0.5]),
    ("DECIMAL(9, 2)", "DECIMAL(30, 4)", [Decimal("-1.25")], [Decimal("-1.25")]),
    ("DECIMAL(9, 2)", "DECIMAL(9, 1)", [Decimal("1.25"), Decimal("-1.25")], [Decimal("1.3"), Decimal("-1.3")]),
    ("CHAR(3)", "STRING", ["abc"], ["abc"]),
    ("VARCHAR(3)", "VARCHAR(9)", ["abc"], ["abc"]),
    ("BINARY(2)", "BYTES", [b"\0\1"], [b"\0\1"]),
    ("TIME(0)", "TIME(3)", [dt.time(1, 2, 3)], [dt.time(1, 2, 3)]),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", [dt.datetime(1969, 1, 1)], [dt.datetime(1969, 1, 1)]),
    ("TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(6)", [0], [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
]  # fmt: skip


@pytest.mark.parametrize(("old_type", "new_type", "stored", "expected"), CASTS, ids=[f"{c[0]}-{c[1]}" for c in CASTS])
def test_values_of_changed_types_are_cast(
    tmp_path: Path, old_type: str, new_type: str, stored: list[Any], expected: list[Any]
) -> None:
    old = context(tmp_path, {"id": "INT", "v": old_type})
    meta = write(old, table(old, [list(range(len(stored))), stored]))
    ctx = evolved(old, field(1, "v", new_type))

    rows = read_key_value_file(ctx, bucket_dir(ctx), meta)

    assert rows.column("v").to_pylist() == expected
    assert rows.schema.field("v").type == arrow_type(parse_type(new_type))


@pytest.mark.parametrize(
    ("old_type", "new_type", "stored"),
    [
        ("STRING", "INT", "5"),
        ("STRING", "VARCHAR(2)", "abc"),
        ("VARCHAR(3)", "CHAR(5)", "abc"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", 1),
        ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", 1),
        ("DECIMAL(9, 2)", "DECIMAL(3, 2)", Decimal("1234.56")),
        ("INT", "DECIMAL(2, 0)", 1000),
        ("INT", "VARCHAR(3)", 1000),
        ("ARRAY<INT>", "INT", [1]),
        ("ARRAY<INT>", "ARRAY<DATE>", [1]),
    ],
)
def test_casts_that_could_lose_values_are_refused(tmp_path: Path, old_type: str, new_type: str, stored: Any) -> None:
    old = context(tmp_path, {"id": "INT", "v": old_type})
    meta = write(old, table(old, [[1], [stored]]))
    ctx = evolved(old, field(1, "v", new_type))

    with pytest.raises(UnsupportedFeature, match="column 'v' was written as"):
        read_key_value_file(ctx, bucket_dir(ctx), meta)


OLD_ROW = row_type((2, "x", "INT"), (3, "gone", "INT"), (4, "y", "STRING"))
NEW_ROW = row_type((4, "y2", "STRING"), (5, "added", "ARRAY<INT>"), (2, "x", "BIGINT"))


def test_fields_of_rows_are_found_by_field_id() -> None:
    values = [None, {"x": 1, "gone": 2, "y": "a"}, {"x": None, "gone": 2, "y": None}]
    column = pa.chunked_array([pa.array([{"x": 9}, *values], arrow_type(OLD_ROW)).slice(1)])

    read = conform_column(column, field(1, "r", OLD_ROW), field(1, "r", NEW_ROW))

    read.validate(full=True)
    assert read.to_pylist() == [
        None,
        {"y2": "a", "added": None, "x": 1},
        {"y2": None, "added": None, "x": None},
    ]


@pytest.mark.parametrize("sliced", [0, 1, 2])
def test_rows_inside_arrays_and_maps_are_mapped(sliced: int) -> None:
    old_array, new_array = (replace(parse_type("ARRAY<INT>"), element=t) for t in (OLD_ROW, NEW_ROW))
    old_map, new_map = (
        replace(parse_type("MAP<INT, INT>"), key=key, value=value)
        for key, value in ((parse_type("INT NOT NULL"), old_array), (parse_type("BIGINT NOT NULL"), new_array))
    )
    values: list[Any] = [[(1, [{"x": 1, "gone": 0, "y": "a"}, None])], None, [], [(2, None), (3, [])]]
    column = pa.chunked_array([pa.array(values, arrow_type(old_map)).slice(sliced)])

    read = conform_column(column, field(1, "m", old_map), field(1, "m", new_map))

    read.validate(full=True)
    expected: list[Any] = [[(1, [{"y2": "a", "added": None, "x": 1}, None])], None, [], [(2, None), (3, [])]]
    assert read.to_pylist() == expected[sliced:]
    assert read.type == arrow_type(new_map)


def test_multisets_keep_their_counts() -> None:
    old, new = parse_type("MULTISET<INT NOT NULL>"), parse_type("MULTISET<BIGINT NOT NULL>")
    column = pa.chunked_array([pa.array([[(7, 2)], None], arrow_type(old))])

    assert conform_column(column, field(1, "b", old), field(1, "b", new)).to_pylist() == [[(7, 2)], None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "physical", "value", "expected"),
    [
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", pa.timestamp("ns"), 5, 5),
        ("TIMESTAMP(3)", pa.timestamp("us"), 5_000, 5),
        ("TINYINT", pa.int32(), 7, 7),
        ("DECIMAL(5, 1)", pa.decimal128(38, 1), Decimal("12.5"), Decimal("12.5")),
        ("BYTES", pa.string(), "a", b"a"),
    ],
)
def test_physical_types_that_stand_for_a_column_type_are_accepted(
    text: str, physical: pa.DataType, value: Any, expected: Any
) -> None:
    column = field(1, "c", text)

    read = conform_column(pa.chunked_array([pa.array([value], physical)]), column, column)

    assert read.type == arrow_type(column.type)
    assert (read[0].value if pa.types.is_timestamp(read.type) else read[0].as_py()) == expected


def test_nested_fields_may_have_other_names_and_nullability_in_the_file() -> None:
    written = field(1, "c", "ARRAY<MAP<STRING, BIGINT NOT NULL>>")
    physical = pa.list_(pa.field("item", pa.map_(pa.string(), pa.field("val", pa.int32()))))
    column = pa.chunked_array([pa.array([[[("a", 1)], None], None, []], physical).slice(0, 3)])

    read = conform_column(column, written, written)

    read.validate(full=True)
    assert read.type == arrow_type(written.type)
    assert read.to_pylist() == [[[("a", 1)], None], None, []]
