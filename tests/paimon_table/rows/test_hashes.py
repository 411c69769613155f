"""Bucket assignment and key hashes, checked against hashes that Java Paimon computed."""

import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.errors import ConfigError
from paimon_table.rows.binary_row import serialize_row
from paimon_table.rows.hashes import assign_buckets, key_hash64, murmur_hash_columns
from paimon_table.types import BINARIES, TIMESTAMPS, DataType, Root, arrow_type, parse_type

VECTOR_FILE = Path(__file__).with_name("bucket_vectors.jsonl")
VECTORS = [json.loads(line) for line in VECTOR_FILE.read_text(encoding="utf-8").splitlines()]
"""Key types and values, serialized row (where known), hash and buckets, as Java's classes gave them."""

BIGINT, STRING = parse_type("BIGINT"), parse_type("STRING")


def murmur(row: bytes) -> int:
    """Murmur3-32 of a serialized row, word by word."""
    state = 42
    for (word,) in struct.iter_unpack("<I", row):
        mixed = word * 0xCC9E2D51 & 0xFFFFFFFF
        mixed = (mixed << 15 | mixed >> 17) * 0x1B873593 & 0xFFFFFFFF
        state ^= mixed
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    state ^= len(row)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def values_of(vector: dict[str, Any], types: list[DataType]) -> list[Any]:
    return [None if v is None else python_value(v, t) for v, t in zip(vector["values"], types, strict=True)]


def python_value(value: Any, t: DataType) -> Any:
    if t.root is Root.DECIMAL:
        return Decimal(value)
    return bytes.fromhex(value) if t.root in BINARIES else value


def columns_of(values: list[Any], types: list[DataType]) -> list[pa.Array]:
    return [pa.array([value], arrow_type(t)) for value, t in zip(values, types, strict=True)]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["key"])
def test_serialized_row_equals_javas(vector: dict[str, Any]) -> None:
    types = [parse_type(t) for t in vector["types"]]
    values = values_of(vector, types)

    serialized = serialize_row(values, types)

    assert murmur(serialized[4:]) == vector["hash"]
    if "serialized" in vector:
        assert serialized.hex() == vector["serialized"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["types"]], ids=lambda v: v["key"])
def test_hash_and_buckets_equal_javas(vector: dict[str, Any]) -> None:
    types = [parse_type(t) for t in vector["types"]]
    columns = columns_of(values_of(vector, types), types)

    assert murmur_hash_columns(columns, types).tolist() == [vector["hash"]]
    for function, buckets in vector["buckets"].items():
        for count, bucket in buckets.items():
            assert assign_buckets(columns, types, int(count), function).tolist() == [bucket], (function, count)


def test_all_vectors_of_one_type_hash_alike_in_one_column() -> None:
    vectors = [v for v in VECTORS if v["types"] == ["STRING"]]
    column = pa.array([v["values"][0] for v in vectors] * 3).slice(2, 2 * len(vectors))

    hashes = murmur_hash_columns([column], [STRING]).tolist()

    assert hashes == ([v["hash"] for v in vectors] * 3)[2 : 2 + 2 * len(vectors)]


def test_mod_function_gives_the_floor_remainder() -> None:
    keys = pa.chunked_array([pa.array([-1, -4, 0]), pa.array([5])])

    assert assign_buckets([keys], [BIGINT], 4, "mod").tolist() == [3, 0, 0, 1]


def test_mod_function_takes_null_as_zero() -> None:
    keys = pa.array([7, None, -7], pa.int32())

    assert assign_buckets([keys], [parse_type("INT")], 4, "mod").tolist() == [3, 0, 1]


def test_mod_function_refuses_other_keys() -> None:
    with pytest.raises(ConfigError, match="exactly one bucket key"):
        assign_buckets([pa.array(["a"])], [STRING], 4, "mod")


def test_hive_function_refuses_timestamps() -> None:
    with pytest.raises(ConfigError, match="no hash"):
        assign_buckets([pa.array([1], pa.timestamp("us"))], [parse_type("TIMESTAMP(6)")], 4, "hive")


def test_unknown_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="use default, mod or hive"):
        assign_buckets([pa.array([1])], [BIGINT], 4, "modulo")


def test_no_rows_have_no_buckets() -> None:
    for function in ("default", "hive"):
        assert len(assign_buckets([pa.array([], pa.string())], [STRING], 4, function)) == 0
    assert len(key_hash64([pa.chunked_array([], pa.int64())], [BIGINT])) == 0


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.none() | st.text(max_size=40), st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1),
    st.integers(1, 100),
)
def test_columns_and_rows_hash_alike(rows: list[tuple[str | None, int | None]], buckets: int) -> None:
    types = [STRING, BIGINT]
    columns = [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.int64())]

    expected = [murmur(serialize_row(row, types)[4:]) for row in rows]

    assert murmur_hash_columns(columns, types).tolist() == expected
    assert assign_buckets(columns, types, buckets).tolist() == [abs(h) % buckets for h in expected]


@pytest.mark.slow
@given(st.lists(st.tuples(st.none() | st.text("ab", max_size=20), st.integers(0, 3)), min_size=1))
def test_equal_keys_and_only_they_have_equal_64_bit_hashes(rows: list[tuple[str | None, int]]) -> None:
    columns = [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.int64())]

    hashes = key_hash64(columns, [STRING, BIGINT]).tolist()

    assert len(set(hashes)) == len(set(rows))
    assert len(set(zip(hashes, rows, strict=True))) == len(set(rows))


def test_64_bit_hashes_of_a_column_do_not_depend_on_its_neighbours() -> None:
    short, long = ["a", "bb"], ["a", "a string of more than seven bytes", None, "bb"]

    first, second = (key_hash64([pa.array(values)], [STRING]) for values in (short, long))

    assert first.tolist() == [second[0], second[3]]


def test_64_bit_hashes_are_well_mixed() -> None:
    hashes = key_hash64([pa.array(np.arange(100_000))], [BIGINT])

    for shift in (0, 24, 48, 56):
        counts = np.bincount((hashes >> np.uint64(shift)).astype(np.int64) & 0xFF, minlength=256)
        assert counts.min() > 300
        assert counts.max() < 500


@pytest.mark.parametrize("root", sorted(TIMESTAMPS))
def test_null_and_zero_timestamps_hash_differently(root: Root) -> None:
    t = DataType(root, precision=6)

    hashes = murmur_hash_columns([pa.array([None, 0], arrow_type(t))], [t])

    assert hashes[0] != hashes[1]
