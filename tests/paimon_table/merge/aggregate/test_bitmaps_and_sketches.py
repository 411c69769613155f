"""rbm32, rbm64, hll_sketch, theta_sketch. The bytes of rbm64 and theta_sketch were written by Java."""

from __future__ import annotations

import random

import pytest
from pyroaring import BitMap

from paimon_table.errors import ConfigError, CorruptFile, MalformedRecord
from paimon_table.merge.aggregate import sketches
from paimon_table.merge.aggregate.roaring64 import parse_tree, tree_bytes
from tests.support.aggregate_functions import function, result

_HEAD = "0101000000000000000400000000000000000000000000000000000100"
ONE = bytes.fromhex(_HEAD + "0000fe01000000010201000000010001000000000000000000000000000000")
TWO = bytes.fromhex(_HEAD + "0000fe01000000010201000000020001000000000000000000000000000000")
BOTH = bytes.fromhex(_HEAD + "0000fe010000000102020000000100020001000000000000000000000000000000")

THETA_1 = bytes.fromhex("01030300003acc9315f97dcbbd86a105")
THETA_2 = bytes.fromhex("01030300003acc93c397fc1281709d1e")
THETA_BOTH = bytes.fromhex("02030300001acc93020000000000803f15f97dcbbd86a105c397fc1281709d1e")


def test_rbm64_writes_the_bytes_of_java() -> None:
    assert result("rbm64", "BYTES", [None, ONE, TWO]) == BOTH
    assert result("rbm64", "BYTES", [ONE, ONE]) == ONE
    assert result("rbm64", "BYTES", [ONE]) == ONE
    assert parse_tree(BOTH) == {0: BitMap([1, 2])}


@pytest.mark.parametrize("branches", [1, 4, 5, 16, 17, 48, 49, 256])
def test_trees_of_any_width_come_back(branches: int) -> None:
    bitmaps = {0: BitMap((b << 24) + 7 for b in range(branches)), 5: BitMap((b << 16) + 9 for b in range(branches))}
    bitmaps |= {b << 8: BitMap([b]) for b in range(1, branches)}
    assert parse_tree(tree_bytes(bitmaps)) == bitmaps


def test_containers_of_every_kind_come_back() -> None:
    rng = random.Random(1)
    bitmaps = {
        rng.getrandbits(32): BitMap(values)
        for values in (range(100, 20_000), range(0, 400_000, 2), [x << 16 for x in range(300)], [2**32 - 1])
    }
    bitmaps[3] = BitMap(range(10)) | BitMap(range(70_000, 200_000, 3)) | BitMap([2**31])
    for bitmap in bitmaps.values():
        bitmap.run_optimize()
    assert parse_tree(tree_bytes(bitmaps)) == bitmaps


def test_the_empty_bitmap_is_one_byte() -> None:
    assert tree_bytes({}) == b"\0"
    assert result("rbm64", "BYTES", [b"\0", ONE]) == ONE


@pytest.mark.parametrize("broken", [b"", ONE[:-4], ONE[:9] + b"\x09" + ONE[10:]])
def test_broken_trees_are_refused(broken: bytes) -> None:
    with pytest.raises(CorruptFile, match="Roaring"):
        parse_tree(broken)
    with pytest.raises(MalformedRecord, match=r"column 'v'.*64-bit Roaring bitmap"):
        result("rbm64", "BYTES", [ONE, broken])


def test_rbm32_is_the_portable_form() -> None:
    merged = result("rbm32", "BYTES", [BitMap([1, 5]).serialize(), None, BitMap(range(5, 3000)).serialize()])
    expected = BitMap([1, *range(5, 3000)])
    expected.run_optimize()
    assert merged == expected.serialize()
    with pytest.raises(MalformedRecord, match="32-bit Roaring bitmap"):
        result("rbm32", "BYTES", [merged, b"nonsense"])


def test_theta_sketch_writes_the_bytes_of_java() -> None:
    pytest.importorskip("datasketches")
    assert result("theta_sketch", "BYTES", [THETA_2, None, THETA_1]) == THETA_BOTH
    assert result("theta_sketch", "BYTES", [THETA_1, THETA_1]) == THETA_1


def test_hll_sketch_estimates_the_union() -> None:
    library = pytest.importorskip("datasketches")

    def sketch(values: range) -> bytes:
        made = library.hll_sketch(12)
        for value in values:
            made.update(value)
        return bytes(made.serialize_compact())

    merged = result("hll_sketch", "BYTES", [sketch(range(5)), sketch(range(3, 2000)), sketch(range(1000, 4000))])
    assert library.hll_sketch.deserialize(merged).get_estimate() == pytest.approx(4000, rel=0.05)
    with pytest.raises(MalformedRecord, match="hll_sketch"):
        result("hll_sketch", "BYTES", [merged, b"\0"])


def test_sketches_without_the_extra_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "datasketches", None)
    with pytest.raises(ConfigError, match=r"'theta_sketch' needs .* install tidemark-cdc\[sketches\]"):
        function("theta_sketch", "BYTES")


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "theta_sketch", "hll_sketch"])
def test_unions_cannot_be_retracted(name: str) -> None:
    if "sketch" in name:
        pytest.importorskip("datasketches")
    with pytest.raises(MalformedRecord, match=f"{name}.*retraction"):
        result(name, "BYTES", [None, None], retracts=[1])
