"""Random columns: a type, how a value of it is drawn, and which aggregate functions take it.

What the released Java does not know or gets wrong is not drawn: see ``differences``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.differential import bitmaps
from tests.support.plain_values import Plain

Draw = Callable[[random.Random], Plain]

NULL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class ValueType:
    """``sql`` is the column's type; ``draw`` gives a value that is not NULL, of few, so that equal ones are common."""

    sql: str
    draw: Draw


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ValueType
    options: Mapping[str, str] = field(default_factory=dict)
    """``fields.<column>.*`` without the prefix."""
    null_share: float = NULL_SHARE
    unordered: bool = False
    """Whether the element order of its arrays is free."""

    def draw(self, rng: random.Random) -> Plain:
        return None if rng.random() < self.null_share else self.type.draw(rng)


@dataclass(frozen=True, slots=True)
class Function:
    """An aggregate function with the types to draw from, its further options and whether it takes retracts."""

    name: str
    types: tuple[ValueType, ...]
    retracts: bool = False
    options: tuple[Mapping[str, str], ...] = ({},)
    unordered: bool = False


def _choice(*values: Plain) -> Draw:
    return lambda rng: rng.choice(values)


def _int(low: int, high: int) -> Draw:
    return lambda rng: rng.randint(low, high)


def _items(item: Draw, at_most: int) -> Draw:
    return lambda rng: [item(rng) for _ in range(rng.randint(0, at_most))]


def _map(key: Draw, value: Draw) -> Draw:
    def draw(rng: random.Random) -> Plain:
        pairs = {key(rng): value(rng) for _ in range(rng.randint(0, 3))}
        return [[k, pairs[k]] for k in sorted(pairs)]

    return draw


def _row(*items: Draw) -> Draw:
    return lambda rng: [item(rng) for item in items]


def _distinct_ids(draw: Draw) -> Draw:
    return lambda rng: list({item[0]: item for item in draw(rng)}.values())


def _or_null(draw: Draw, share: float = 0.2) -> Draw:
    return lambda rng: None if rng.random() < share else draw(rng)


INT = ValueType("INT", _int(-3, 6))
BIGINT = ValueType("BIGINT", _choice(-(2**40), -1, 0, 1, 2, 2**40))
TEXT = ValueType("STRING", _choice("", "a", "b", "B", "é", "a longer text, with blanks"))
WORDS = ValueType("STRING", _choice("a", "b", "B,a", "é", "a;b", " x"))
DOUBLE = ValueType("DOUBLE", _choice(-1.5, 0.0, 0.25, 2.0, 1e10))
DECIMAL = ValueType("DECIMAL(10, 2)", _choice("-1.50", "0.00", "2.25", "1000.01"))
WIDE_DECIMAL = ValueType("DECIMAL(30, 4)", _choice("-1.5000", "0.0000", "12345678901234567890.2500"))
DATE = ValueType("DATE", _choice("1969-12-31", "2024-02-29", "2024-03-01"))
TIMESTAMP = ValueType("TIMESTAMP(3)", _choice("1960-01-01 00:00:00.001", "2024-01-01 00:00:00.000"))
BOOLEAN = ValueType("BOOLEAN", _choice(True, False))
BYTES = ValueType("BYTES", _choice("0x", "0x00ff", "0x0100"))
SCALARS = (INT, BIGINT, TEXT, DOUBLE, DECIMAL, DATE, TIMESTAMP, BOOLEAN, BYTES)
COMPARABLE = (INT, BIGINT, TEXT, DOUBLE, DECIMAL, WIDE_DECIMAL, DATE, TIMESTAMP)

SMALL = ValueType("SMALLINT", _int(-20, 20))
FACTOR = ValueType("BIGINT", _choice(1, 2, -1, 3))
INTS = ValueType("ARRAY<INT>", _items(_or_null(_int(0, 3)), 3))
TEXTS = ValueType("ARRAY<STRING>", _items(_or_null(_choice("a", "b", "")), 3))
COUNTS = ValueType("MAP<STRING, INT>", _map(_choice("a", "b", "c"), _or_null(_int(0, 3))))
TIMED = ValueType(
    "MAP<STRING, ROW<v INT, ts STRING>>",
    _map(_choice("a", "b", "c"), _or_null(_row(_or_null(_int(0, 3)), _or_null(_choice("10", "9", "2024"))))),
)
_ITEM = _row(_int(1, 3), _or_null(_choice("x", "y")), _or_null(_int(0, 3)))
NESTED = ValueType("ARRAY<ROW<id INT, v STRING, s INT>>", _items(_ITEM, 3))
NESTED_BY_ID = ValueType("ARRAY<ROW<id INT, v STRING, s INT>>", _distinct_ids(_items(_ITEM, 3)))

BITMAP32 = ValueType("BYTES", bitmaps.bitmap32)
BITMAP64 = ValueType("BYTES", bitmaps.bitmap64)
HLL = ValueType("BYTES", bitmaps.hll_sketch)
THETA = ValueType("BYTES", bitmaps.theta_sketch)

FUNCTIONS: tuple[Function, ...] = (
    Function("sum", (SMALL, INT, BIGINT, DECIMAL, WIDE_DECIMAL, DOUBLE), retracts=True),
    Function("product", (FACTOR,), retracts=False),
    Function("max", COMPARABLE),
    Function("min", COMPARABLE),
    Function("first_value", SCALARS),
    Function("first_non_null_value", SCALARS),
    Function("first_not_null_value", SCALARS),
    Function("last_value", SCALARS, retracts=True),
    Function("last_non_null_value", SCALARS, retracts=True),
    Function("bool_and", (BOOLEAN,)),
    Function("bool_or", (BOOLEAN,)),
    Function("listagg", (WORDS,), options=({}, {"list-agg-delimiter": ";"}, {"distinct": "true"})),
    Function("collect", (INTS, TEXTS), retracts=True),
    Function("collect", (INTS, TEXTS), retracts=True, options=({"distinct": "true"},), unordered=True),
    Function("merge_map", (COUNTS,), retracts=True),
    Function("merge_map_with_keytime", (TIMED,), options=({}, {"ts-field": "ts"})),
    Function("nested_update", (NESTED,), retracts=True, options=({}, {"count-limit": "3"})),
    Function(
        "nested_update",
        (NESTED_BY_ID,),
        retracts=True,
        options=({"nested-key": "id"}, {"nested-key": "id,s"}),
        unordered=True,
    ),
    Function("rbm32", (BITMAP32,)),
    Function("rbm64", (BITMAP64,)),
    Function("hll_sketch", (HLL,)),
    Function("theta_sketch", (THETA,)),
    Function("nested_partial_update", (NESTED_BY_ID,), options=({"nested-key": "id"},), unordered=True),
)
