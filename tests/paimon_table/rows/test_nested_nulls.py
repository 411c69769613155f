"""NULLs inside values whose type forbids them are refused before a file is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import MalformedRecord
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.rows.nested_nulls import ForbiddenNulls, forbidden_nulls, forbids_nested_nulls
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.types import DataType, Root, arrow_type, parse_type
from paimon_table.write.incoming import IncomingRows
from tests.support.bucket_harness import BucketHarness, context


def bucket_with(tmp_path: Path, column_type: str, file_format: str = "avro") -> BucketHarness:
    columns = [("k", "INT"), ("v", column_type)]
    return BucketHarness(context(columns, ["k"], {"file.format": file_format}), tmp_path)


def found(values: list[Any], type_text: str) -> ForbiddenNulls | None:
    t = parse_type(type_text)
    return forbidden_nulls(pa.chunked_array([pa.array(values, arrow_type(t))]), "v")


@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
@pytest.mark.parametrize(
    ("column_type", "value", "path"),
    [
        ("MAP<STRING, BIGINT NOT NULL>", [("a", 1), ("b", None)], "v.value"),
        ("MAP<INT, STRING NOT NULL>", [(1, None)], "v.value"),
        ("ARRAY<STRING NOT NULL>", ["a", None], "v.element"),
        ("ARRAY<INT NOT NULL>", [None, 7], "v.element"),
        ("ROW<a INT NOT NULL, b STRING>", {"a": None, "b": "x"}, "v.a"),
        ("MULTISET<STRING>", [("a", None)], "v.value"),
        ("ARRAY<ROW<a MAP<STRING, INT NOT NULL>>>", [{"a": None}, {"a": [("x", None)]}], "v.element.a.value"),
    ],
)
def test_null_in_a_not_null_nested_type_is_refused(
    tmp_path: Path, file_format: str, column_type: str, value: object, path: str
) -> None:
    bucket = bucket_with(tmp_path, column_type, file_format)

    with pytest.raises(MalformedRecord, match=re.escape(f"null to non-null field({path})")) as caught:
        bucket.commit([("+I", 1, None), ("+I", 2, value)])

    assert "column 'v'" in str(caught.value)
    io = bucket.ctx.io
    assert isinstance(io, MemoryFileIO) and not io.disk.files


@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
def test_a_null_parent_excuses_its_children(tmp_path: Path, file_format: str) -> None:
    bucket = bucket_with(tmp_path, "ARRAY<ROW<a INT NOT NULL, b ARRAY<STRING NOT NULL>>>", file_format)

    bucket.commit([("+I", 1, None), ("+I", 2, []), ("+I", 3, [None, {"a": 1, "b": None}, {"a": 2, "b": ["x"]}])])

    assert [row[1] for row in bucket.content()] == [None, [], [None, {"a": 1, "b": None}, {"a": 2, "b": ["x"]}]]


def test_items_below_a_null_list_are_excused() -> None:
    items = pa.array(["a", None, None, "b"])
    field = pa.field("element", pa.string(), False)
    lists = pa.ListArray.from_arrays([0, 1, 3, 4], items, type=pa.list_(field), mask=pa.array([False, True, False]))

    assert lists.to_pylist() == [["a"], None, ["b"]]
    assert forbidden_nulls(pa.chunked_array([lists]), "v") is None


def test_only_the_given_slice_is_looked_at() -> None:
    t = arrow_type(parse_type("ARRAY<ROW<a INT NOT NULL>>"))
    values = pa.array([[{"a": None}], [{"a": 1}, None], [{"a": 2}, {"a": None}]], t)

    assert forbidden_nulls(pa.chunked_array([values.slice(1, 1)]), "v") is None
    assert forbidden_nulls(pa.chunked_array([values.slice(1)]), "v") == ForbiddenNulls("v.element.a", 1)
    assert forbidden_nulls(pa.chunked_array([values.slice(1, 1), values]), "v") == ForbiddenNulls("v.element.a", 2)


def test_nullable_neighbours_are_not_counted() -> None:
    assert found([{"a": 1, "b": None}, None, {"a": None, "b": "x"}], "ROW<a INT NOT NULL, b STRING>") == (
        ForbiddenNulls("v.a", 1)
    )


def test_types_without_not_null_inside_need_no_look() -> None:
    for free in (
        "INT",
        "INT NOT NULL",
        "ARRAY<INT> NOT NULL",
        "MAP<STRING, INT>",
        "ROW<a ROW<b INT>, c ARRAY<STRING>>",
    ):
        assert not forbids_nested_nulls(arrow_type(parse_type(free)))
    for strict in (
        "ARRAY<INT NOT NULL>",
        "MAP<ROW<a INT NOT NULL>, INT>",
        "ROW<a ROW<b INT NOT NULL>>",
        "MULTISET<INT>",
    ):
        assert forbids_nested_nulls(arrow_type(parse_type(strict)))


def test_ignored_rows_are_not_looked_at(tmp_path: Path) -> None:
    ctx = context([("k", "INT"), ("v", "ARRAY<INT NOT NULL>")], ["k"], {"ignore-delete": "true"})
    rows = BucketHarness(ctx, tmp_path).table([("+I", 1, [1]), ("-D", 2, [None]), ("+I", 3, [2])])

    incoming = IncomingRows(ctx, BucketId(EMPTY_ROW, 0), 0)
    incoming.add(rows)

    taken = incoming.take()
    assert taken is not None and taken.column("v").to_pylist() == [[1], [2]]


# ---------------------------------------------------------------- against a plain definition

_LEAVES = [parse_type(text) for text in ("INT", "INT NOT NULL", "STRING", "STRING NOT NULL")]


def _types() -> st.SearchStrategy[DataType]:
    def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
        arrays = inner.map(lambda t: DataType(Root.ARRAY, element=t))
        maps = inner.map(lambda t: DataType(Root.MAP, key=parse_type("STRING"), value=t))
        rows = st.tuples(inner, inner).map(lambda pair: _row(*pair))
        return st.tuples(st.one_of(arrays, maps, rows), st.booleans()).map(lambda p: p[0].with_nullable(p[1]))

    return st.recursive(st.sampled_from(_LEAVES), nested, max_leaves=4)


def _row(first: DataType, second: DataType) -> DataType:
    fields = parse_type("ROW<a INT, b INT>").fields
    return DataType(Root.ROW, fields=tuple(_typed(f, t) for f, t in zip(fields, (first, second), strict=True)))


def _typed(field: Any, t: DataType) -> Any:
    return type(field)(field.id, field.name, t)


def _values(t: DataType) -> st.SearchStrategy[Any]:
    match t.root:
        case Root.ARRAY:
            assert t.element is not None
            plain: st.SearchStrategy[Any] = st.lists(_values(t.element), max_size=3)
        case Root.MAP:
            assert t.value is not None
            plain = st.lists(st.tuples(st.sampled_from("xyz"), _values(t.value)), max_size=3)
        case Root.ROW:
            plain = st.fixed_dictionaries({f.name: _values(f.type) for f in t.fields})
        case Root.INT:
            plain = st.just(1)
        case _:
            plain = st.just("s")
    return st.one_of(plain, plain, plain, st.none())


def _is_wrong(value: Any, t: DataType) -> bool:
    if value is None:
        return not t.nullable
    return _has_wrong_parts(value, t)


def _has_wrong_parts(value: Any, t: DataType) -> bool:
    if value is None:
        return False
    match t.root, t.element, t.value:
        case Root.ARRAY, DataType() as element, _:
            return any(_is_wrong(item, element) for item in value)
        case Root.MAP, _, DataType() as item_type:
            return any(_is_wrong(item, item_type) for _, item in value)
        case Root.ROW, _, _:
            return any(_is_wrong(value[f.name], f.type) for f in t.fields)
    return False


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(st.data())
def test_agrees_with_looking_at_every_value(data: st.DataObject) -> None:
    t = data.draw(_types())
    values = data.draw(st.lists(_values(t), max_size=6))
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, arrow_type(t)).slice(start)

    refused = forbidden_nulls(pa.chunked_array([array], array.type), "v")

    assert (refused is not None) == any(_has_wrong_parts(value, t) for value in values[start:])
