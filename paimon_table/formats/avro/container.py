"""Avro object container files with exact control of the schema text.

Implements the container of the Avro specification: a header, then blocks compressed with the codec of the header.
fastavro encodes and decodes the records. This module writes the container itself, so that the stored schema is exactly
Java's text and equal records give equal bytes.

Reads detect damage as far as the format allows. Every reader verifies the checksum of a zstandard frame. Avro allows
any 16 bytes as the sync marker: here it is a hash of the header and the file name. The header key ``tidemark.file``
announces the hash. Containers of other writers lack this key, and reads skip the check.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, BinaryIO, NamedTuple, TypeVar

import fastavro
import pyarrow as pa

from paimon_table.formats.avro.codecs import DECOMPRESS, compress
from paimon_table.formats.avro.record_decoder import DecodeRecord, DecodeRows, Path, record_decoder, row_decoder
from paimon_table.known_values import once_for_each

T = TypeVar("T")
R = TypeVar("R", bound=NamedTuple)
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_SECOND_BRANCH = b"\x02"
_RECORDS_PER_BLOCK = 2000
_ZSTD_LEVEL = 1
_FILE_KEY = "tidemark.file"
_LONG = fastavro.parse_schema("long")
_HEADER = fastavro.parse_schema({"type": "map", "values": "bytes"})


class MalformedContainer(Exception):
    """The bytes are not an Avro container, or the container is damaged."""


# ---------------------------------------------------------------- writing


def write_container(
    schema: Mapping[str, Any], parsed: Any, records: Iterable[Mapping[str, Any]], codec: str, file_name: str = ""
) -> bytes:
    """The bytes of one container. ``parsed`` is fastavro's form of ``schema``; ``codec`` is one of ``DECOMPRESS``."""
    out = io.BytesIO()
    ContainerWriter(out, schema, codec, file_name=file_name).write(parsed, records)
    return out.getvalue()


class ContainerWriter:
    """Writes a container to a stream, block by block."""

    def __init__(
        self,
        out: BinaryIO | pa.NativeFile,
        schema: Any,
        codec: str,
        zstd_level: int = _ZSTD_LEVEL,
        file_name: str = "",
    ) -> None:
        """Readers accept the container only under ``file_name``; if it is empty, under any name."""
        self._out = out
        self._codec = codec
        self._zstd_level = zstd_level
        entries = {"avro.codec": codec.encode(), "avro.schema": _schema_text(schema), _FILE_KEY: file_name.encode()}
        self._sync = _sync_marker(entries)
        header = io.BytesIO()
        header.write(_MAGIC)
        fastavro.schemaless_writer(header, _HEADER, entries)
        header.write(self._sync)
        out.write(header.getvalue())

    def write(self, parsed: Any, records: Iterable[Mapping[str, Any]]) -> None:
        """Encode records with a schema that fastavro has parsed, and write them as blocks."""
        block = io.BytesIO()
        count = 0
        for record in records:
            fastavro.schemaless_writer(block, parsed, record)
            count += 1
            if count == _RECORDS_PER_BLOCK:
                self.write_block(count, block.getvalue())
                block, count = io.BytesIO(), 0
        if count:
            self.write_block(count, block.getvalue())

    def write_block(self, count: int, data: bytes) -> None:
        """Write encoded records as one block."""
        data = compress(data, self._codec, self._zstd_level)
        block = io.BytesIO()
        fastavro.schemaless_writer(block, _LONG, count)
        fastavro.schemaless_writer(block, _LONG, len(data))
        block.write(data)
        block.write(self._sync)
        self._out.write(block.getvalue())


# ---------------------------------------------------------------- reading


def read_container(data: bytes, file_name: str = "") -> list[Any]:
    """All records of a container. Raises MalformedContainer, also for codecs that are not in ``DECOMPRESS``."""
    reader = ContainerReader(io.BytesIO(data), file_name)
    decode = _decoder(reader.schema_text)
    if decode is None:
        return [record for block in reader.blocks() for record in reader.records(block)]
    records: list[Any] = []
    for block in reader.blocks():
        records += [record for record, _ in _sliced(decode, block)]
    return records


def read_slices(data: bytes, schema: Mapping[str, Any], file_name: str = "") -> list[tuple[Any, bytes]] | None:
    """As ``read_container``, each record with its encoded bytes; None if the container has a different schema."""
    reader = ContainerReader(io.BytesIO(data), file_name)
    decode = _decoder(reader.schema_text)
    if decode is None or reader.schema_text != _schema_text(schema):
        return None
    slices: list[tuple[Any, bytes]] = []
    for block in reader.blocks():
        slices += _sliced(decode, block)
    return slices


def read_rows(
    data: bytes, row: type[R], paths: Mapping[str, Path], optional: Collection[str], file_name: str = ""
) -> list[R]:
    """All records of a container as rows, whose fields are the values at the ``paths``; arrays become tuples.

    If a record lacks a path that ends in an ``optional`` name, the value is None. Raises MalformedContainer.
    """
    reader = ContainerReader(io.BytesIO(data), file_name)
    plain = _checked(lambda: _plain(reader.schema_text))
    places = tuple(paths[name] for name in row._fields)
    decode = _checked(lambda: row_decoder(plain, row, places, frozenset(optional)))
    rows: list[R] = []
    for block in reader.blocks():
        rows += _rows(decode, block) if decode else _rows_of(reader.records(block), row, places, optional)
    return rows


def _rows(decode: DecodeRows, block: Block) -> list[Any]:
    rows, end = _checked(lambda: decode(block.data, block.record_count))
    if end != len(block.data):
        raise MalformedContainer("a block has other bytes than its records")
    return rows


