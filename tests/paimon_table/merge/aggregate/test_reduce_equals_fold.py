"""The vector form of every function gives what the ordered fold gives, for any values, keys and retracts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import MalformedRecord
from paimon_table.merge.aggregate.folding import aggregate, fold
from tests.support.aggregate_functions import column, function

Outcome: TypeAlias = "pa.Array | str"

_WORDS = st.sampled_from(["", " ", "a", "b", "a,b", "é", "zz", "\u2003"])
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-300, 300),
    "INT": st.one_of(st.integers(-5, 5), st.sampled_from([2**31 - 1, -(2**31)])),
    "BIGINT": st.one_of(st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63), 2**62])),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(4, 2)": st.integers(-9999, 9999).map(lambda n: Decimal(n).scaleb(-2)),
    "DECIMAL(38, 3)": st.one_of(
        st.integers(-5000, 5000), st.sampled_from([10**38 - 1, -(10**38) + 1, 2**64, -(2**64), 2**100])
    ).map(lambda n: Decimal(str(n) + "E-3")),
    "BOOLEAN": st.booleans(),
    "STRING": _WORDS,
    "BYTES": _WORDS.map(str.encode),
    "DATE": st.dates(),
    "TIMESTAMP(9)": st.integers(-(2**40), 2**62),
    "ARRAY<STRING>": st.lists(st.one_of(st.none(), _WORDS), max_size=3),
    "ARRAY<DOUBLE>": st.lists(st.floats(), max_size=3),
    "MAP<STRING, INT>": st.dictionaries(_WORDS, st.one_of(st.none(), st.integers(0, 9)), max_size=3).map(
        lambda d: list(d.items())
    ),
    "MAP<DOUBLE, INT>": st.dictionaries(st.sampled_from([0.0, 1.0, 2.5]), st.integers(0, 9)).map(
        lambda d: list(d.items())
    ),
}
_NUMBERS = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4, 2)", "DECIMAL(38, 3)"]
_ORDERED = [t for t in _VALUES if not t.startswith(("ARRAY", "MAP"))]
_ANY = ["INT", "STRING", "TIMESTAMP(9)", "ARRAY<STRING>", "MAP<STRING, INT>"]
_FUNCTIONS: list[tuple[str, list[str]]] = [
    ("sum", _NUMBERS),
    ("product", _NUMBERS),
    ("count", ["INT", "BIGINT"]),
    ("max", _ORDERED),
    ("min", _ORDERED),
    ("bool_and", ["BOOLEAN"]),
    ("bool_or", ["BOOLEAN"]),
    ("last_value", _ANY),
    ("last_non_null_value", _ANY),
    ("first_value", _ANY),
    ("first_non_null_value", _ANY),
    ("primary-key", _ANY),
    ("listagg", ["STRING"]),
    ("collect", ["ARRAY<STRING>", "ARRAY<DOUBLE>"]),
    ("merge_map", ["MAP<STRING, INT>", "MAP<DOUBLE, INT>"]),
]
_CASES = [(name, t) for name, types in _FUNCTIONS for t in types]


@st.composite
def _segments(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[list[list[Any]], list[list[bool]]]:
    keys = draw(st.lists(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6), min_size=1, max_size=6))
    retracting = draw(st.booleans())
    marks = [[retracting and draw(st.booleans()) for _ in key] for key in keys]
    return keys, marks


@pytest.mark.slow
@pytest.mark.parametrize("ignore_retract", [False, True], ids=["", "ignore-retract"])
@pytest.mark.parametrize(("name", "type_text"), _CASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_vectors_give_what_the_fold_gives(name: str, type_text: str, ignore_retract: bool, data: st.DataObject) -> None:
    keys, marks = data.draw(_segments(_VALUES[type_text]))
    bound = function(name, type_text, ignore_retract=ignore_retract)
    lengths = [len(key) for key in keys]
    starts = np.cumsum([0, *lengths[:-1]])
    values = column(type_text, [None, *(v for key in keys for v in key)])[1:]
    retracts = np.array([m for key in marks for m in key])
    is_retract = retracts if retracts.any() else None

    expected = _outcome(lambda: fold(bound, values, starts, is_retract))
    actual = _outcome(lambda: aggregate(bound, values, starts, is_retract))

    if isinstance(expected, str):
        assert actual == expected
        return
    assert isinstance(actual, pa.Array)
    actual.validate(full=True)
    assert actual.type == values.type
    assert list(map(repr, bound.to_python(actual))) == list(map(repr, bound.to_python(expected)))


def _outcome(run: Callable[[], pa.Array]) -> Outcome:
    try:
        return run()
    except MalformedRecord as error:
        return str(error)


@pytest.mark.parametrize("name", ["sum", "product"])
def test_floats_of_long_keys_are_combined_in_order(name: str) -> None:
    values = np.random.default_rng(7).normal(1, 0.3, 500).astype(np.float32)
    bound = function(name, "FLOAT")
    starts = np.array([0, 3, 200])
    array = pa.array(values)

    assert aggregate(bound, array, starts, None).equals(fold(bound, array, starts, None))
