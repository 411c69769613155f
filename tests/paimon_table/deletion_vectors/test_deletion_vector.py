"""Deletion vectors: their bytes in both versions and what they say about rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.deletion_vectors.deletion_vector import decode_vector, encode_vector
from paimon_table.errors import CorruptFile
from tests.support.vectors import JAVA_V1, JAVA_V2, vector


def test_bytes_are_those_of_java() -> None:
    assert encode_vector(vector(1, 2), bitmap64=False).data == JAVA_V1
    assert encode_vector(vector(1, 2), bitmap64=False).range_length == 24
    assert encode_vector(vector(1, 2), bitmap64=True).data == JAVA_V2
    assert encode_vector(vector(1, 2), bitmap64=True).range_length == 44


@pytest.mark.parametrize(("data", "length"), [(JAVA_V1, 24), (JAVA_V2, 44)])
def test_vectors_of_java_are_read_at_their_offset(data: bytes, length: int) -> None:
    assert decode_vector(b"\x01abc" + data + b"next", 4, length, "f").positions.tolist() == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("bitmap64", [False, True])
@given(positions=st.sets(st.integers(0, 200_000), max_size=300), run=st.integers(0, 70_000))
def test_any_vector_survives_its_bytes(bitmap64: bool, positions: set[int], run: int) -> None:
    written = vector(*positions, *range(run))
    encoded = encode_vector(written, bitmap64)
    read = decode_vector(encoded.data, 0, encoded.range_length, "f")
    assert read.positions.tolist() == sorted({*positions, *range(run)})


def test_positions_beyond_32_bits_need_the_second_version() -> None:
    far = vector(3, 5 << 32)
    encoded = encode_vector(far, bitmap64=True)
    assert decode_vector(encoded.data, 0, encoded.range_length, "f").positions.tolist() == [3, 5 << 32]


@pytest.mark.parametrize(
    ("data", "length", "reason"),
    [
        (JAVA_V1[:-2], 24, "ends outside"),
        (b"", 24, "ends outside"),
        (JAVA_V1, 32, "its length is 24"),
        (JAVA_V2, 36, "its length is 44"),
        (JAVA_V1[:4] + b"\0\0\0\0" + JAVA_V1[8:], 24, "magic number 00000000"),
        (JAVA_V1[:-1] + b"\0", 24, "checksum"),
        (JAVA_V2[:20] + b"\xff" + JAVA_V2[21:], 44, "checksum"),
    ],
)
def test_damaged_vectors_are_refused(data: bytes, length: int, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        decode_vector(data, 0, length, "index-1")


def test_an_unreadable_bitmap_is_refused() -> None:
    import struct
    import zlib

    body = JAVA_V1[4:8] + b"no bitmap at all"
    data = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(CorruptFile, match="bitmap is unreadable"):
        decode_vector(data, 0, len(body), "index-1")


@pytest.mark.slow
@given(positions=st.sets(st.integers(0, 60)), start=st.integers(0, 40), count=st.integers(0, 40))
def test_keep_marks_the_live_rows_of_a_range(positions: set[int], start: int, count: int) -> None:
    kept = vector(*positions).keep(start, count)
    expected = [position not in positions for position in range(start, start + count)]
    assert (kept is None) == all(expected)
    assert kept is None or kept.tolist() == expected


@pytest.mark.slow
@given(positions=st.sets(st.integers(0, 60)), asked=st.lists(st.integers(0, 60)))
def test_contains_answers_for_positions_in_any_order(positions: set[int], asked: list[int]) -> None:
    found = vector(*positions).contains(np.array(asked, np.int64))
    assert found.tolist() == [position in positions for position in asked]


@given(first=st.lists(st.integers(0, 60)), second=st.lists(st.integers(0, 60)))
def test_deleting_more_keeps_each_position_once_in_order(first: set[int], second: set[int]) -> None:
    both = vector(*first).with_deleted(np.array(second, np.int64))
    assert both.positions.tolist() == sorted({*first, *second})
    assert both.cardinality == len({*first, *second})
