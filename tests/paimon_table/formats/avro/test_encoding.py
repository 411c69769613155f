"""What the encoder of Avro rows refuses instead of writing another value."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import BrokenInvariant
from paimon_table.formats.avro.file import encode_records
from paimon_table.types import DataField, arrow_type, parse_type


def encoded(values: list[Any], type_text: str) -> bytes:
    t = parse_type(type_text)
    return b"".join(
        encode_records(pa.table({"v": pa.array(values, arrow_type(t))}), [DataField(0, "v", t)]).to_pylist()
    )


@pytest.mark.parametrize(
    ("value", "type_text", "path"),
    [
        (None, "INT NOT NULL", "v"),
        ([1, None], "ARRAY<INT NOT NULL>", "v.element"),
        ([("a", None)], "MAP<STRING, BIGINT NOT NULL>", "v.value"),
        ([(1, None)], "MAP<INT, ROW<a INT> NOT NULL>", "v.value"),
        ({"a": None, "b": "x"}, "ROW<a INT NOT NULL, b STRING>", "v.a"),
    ],
)
def test_null_where_the_schema_has_no_branch_for_it_stops_the_writer(value: object, type_text: str, path: str) -> None:
    with pytest.raises(BrokenInvariant, match=re.escape(f"1 NULLs in {path}")):
        encoded([value], type_text)


def test_what_stands_below_a_null_is_not_encoded() -> None:
    assert encoded([None, {"a": 1}], "ROW<a INT NOT NULL>") == b"\x00\x02\x02"
