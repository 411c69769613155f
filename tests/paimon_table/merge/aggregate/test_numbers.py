from decimal import Decimal

import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.rows.numeric import warn_of_overflow
from tests.support.aggregate_functions import result


def test_sum_skips_nulls_and_subtracts_retracts() -> None:
    assert result("sum", "INT", [None, 5, 7, None, 3], retracts=[4]) == 9
    assert result("sum", "INT", [None, None]) is None


def test_sum_retracted_from_nothing_is_negative() -> None:
    assert result("sum", "BIGINT", [5], retracts=[0]) == -5
    assert result("sum", "DECIMAL(10, 2)", [Decimal("1.50")], retracts=[0]) == Decimal("-1.50")


@pytest.mark.parametrize(
    ("type_text", "values", "sum_", "product"),
    [
        ("TINYINT", [100, 100], -56, 16),
        ("SMALLINT", [-30000, -30000], 5536, -5888),
        ("INT", [2147483647, 1, -5], 2147483643, -2147483643),
        ("BIGINT", [2**63 - 1, 2], -(2**63) + 1, -2),
        ("BIGINT", [-(2**63), -1], 2**63 - 1, -(2**63)),
    ],
)
def test_integers_wrap_around(type_text: str, values: list[int], sum_: int, product: int) -> None:
    assert result("sum", type_text, values) == sum_
    assert result("product", type_text, values) == product


def test_a_value_that_wraps_around_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_overflow.cache_clear()
    for _ in range(2):
        result("sum", "SMALLINT", [30000, 30000])
    result("sum", "SMALLINT", [30000, -30000, -32768])

    (record,) = caplog.records
    assert "column 'v'" in record.getMessage() and "SMALLINT" in record.getMessage()


def test_negating_the_smallest_integer_gives_it_again() -> None:
    assert result("sum", "TINYINT", [-128], retracts=[0]) == -128
    assert result("sum", "TINYINT", [-128, -128], retracts=[1]) == 0
    assert result("product", "TINYINT", [-128, -1], retracts=[1]) == -128


@pytest.mark.parametrize(("type_text", "big"), [("DECIMAL(4, 2)", "99.99"), ("DECIMAL(38, 2)", "9" * 36 + ".99")])
def test_sum_of_decimals_overflows_to_null_and_starts_again(type_text: str, big: str) -> None:
    assert result("sum", type_text, [Decimal(big), Decimal("0.01")]) is None
    assert result("sum", type_text, [Decimal(big), Decimal("0.01"), Decimal("3.00")]) == Decimal("3.00")


def test_sum_of_wide_decimals_is_exact() -> None:
    big = Decimal("123456789012345678901234567890.123456")
    values = [big, big.copy_negate(), big, Decimal("0.000001")]
    assert str(result("sum", "DECIMAL(38, 6)", values)) == "123456789012345678901234567890.123457"


def test_float_sums_round_at_every_step() -> None:
    assert result("sum", "FLOAT", [1e8, 1.0, -1e8]) == 0.0
    assert result("sum", "DOUBLE", [1e8, 1.0, -1e8]) == 1.0


def test_product_divides_by_retracted_values_and_truncates() -> None:
    assert result("product", "INT", [7, 2], retracts=[1]) == 3
    assert result("product", "INT", [-7, 2], retracts=[1]) == -3
    assert result("product", "INT", [5], retracts=[0]) is None
    assert result("product", "INT", [5, None], retracts=[1]) == 5


def test_product_of_decimals_rounds_half_up_to_the_scale() -> None:
    assert result("product", "DECIMAL(4, 2)", [Decimal("1.11"), Decimal("1.11")]) == Decimal("1.23")
    assert result("product", "DECIMAL(4, 2)", [Decimal("0.05"), Decimal("0.10")]) == Decimal("0.01")
    assert result("product", "DECIMAL(4, 2)", [Decimal("99.99"), Decimal("2.00")]) is None


def test_product_refuses_what_has_no_result() -> None:
    with pytest.raises(MalformedRecord, match="/ by zero"):
        result("product", "INT", [7, 0], retracts=[1])
    with pytest.raises(MalformedRecord, match="non-terminating"):
        result("product", "DECIMAL(10, 2)", [Decimal("1.00"), Decimal("3.00")], retracts=[1])


def test_product_of_large_integers_is_exact() -> None:
    assert result("product", "BIGINT", [3037000499, 3037000499]) == 3037000499**2


def test_count_adds_what_values_count_for() -> None:
    assert result("count", "BIGINT", [1, 0, 1, 1], retracts=[3]) == 1
