"""Random serialised bitmaps and sketches, in the plain form of BYTES values."""

from __future__ import annotations

import random

import datasketches
from pyroaring import BitMap

from paimon_table.merge.aggregate.roaring64 import parse_tree, tree_bytes


def bitmap32(rng: random.Random) -> str:
    """A few numbers, some of them next to each other, in two containers."""
    return _hex(BitMap(_numbers(rng)).serialize())


def bitmap64(rng: random.Random) -> str:
    return _hex(tree_bytes({upper: BitMap(_numbers(rng)) for upper in rng.sample((0, 1, 2**31), rng.randint(1, 2))}))


def ordered_bitmap64(plain: str) -> str:
    """The bitmap with its containers in the order of their keys; how they are numbered is free."""
    return _hex(tree_bytes(parse_tree(bytes.fromhex(plain.removeprefix("0x")))))


def hll_sketch(rng: random.Random) -> str:
    sketch = datasketches.hll_sketch(12)
    for number in _numbers(rng):
        sketch.update(number)
    return _hex(sketch.serialize_compact())


def theta_sketch(rng: random.Random) -> str:
    sketch = datasketches.update_theta_sketch(12)
    for number in _numbers(rng):
        sketch.update(number)
    return _hex(sketch.compact().serialize())


def _numbers(rng: random.Random) -> list[int]:
    start = rng.choice((0, 1, 65_530))
    return [start + i for i in range(rng.choice((1, 2, 20)))] + [
        rng.randrange(1 << 20) for _ in range(rng.randint(0, 3))
    ]


def _hex(data: bytes) -> str:
    return "0x" + bytes(data).hex()