def _rows_of(records: Iterable[Any], row: type[R], places: Iterable[Path], optional: Collection[str]) -> list[R]:
    return _checked(lambda: [row(*(_value_at(record, place, optional) for place in places)) for record in records])


def _value_at(record: Any, place: Path, optional: Collection[str]) -> Any:
    for name in place:
        record = record.get(name) if name in optional else record[name]
    return tuple(record) if isinstance(record, list) else record


def _decoder(schema_text: bytes) -> DecodeRecord | None:
    return record_decoder(_checked(lambda: _plain(schema_text)))


def _sliced(decode: DecodeRecord, block: Block) -> list[tuple[Any, bytes]]:
    data, at = block.data, 0
    slices = []
    try:
        for _ in range(block.record_count):
            start = at
            record, at = decode(data, start)
            slices.append((record, data[start:at]))
    except _DAMAGES as error:
        raise MalformedContainer(str(error) or repr(error)) from error
    if at != len(data):
        raise MalformedContainer("a block has other bytes than its records")
    return slices


@dataclass(frozen=True, slots=True)
class Block:
    """Encoded records, after decompression."""

    record_count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Header:
    schema_text: bytes
    schema: Any
    """The schema of non-null records, as fastavro has parsed it."""
    is_nullable: bool
    """Whether records are the second branch of a union with null."""
    decompress: Callable[[bytes], bytes]
    sync: bytes


class ContainerReader:
    """An open container; it returns times and decimals as their stored integers and bytes.

    The constructor and the reads of blocks raise MalformedContainer.
    """

    def __init__(self, source: BinaryIO | pa.NativeFile, file_name: str = "") -> None:
        """``file_name`` is the name of the container; empty if it has none."""
        self._source = source
        self._file_name = file_name
        self._header: _Header = _checked(self._read_header)

    @property
    def schema_text(self) -> bytes:
        """The schema of the file as JSON text."""
        return self._header.schema_text

    @property
    def schema(self) -> Any:
        """The parsed schema of the file."""
        return json.loads(self.schema_text)

    def blocks(self) -> Iterator[Block]:
        while (block := _checked(self._read_block)) is not None:
            yield block

    def records(self, block: Block) -> list[Any]:
        """The records of a block as Python values."""
        return list(_checked(lambda: self._decoded(block)))

    def _decoded(self, block: Block) -> list[Any]:
        data = io.BytesIO(block.data)
        records = [_read_record(data, self._header) for _ in range(block.record_count)]
        if data.tell() != len(block.data):
            raise MalformedContainer("a block has more bytes than its records")
        return records

    def _read_header(self) -> _Header:
        if self._source.read(len(_MAGIC)) != _MAGIC:
            raise MalformedContainer("it does not begin like an Avro file")
        header: Any = fastavro.schemaless_reader(self._source, _HEADER, None)
        name = header.get(_FILE_KEY, b"").decode()
        if name and self._file_name and name != self._file_name:
            raise MalformedContainer(f"it is the file {name} under another name")
        decompress = DECOMPRESS[header.get("avro.codec", b"null").decode()]
        schema = _parsed(header["avro.schema"])
        is_nullable = isinstance(schema, list) and schema[0] == "null"
        sync = self._source.read(_SYNC_BYTES)
        if _FILE_KEY in header and sync != _sync_marker(header):
            raise MalformedContainer("the checksum of its header is wrong")
        return _Header(header["avro.schema"], schema[1] if is_nullable else schema, is_nullable, decompress, sync)

    def _read_block(self) -> Block | None:
        first = self._source.read(1)
        if not first:
            return None
        header = self._header
        count = _read_long(self._source, first)
        length = _read_long(self._source, self._source.read(1))
        if count < 0 or length < 0:
            raise MalformedContainer("a block has a negative size")
        data = self._source.read(length)
        if self._source.read(_SYNC_BYTES) != header.sync:
            raise MalformedContainer("a block does not end where its header says")
        return Block(count, header.decompress(data))


@partial(once_for_each, most=64)
def _schema_text(schema: Any) -> bytes:
    return json.dumps(schema, separators=(",", ":")).encode()


def _sync_marker(entries: Mapping[str, bytes]) -> bytes:
    named = b"".join(key.encode() + b"\0" + entries[key] + b"\0" for key in sorted(entries))
    return hashlib.md5(named, usedforsecurity=False).digest()


def _read_record(block: io.BytesIO, header: _Header) -> Any:
    if header.is_nullable and block.read(1) != _SECOND_BRANCH:
        raise MalformedContainer("a record is null")
    return fastavro.schemaless_reader(block, header.schema, None)


_DAMAGES = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,  # for a size far beyond the end of the file
    SystemError,  # from pyarrow's streams, for negative sizes
    OSError,
    zlib.error,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
)
"""The errors that decoding raises for damaged bytes."""


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except _DAMAGES as error:
        raise MalformedContainer(str(error) or repr(error)) from error


def _read_long(source: BinaryIO | pa.NativeFile, first: bytes) -> int:
    """A variable-length zigzag number; the caller has read its ``first`` byte."""
    data = first
    while data[-1] & 0x80:
        data += source.read(1) or b"\0"
    number: Any = fastavro.schemaless_reader(io.BytesIO(data), _LONG, None)
    return int(number)


@lru_cache(maxsize=32)
def _parsed(schema_text: bytes) -> Any:
    return fastavro.parse_schema(without_logical_types(json.loads(schema_text)))


@lru_cache(maxsize=32)
def _plain(schema_text: bytes) -> str:
    return json.dumps(without_logical_types(json.loads(schema_text)))


def without_logical_types(schema: Any) -> Any:
    """The schema without logical types, so that times stay their stored integers."""
    if isinstance(schema, list):
        return [without_logical_types(item) for item in schema]
    if isinstance(schema, dict):
        return {key: without_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    return schema
