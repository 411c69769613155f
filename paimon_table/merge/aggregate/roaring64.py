"""The serialised form of Java's ``Roaring64Bitmap``: a radix tree over the upper 48 bits, then containers.

It differs from the portable 64-bit form. Containers have the lower 16 bits of values, in the bodies of the portable
32-bit form. So bitmaps are converted through that form, one 32-bit bitmap per value of the upper 32 bits. All numbers
except the key of a leaf are little-endian.

    tag (0 = empty, 1 = not), number of keys (8 bytes), nodes depth first, containers
    node      type (1), children (2), prefix length (1), prefix, body by type, then the children in key order
    containers: count of arrays (4); per array a mark -2 (1), its length (4) and its containers, see ``_containers``;
               then count of containers (8), number of the last array (4) and of the last container in it (4)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from pyroaring import BitMap

from paimon_table.errors import CorruptFile

_NODE4, _NODE16, _NODE48, _NODE256, _LEAF = range(5)
_BODY_BYTES = {_NODE4: 4, _NODE16: 16, _NODE48: 256, _NODE256: 32}
_KEY_BYTES = 6
_RUN, _BITMAP, _ARRAY = range(3)
_BITMAP_BYTES = 8192
_LARGEST_ARRAY = 4096
_NOT_TRIMMED = -2
_HAS_RUNS, _NO_RUNS = 12347, 12346
_OFFSETS_FROM = 4
"""The least number of containers with which a portable bitmap with runs has offsets."""


_NODE, _NUMBER, _COUNT = struct.Struct("<bhb"), struct.Struct("<q"), struct.Struct("<I")
_ARRAY_HEAD, _CONTAINER_HEAD, _TRAILER = struct.Struct("<bi"), struct.Struct("<bi"), struct.Struct("<qii")
_KEY = struct.Struct("<HH")
_NODES_AT = 9

_Container = tuple[int, int, int, bytes]
"""Upper 48 bits of its values, kind, cardinality, body."""


def parse_tree(data: bytes) -> dict[int, BitMap]:
    """The bitmaps by the upper 32 bits of their values; raises CorruptFile if the bytes do not have this form."""
    try:
        return _parse(data)
    except (struct.error, IndexError, KeyError) as error:
        raise CorruptFile(f"not a 64-bit Roaring bitmap in Java's tree form: {error}") from error


def tree_bytes(bitmaps: Mapping[int, BitMap]) -> bytes:
    """The inverse of ``parse_tree``; containers are numbered in key order."""
    containers = [c for upper in sorted(bitmaps) for c in _split(upper, bitmaps[upper].serialize())]
    if not containers:
        return b"\0"
    keys = [key.to_bytes(_KEY_BYTES, "big") for key, _, _, _ in containers]
    out = [b"\1", _NUMBER.pack(len(keys)), *_nodes(keys, 0, len(keys), 0)]
    out += [_COUNT.pack(1), _ARRAY_HEAD.pack(_NOT_TRIMMED, len(containers))]
    for _, kind, cardinality, body in containers:
        out += [b"\1", _CONTAINER_HEAD.pack(kind, cardinality), body]
    out.append(_TRAILER.pack(len(containers), 0, len(containers) - 1))
    return b"".join(out)


# ---------------------------------------------------------------- reading


def _parse(data: bytes) -> dict[int, BitMap]:
    if data[0] == 0:
        return {}
    keys, at = _leaves(data)
    containers, at = _containers(data, at, keys)
    if at + _TRAILER.size != len(data):
        raise CorruptFile(f"not a 64-bit Roaring bitmap: it should have {at + _TRAILER.size} bytes, not {len(data)}")
    containers.sort(key=lambda c: c[0])
    if containers[0][0] >> 16 == containers[-1][0] >> 16:
        return {containers[0][0] >> 16: BitMap.deserialize(_portable(containers))}
    parts = groupby(containers, lambda c: c[0] >> 16)
    return {upper: BitMap.deserialize(_portable(list(part))) for upper, part in parts}


def _leaves(data: bytes) -> tuple[dict[int, int], int]:
    """The upper 48 bits by container number, and the end of the nodes."""
    keys = {}
    at, pending = _NODES_AT, 1
    while pending:
        kind, children, prefix_bytes = _NODE.unpack_from(data, at)
        at += _NODE.size + prefix_bytes
        if kind == _LEAF:
            keys[_NUMBER.unpack_from(data, at + _KEY_BYTES)[0]] = int.from_bytes(data[at : at + _KEY_BYTES], "big")
            at += _KEY_BYTES + _NUMBER.size
            pending -= 1
        else:
            at += _BODY_BYTES[kind]
            pending += children - 1
    return keys, at


def _containers(data: bytes, at: int, keys: Mapping[int, int]) -> tuple[list[_Container], int]:
    """A container is a mark (0 = none, 1), its kind, its cardinality (4) and its body."""
    containers = []
    (arrays,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    for first in range(arrays):
        _, length = _ARRAY_HEAD.unpack_from(data, at)
        at += _ARRAY_HEAD.size
        for second in range(length):
            at += 1
            if data[at - 1] == 0:
                continue
            kind, cardinality = _CONTAINER_HEAD.unpack_from(data, at)
            at += _CONTAINER_HEAD.size
            body = _body(data, at, kind, cardinality)
            at += len(body)
            containers.append((keys[first << 32 | second], kind, cardinality, body))
    return containers, at


def _body(data: bytes, at: int, kind: int, cardinality: int) -> bytes:
    if kind == _RUN:
        size = 2 + 4 * int.from_bytes(data[at : at + 2], "little")
    else:
        size = _BITMAP_BYTES if kind == _BITMAP else 2 * cardinality
    body = data[at : at + size]
    if len(body) < size:
        raise CorruptFile(f"not a 64-bit Roaring bitmap: {size} bytes wanted at {at}, {len(body)} are left")
    return body


def _portable(containers: Sequence[_Container]) -> bytes:
    """The portable 32-bit form of containers with the same upper 32 bits."""
    count = len(containers)
    runs = sum(1 << i for i, (_, kind, _, _) in enumerate(containers) if kind == _RUN)
    if runs:
        header = struct.pack("<I", _HAS_RUNS | (count - 1) << 16) + runs.to_bytes((count + 7) // 8, "little")
    else:
        header = struct.pack("<II", _NO_RUNS, count)
    parts = [header]
    for key, kind, cardinality, body in containers:
        parts.append(_KEY.pack(key & 0xFFFF, (_run_cardinality(body) if kind == _RUN else cardinality) - 1))
    if not runs or count >= _OFFSETS_FROM:
        at = len(header) + 8 * count
        for _, _, _, body in containers:
            parts.append(_COUNT.pack(at))
            at += len(body)
    parts += [body for _, _, _, body in containers]
    return b"".join(parts)


def _run_cardinality(body: bytes) -> int:
    lengths = struct.unpack(f"<{(len(body) - 2) // 2}H", body[2:])[1::2]
    return int(sum(lengths)) + len(lengths)


# ---------------------------------------------------------------- writing


def _split(upper: int, portable: bytes) -> Iterator[_Container]:
    """The containers of a bitmap in the portable 32-bit form."""
    (cookie,) = _COUNT.unpack_from(portable, 0)
    at = _COUNT.size
    runs = 0
    if cookie & 0xFFFF == _HAS_RUNS:
        count = (cookie >> 16) + 1
        flags = (count + 7) // 8
        runs = int.from_bytes(portable[at : at + flags], "little")
        at += flags
    else:
        (count,) = _COUNT.unpack_from(portable, at)
        at += _COUNT.size
    has_offsets = not runs or count >= _OFFSETS_FROM
    described = at
    at += (8 if has_offsets else 4) * count
    for i in range(count):
        key, cardinality = _KEY.unpack_from(portable, described + 4 * i)
        kind = _RUN if runs >> i & 1 else _ARRAY if cardinality < _LARGEST_ARRAY else _BITMAP
        body = _body(portable, at, kind, cardinality + 1)
        at += len(body)
        yield (upper << 16 | key, kind, cardinality + 1, body)


def _nodes(keys: Sequence[bytes], start: int, stop: int, depth: int) -> Iterator[bytes]:
    """The node over ``keys[start:stop]``, which are sorted and share their first ``depth`` bytes, and all below it."""
    if stop - start == 1:
        yield _NODE.pack(_LEAF, 0, 0) + keys[start] + _NUMBER.pack(start)
        return
    first, last = keys[start], keys[stop - 1]
    shared = next(i for i in range(depth, _KEY_BYTES) if first[i] != last[i])
    bounds = [start, *(i for i in range(start + 1, stop) if keys[i][shared] != keys[i - 1][shared]), stop]
    branches = [keys[i][shared] for i in bounds[:-1]]
    kind = next(k for k, most in ((_NODE4, 4), (_NODE16, 16), (_NODE48, 48), (_NODE256, 256)) if len(branches) <= most)
    yield _NODE.pack(kind, len(branches), shared - depth) + first[depth:shared] + _branches(kind, branches)
    for low, high in pairwise(bounds):
        yield from _nodes(keys, low, high, shared + 1)


def _branches(kind: int, branches: Sequence[int]) -> bytes:
    """The body of a node: the key bytes of its children. Words are packed from their upper end."""
    if kind == _NODE256:
        return sum(1 << b for b in branches).to_bytes(32, "little")
    if kind == _NODE48:
        body = bytearray(b"\xff" * 256)
        for child, branch in enumerate(branches):
            body[branch] = child
    else:
        body = bytearray(bytes(branches).ljust(_BODY_BYTES[kind], b"\0"))
    word = 4 if kind == _NODE4 else 8
    return b"".join(bytes(reversed(body[i : i + word])) for i in range(0, len(body), word))
