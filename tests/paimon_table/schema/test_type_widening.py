"""The least common type of two types, or none where values could be lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.schema.type_widening import common_type
from paimon_table.types import parse_type

CASES = [
    ("TINYINT", "SMALLINT", "SMALLINT"),
    ("INT", "BIGINT", "BIGINT"),
    ("BIGINT", "DECIMAL(20, 2)", "DECIMAL(21, 2)"),
    ("INT", "DECIMAL(20, 2)", "DECIMAL(20, 2)"),
    ("BIGINT", "DECIMAL(38, 0)", "DECIMAL(38, 0)"),
    ("BIGINT", "DECIMAL(38, 30)", None),
    ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
    ("DECIMAL(38, 0)", "DECIMAL(38, 10)", None),
    ("FLOAT", "DOUBLE", "DOUBLE"),
    ("INT", "DOUBLE", "DOUBLE"),
    ("BIGINT", "DOUBLE", None),
    ("INT", "FLOAT", None),
    ("SMALLINT", "FLOAT", "FLOAT"),
    ("CHAR(3)", "VARCHAR(2)", "VARCHAR(3)"),
    ("VARCHAR(5)", "STRING", "STRING"),
    ("CHAR(3)", "CHAR(3)", "CHAR(3)"),
    ("CHAR(3)", "CHAR(5)", "VARCHAR(5)"),
    ("BINARY(3)", "BYTES", "BYTES"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
    ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", None),
    ("DATE", "TIMESTAMP(3)", None),
    ("STRING", "INT", None),
    ("BOOLEAN", "INT", None),
    ("ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
    ("ARRAY<INT>", "ARRAY<STRING>", None),
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", "MAP<STRING, BIGINT>"),
    ("ROW<a INT, b STRING>", "ROW<a BIGINT, c DATE>", "ROW<a BIGINT, b STRING, c DATE>"),
    ("ROW<a INT>", "ROW<a STRING>", None),
    ("INT NOT NULL", "BIGINT", "BIGINT"),
    ("INT NOT NULL", "INT NOT NULL", "INT NOT NULL"),
]


@pytest.mark.parametrize(("old", "new", "common"), CASES)
def test_common_type(old: str, new: str, common: str | None) -> None:
    expected = None if common is None else parse_type(common)

    assert common_type(parse_type(old), parse_type(new)) == expected
    if not old.startswith("ROW"):
        assert common_type(parse_type(new), parse_type(old)) == expected


@pytest.mark.slow
@given(st.data())
def test_the_common_type_holds_both(data: st.DataObject) -> None:
    types = [parse_type(text) for case in CASES for text in case[:2]]
    old, new = data.draw(st.sampled_from(types)), data.draw(st.sampled_from(types))

    common = common_type(old, new)

    if common is not None:
        assert common_type(common, old) == common
        assert common_type(common, new) == common
