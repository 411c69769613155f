"""Kinds of decimal strings: whole columns give the answers of single values, or leave them to those."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.values.decimal_kinds import decimal_kinds
from sources.values.json_values import BASE64_TEXT, NO_NUMBER, NUMBER_TEXT, decimal_form

TEXTS = st.one_of(
    st.text("0123456789eE+-./=aZ ", max_size=9),
    st.binary(min_size=1, max_size=9).map(lambda data: base64.b64encode(data).decode()),
    st.sampled_from([w.upper() for w in NO_NUMBER]),
    st.none(),
)


@pytest.mark.slow
@given(st.lists(TEXTS, max_size=12))
def test_a_column_has_the_kinds_of_its_values(values: list[str | None]) -> None:
    strings = pa.array(["dropped", *values], pa.string()).slice(1)
    kinds = decimal_kinds(strings)
    for value, is_text, is_base64 in zip(values, kinds.text, kinds.base64, strict=True):
        assert not (is_text and is_base64)
        if is_text:
            assert value is not None and decimal_form(value) == "text"
        if is_base64:
            assert value is not None and (decimal_form(value) == "base64" or not BASE64_TEXT.fullmatch(value))


def test_what_may_be_both_is_a_number_and_base64() -> None:
    for text in ("1234", "1E+2", "+123", "00000000", "12e3"):
        assert (decimal_form(text), bool(NUMBER_TEXT.fullmatch(text))) == ("ambiguous", True)
        assert not (decimal_kinds(pa.array([text])).text | decimal_kinds(pa.array([text])).base64).any()
