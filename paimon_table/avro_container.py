"""Avro object container files in memory, with the schema text under one's own control.

Implements the container of the Avro specification: header, then blocks that are compressed with the codec that the
header names. fastavro encodes and decodes the records; the container is written here so that the stored schema is
exactly the text that Java writes, and so that equal records give equal bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_RECORDS_PER_BLOCK = 2000
_ZSTD_LEVEL = 1
_LONG = fastavro.parse_schema("long")
_HEADER = fastavro.parse_schema({"type": "map", "values": "bytes"})


class MalformedContainer(Exception):
    """The bytes are no avro container, or a damaged one."""


def write_container(schema: Mapping[str, Any], parsed: Any, records: Iterable[Mapping[str, Any]], codec: str) -> bytes:
    """One container; ``parsed`` is fastavro's form of ``schema``; ``codec`` is ``zstandard`` or ``null``."""
    schema_text = json.dumps(schema, separators=(",", ":")).encode()
    sync = hashlib.md5(schema_text, usedforsecurity=False).digest()
    out = io.BytesIO()
    out.write(_MAGIC)
    fastavro.schemaless_writer(out, _HEADER, {"avro.codec": codec.encode(), "avro.schema": schema_text})
    out.write(sync)
    block = io.BytesIO()
    count = 0
    for record in records:
        fastavro.schemaless_writer(block, parsed, record)
        count += 1
        if count == _RECORDS_PER_BLOCK:
            _write_block(out, count, block.getvalue(), codec, sync)
            block, count = io.BytesIO(), 0
    if count:
        _write_block(out, count, block.getvalue(), codec, sync)
    return out.getvalue()


def _write_block(out: io.BytesIO, count: int, data: bytes, codec: str, sync: bytes) -> None:
    if codec == "zstandard":
        data = pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(data, asbytes=True)
    fastavro.schemaless_writer(out, _LONG, count)
    fastavro.schemaless_writer(out, _LONG, len(data))
    out.write(data)
    out.write(sync)


def read_container(data: bytes) -> list[Any]:
    """All records of a container with codec null, deflate or zstandard; MalformedContainer otherwise."""
    try:
        return _read(io.BytesIO(data))
    except (ValueError, EOFError, IndexError, KeyError, TypeError, OSError, zlib.error) as error:
        raise MalformedContainer(str(error) or repr(error)) from error


def _read(source: io.BytesIO) -> list[Any]:
    if source.read(len(_MAGIC)) != _MAGIC:
        raise MalformedContainer("it does not begin as an avro file")
    header: Any = fastavro.schemaless_reader(source, _HEADER, None)
    schema = _parsed(header["avro.schema"])
    decompress = _DECOMPRESS[header.get("avro.codec", b"null").decode()]
    sync = source.read(_SYNC_BYTES)
    records: list[Any] = []
    while source.tell() < len(source.getbuffer()):
        count: Any = fastavro.schemaless_reader(source, _LONG, None)
        length: Any = fastavro.schemaless_reader(source, _LONG, None)
        block = io.BytesIO(decompress(source.read(length)))
        records += [fastavro.schemaless_reader(block, schema, None) for _ in range(count)]
        if source.read(_SYNC_BYTES) != sync:
            raise MalformedContainer("a block does not end where its header says")
    return records


@lru_cache(maxsize=32)
def _parsed(schema_text: bytes) -> Any:
    return fastavro.parse_schema(_plain_logical_types(json.loads(schema_text)))


def _plain_logical_types(schema: Any) -> Any:
    """The schema without logical types: times stay the integers that are stored."""
    if isinstance(schema, list):
        return [_plain_logical_types(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _plain_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def _unzstd(data: bytes) -> bytes:
    unpacked: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return unpacked


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompress(data, wbits=-zlib.MAX_WBITS),
    "zstandard": _unzstd,
}
