"""Values beyond what a type holds, or so long that working them out would take for ever: refused, and soon."""

from __future__ import annotations

import base64
import math
import time
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.changes import DecoderOptions
from sources.conversion import convert_column, convert_values
from sources.encodings import AUTO, Encoding, Kind

OPTIONS = DecoderOptions()


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
def test_a_decimal_of_a_megabyte_is_refused_soon(target: str, encoding: Encoding) -> None:
    text = base64.b64encode(b"\x7f" * 1_000_000).decode()
    value: Any = {"scale": 2, "value": text} if encoding.kind is not Kind.DECIMAL else text
    if encoding is AUTO and target in ("BIGINT", "DOUBLE"):
        value = text
    started = time.process_time()

    told = convert_values([value], encoding, parse_type(target), OPTIONS).problems

    assert told
    assert time.process_time() - started < 1


def test_long_texts_of_digits_are_refused_soon() -> None:
    for target in ("BIGINT", "DECIMAL(38, 2)", "DOUBLE", "FLOAT"):
        assert convert_values(["9" * 500_000], AUTO, parse_type(target), OPTIONS).problems, target


def test_decimals_with_padded_bytes_are_the_numbers_that_they_are() -> None:
    padded = base64.b64encode(b"\xff" * 100 + b"\x85").decode()

    converted = convert_values([padded], Encoding(Kind.DECIMAL, scale=2), parse_type("DECIMAL(5, 2)"), OPTIONS)

    assert [str(value) for value in converted.values.to_pylist()] == ["-1.23"]


def test_the_largest_number_of_postgresql_is_kept_as_text() -> None:
    digits = 131_072 + 16_383
    unscaled = 10**digits - 1
    text = base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
    value = {"scale": 16_383, "value": text}

    (number,) = convert_values(
        [value], Encoding(Kind.VARIABLE_DECIMAL), parse_type("STRING"), OPTIONS
    ).values.to_pylist()

    assert number == "9" * 131_072 + "." + "9" * 16_383
