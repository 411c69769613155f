"""Encodings as the texts that a table remembers, and which of them a column's type tells by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.types import parse_type
from sources.column_forms import RAW, SEVERAL, TEXT_DECIMALS, ColumnForms, told_together
from sources.values.encodings import Encoding, Kind
from sources.values.form_texts import form_encoding, form_text, is_told_by_type
from sources.values.value_forms import ValueForms

SIMPLE = st.one_of(
    st.sampled_from(
        [Kind.AUTO, Kind.TEXT, Kind.BYTES, Kind.FORMATTED, Kind.UNSIGNED, Kind.VARIABLE_DECIMAL, Kind.DATE]
    ).map(Encoding),
    st.integers(-40, 40).map(lambda scale: Encoding(Kind.DECIMAL, scale=scale)),
    st.sampled_from([Kind.TIME, Kind.TIMESTAMP]).map(lambda kind: Encoding(kind, unit=1_000_000)),
)
ENCODINGS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda element: Encoding(Kind.ARRAY, element=element)),
        st.tuples(inner, inner).map(lambda pair: Encoding(Kind.MAP, key=pair[0], element=pair[1])),
        st.lists(st.tuples(st.text(max_size=4), inner), max_size=3).map(
            lambda f: Encoding(Kind.STRUCT, fields=tuple(f))
        ),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(ENCODINGS)
def test_an_encoding_is_read_back_from_its_text(encoding: Encoding) -> None:
    assert form_encoding(form_text(encoding)) == encoding


@pytest.mark.parametrize(
    "text", ["", RAW, SEVERAL, TEXT_DECIMALS, "decimal", "decimal(x)", "array<", "map<date>>", "?"]
)
def test_other_texts_are_no_encoding(text: str) -> None:
    assert form_encoding(text) is None


@pytest.mark.parametrize(
    "form, t, told",
    [
        ("time(1000000)", "STRING", False), ("time(1000000)", "BIGINT", True), ("time(1000)", "TIME(3)", True),
        ("timestamp(1000000)", "TIMESTAMP(6)", True), ("timestamp(1000)", "TIMESTAMP(6)", False),
        ("date", "DATE", True), ("date", "TIMESTAMP(6)", False), ("bytes", "STRING", True), ("bytes", "BYTES", True),
        ("text", "STRING", True), ("text", "DECIMAL(5, 2)", False), ("array<text>", "ARRAY<DECIMAL(5, 2)>", False),
        ("map<text, date>", "MAP<STRING, STRING>", False), ("map<text, date>", "STRING", True),
        ("unsigned", "DECIMAL(20, 0)", False), ('struct<"a": date>', "ROW<a STRING>", False),
    ],
)  # fmt: skip
def test_the_type_of_a_column_tells_some_encodings(form: str, t: str, told: bool) -> None:
    encoding = form_encoding(form)
    assert encoding is not None
    assert is_told_by_type(encoding, parse_type(t), ValueForms()) is told


def test_forms_go_one_way() -> None:
    columns = {name: parse_type("STRING") for name in ("a", "b")} | {"n": parse_type("BIGINT")}
    first = ColumnForms().learnt({"a": RAW, "b": "date", "n": RAW, "unknown": "date"}, columns)
    assert first.by_column == {"a": RAW, "b": "date"}
    later = first.learnt({"a": "date", "b": RAW}, columns).learnt({"b": "date"}, columns)
    assert later == first == ColumnForms.parsed(first.text)
    assert first.learnt({"b": "decimal(2)"}, columns).learnt({"b": "date"}, columns).of("b") == SEVERAL
    assert told_together(RAW, "date") == told_together("date", RAW) == "date"


@pytest.mark.parametrize("text", [None, "", "?", "[]", '{"raw": 1}', "null"])
def test_an_option_that_cannot_be_read_remembers_nothing(text: str | None) -> None:
    assert ColumnForms.parsed(text) == ColumnForms()
