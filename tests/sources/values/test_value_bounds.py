"""Values beyond what a type holds, or so long that working them out would take for ever: refused, and soon."""

from __future__ import annotations

import base64
import math
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.values.conversion import convert_column, convert_values
from sources.values.encodings import AUTO, Encoding, Kind
from sources.values.value_forms import ValueForms

OPTIONS = ValueForms()


@pytest.mark.parametrize("value", [3.5e38, -3.5e38, 3.4028235677973366e38, 1e300, "3.5e38", "1e39", 10**39])
def test_a_number_beyond_float_is_refused_as_beyond_double(value: Any) -> None:
    told = convert_values([value], AUTO, parse_type("FLOAT"), OPTIONS).problems

    assert "is out of the range of FLOAT" in told[0]


def test_a_column_of_numbers_beyond_float_is_refused_where_it_is_beyond() -> None:
    numbers = pa.array([1.5, 3.5e38, None, math.inf, -1e300, math.nan, 3.4028234e38])
    for array, target in ((numbers, "FLOAT"), (pa.array([[n] for n in numbers.to_pylist()]), "ARRAY<FLOAT>")):
        converted = convert_column(array, AUTO, parse_type(target), OPTIONS)

        assert sorted(converted.problems) == [1, 4]
        assert all("is out of the range of FLOAT" in reason for reason in converted.problems.values())
    plain = convert_column(numbers, AUTO, parse_type("FLOAT"), OPTIONS).values.to_pylist()
    assert (plain[3], math.isnan(plain[5])) == (math.inf, True)


@pytest.mark.parametrize("target", ["DECIMAL(38, 2)", "BIGINT", "DOUBLE", "STRING"])
@pytest.mark.parametrize("encoding", [Encoding(Kind.DECIMAL, scale=2), Encoding(Kind.VARIABLE_DECIMAL), AUTO])
def test_a_decimal_of_too_many_bytes_is_refused_before_it_is_worked_out(target: str, encoding: Encoding) -> None:
    text = base64.b64encode(b"\x7f" * 100_000).decode()
    value: Any = {"scale": 2, "value": text} if encoding.kind is not Kind.DECIMAL else text
    if encoding is AUTO and target in ("BIGINT", "DOUBLE"):
        value = text

    told = convert_values([value], encoding, parse_type(target), OPTIONS).problems

    # What is worked out first is told with its digits, or is out of range.
    reason = "a decimal of 100000 bytes has more digits than " if value != text or encoding != AUTO else "does not fit "
    assert reason + target in told[0]


def test_a_text_in_a_column_of_base64_is_told_as_no_base64() -> None:
    told = convert_values(["12.50"], AUTO, parse_type("DECIMAL(10, 2)"), ValueForms(decimal_format="base64")).problems

    assert told[0] == (
        'string "12.50" is not base64, which decimal_format declares; if the connector has'
        " decimal.handling.mode=string, set decimal_format: text"
    )


def test_long_texts_of_digits_are_refused_soon() -> None:
    for target in ("BIGINT", "DECIMAL(38, 2)", "DOUBLE", "FLOAT"):
        assert convert_values(["9" * 500_000], AUTO, parse_type(target), OPTIONS).problems, target


def test_decimals_with_padded_bytes_are_the_numbers_that_they_are() -> None:
    padded = base64.b64encode(b"\xff" * 100 + b"\x85").decode()

    converted = convert_values([padded], Encoding(Kind.DECIMAL, scale=2), parse_type("DECIMAL(5, 2)"), OPTIONS)

    assert [str(value) for value in converted.values.to_pylist()] == ["-1.23"]


@pytest.mark.slow
def test_the_largest_number_of_postgresql_is_kept_as_text() -> None:
    digits = 131_072 + 16_383
    unscaled = 10**digits - 1
    text = base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
    value = {"scale": 16_383, "value": text}

    (number,) = convert_values(
        [value], Encoding(Kind.VARIABLE_DECIMAL), parse_type("STRING"), OPTIONS
    ).values.to_pylist()

    assert number == "9" * 131_072 + "." + "9" * 16_383


UNSIGNED = Encoding(Kind.UNSIGNED)


def test_unsigned_numbers_beyond_63_bits_are_right_in_a_whole_column() -> None:
    numbers = pa.array([1, -1, None, -(1 << 63), 0])

    for target in ("DECIMAL(20, 0)", "STRING"):
        values = convert_column(numbers, UNSIGNED, parse_type(target), OPTIONS).values.to_pylist()
        assert [None if v is None else str(v) for v in values] == [
            "1", "18446744073709551615", None, "9223372036854775808", "0",
        ]  # fmt: skip


def test_an_unsigned_number_is_never_stored_as_a_negative_one() -> None:
    told = convert_column(pa.array([5, -1]), UNSIGNED, parse_type("BIGINT"), OPTIONS)

    assert told.values.to_pylist() == [5, None]
    assert "18446744073709551615 is out of the range of BIGINT" in told.problems[1]


def test_times_beyond_a_day_are_numbers_and_texts_but_no_time() -> None:
    beyond = pa.array([-3_020_399_000_000, 3_020_399_500_000])
    encoding = Encoding(Kind.TIME, unit=1_000_000)

    texts = convert_column(beyond, encoding, parse_type("STRING"), OPTIONS).values.to_pylist()
    numbers = convert_column(beyond, encoding, parse_type("BIGINT"), OPTIONS).values.to_pylist()
    told = convert_column(beyond, encoding, parse_type("TIME(3)"), OPTIONS).problems

    assert texts == ["-838:59:59", "838:59:59.5"]
    assert numbers == beyond.to_pylist()
    assert told[0] == "time -838:59:59 is out of the range of TIME(3); STRING and BIGINT hold it"
