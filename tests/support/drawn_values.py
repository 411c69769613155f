"""Hypothesis strategies for the values of every column type."""

import datetime as dt
from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st

DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))

MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**precision - 1
    return st.integers(-bound, bound).map(lambda n: Decimal(n).scaleb(-scale, Context(prec=40)))


def millis(moment: dt.datetime) -> dt.datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=30),
    "CHAR(8)": st.text(max_size=8),
    "BYTES": st.binary(max_size=30),
    "DECIMAL(9, 2)": decimals(9, 2),
    "DECIMAL(18, 0)": decimals(18, 0),
    "DECIMAL(19, 4)": decimals(19, 4),
    "DECIMAL(38, 10)": decimals(38, 10) | st.sampled_from([Decimal(-(2**k)).scaleb(-10) for k in range(0, 120, 7)]),
    "DATE": DATES,
    "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(3)": MOMENTS.map(millis),
    "TIMESTAMP(6)": MOMENTS,
    "TIMESTAMP(9)": st.integers(-(2**63) + 1, 2**63 - 1),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": MOMENTS.map(lambda m: millis(m).replace(tzinfo=dt.UTC)),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": MOMENTS.map(lambda m: m.replace(tzinfo=dt.UTC)),
}
