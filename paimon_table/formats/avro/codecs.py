"""The compression of blocks in Avro containers.

Implements the codecs of the Avro specification that Paimon's writers use. Checksums show damage where a codec has them:
after snappy's data, and in frames of zstandard, for which this module writes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import xxhash

_ZSTD_DESCRIPTOR_BYTE = 4
_ZSTD_HAS_CHECKSUM = 0x04
_SNAPPY_CHECKSUM_BYTES = 4


def compress(data: bytes, codec: str, zstd_level: int) -> bytes:
    """The bytes of a block, compressed with the codec of this name; ``null`` does not compress."""
    match codec:
        case "zstandard":
            packed: bytes = pa.Codec("zstd", compression_level=zstd_level).compress(data, asbytes=True)
            return _with_checksum(packed, data)
        case "snappy":
            snappy: bytes = pa.Codec("snappy").compress(data, asbytes=True)
            return snappy + zlib.crc32(data).to_bytes(_SNAPPY_CHECKSUM_BYTES, "big")
        case "deflate":
            deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            return deflate.compress(data) + deflate.flush()
        case _:
            return data


def _with_checksum(frame: bytes, content: bytes) -> bytes:
    """A zstandard frame with the checksum of its content, which Arrow leaves out."""
    descriptor = frame[_ZSTD_DESCRIPTOR_BYTE] | _ZSTD_HAS_CHECKSUM
    checksum = (xxhash.xxh64_intdigest(content) & 0xFFFF_FFFF).to_bytes(4, "little")
    at = _ZSTD_DESCRIPTOR_BYTE
    return b"".join((frame[:at], bytes([descriptor]), frame[at + 1 :], checksum))


def _unzstd(data: bytes) -> bytes:
    unpacked: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return unpacked


def _unsnappy(data: bytes) -> bytes:
    packed, checksum = data[:-_SNAPPY_CHECKSUM_BYTES], data[-_SNAPPY_CHECKSUM_BYTES:]
    unpacked: bytes = pa.Codec("snappy").decompress(packed, _snappy_size(packed), asbytes=True)
    if zlib.crc32(unpacked).to_bytes(_SNAPPY_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("the checksum of a block is wrong")
    return unpacked


def _snappy_size(packed: bytes) -> int:
    """The unpacked size at the start of snappy data: seven bits a byte, the lowest first."""
    size = 0
    for position, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            break
    return size


DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompress(data, wbits=-zlib.MAX_WBITS),
    "snappy": _unsnappy,
    "zstandard": _unzstd,
}
"""Decompression by the name of the codec in a container's header. Raises ValueError, OSError or zlib.error for damaged
blocks."""
