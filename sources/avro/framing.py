"""Which schema wrote each value of a batch, and where its Avro begins.

Headers come first, for the first byte of bare Avro may be 0 by chance:

    __value_schema_id             Confluent: byte 1 and a GUID of 16 bytes, or byte 0 and an id of 4; of Protocol
                                  Buffers the indexes of the message behind it
    apicurio.value.contentId      Apicurio: an id of 8 bytes, as of ``globalId``
    none                          0, id of 4 bytes, Avro (Confluent); 0, id of 8 bytes, Avro (Apicurio);
                                  1, GUID of 16 bytes, Avro

Ids of schemas begin at 1, so four zero bytes behind the first one show an id of 8 bytes. Message keys have the same
with ``key`` in the names of headers. Subjects are never asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.avro.record_bytes import Places


class RefKind(StrEnum):
    """The kinds of names that a schema has in its registry."""

    ID = "id"
    CONTENT_ID = "contentId"
    GLOBAL_ID = "globalId"
    GUID = "guid"


@dataclass(frozen=True, slots=True)
class SchemaRef:
    """The name of a schema in a registry: a number, or a GUID in its text form."""

    kind: RefKind
    value: str

    def __str__(self) -> str:
        return f"schema {self.value}" if self.kind is RefKind.ID else f"schema with {self.kind} {self.value}"


NULL, UNFRAMED, BAD_HEADER = -1, -2, -3
"""Codes of absent values, of values that name no schema, and of values with an unreadable header."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Per record a code, which is an index of ``refs`` or negative, and the number of bytes before the Avro.

    ``tails`` are the bytes after each of ``refs`` in a header: for Protocol Buffers the indexes of a message. None if
    bytes in front of the value name the schema.
    """

    refs: tuple[SchemaRef, ...]
    tails: tuple[bytes | None, ...]
    codes: npt.NDArray[np.int64]
    skipped: Places


@dataclass(frozen=True, slots=True)
class _HeaderNames:
    confluent: str
    content_id: str
    global_id: str
    encoding: str

    @classmethod
    def of(cls, side: str) -> _HeaderNames:
        apicurio = f"apicurio.{side}."
        return cls(f"__{side}_schema_id", f"{apicurio}contentId", f"{apicurio}globalId", f"{apicurio}encoding")


class Framing:
    """The frames of one side (``key`` or ``value``) of a batch of records.

    ``has_tails``: more bytes may follow the name of a schema in Confluent's header.
    """

    def __init__(self, batch: pa.RecordBatch, side: str, *, has_tails: bool = False) -> None:
        self._batch = batch
        self._side = side
        self._has_tails = has_tails
        self._refs: dict[tuple[SchemaRef, bytes | None], int] = {}

    @cached_property
    def frames(self) -> Frames:
        data = self._batch.column(self._side)
        data = data if pa.types.is_binary(data.type) else data.cast(pa.binary())
        codes = np.full(len(data), UNFRAMED, np.int64)
        skipped = np.zeros(len(data), np.int64)
        self._read_prefixes(data, codes, skipped)
        self._read_headers(codes, skipped)
        if data.null_count:
            codes[np.asarray(data.is_null())] = NULL
        return Frames(tuple(ref for ref, _ in self._refs), tuple(tail for _, tail in self._refs), codes, skipped)

    def _code(self, kind: RefKind, value: str, tail: bytes | None = None) -> int:
        return self._refs.setdefault((SchemaRef(kind, value), tail), len(self._refs))

    # ------------------------------------------------------------ bytes in front

    def _read_prefixes(self, data: pa.Array, codes: npt.NDArray[np.int64], skipped: Places) -> None:
        lengths = np.asarray(pc.fill_null(pc.binary_length(data), 0))
        for first, size, read in ((b"\x00", 5, _id_of), (b"\x01", 17, _guid_of)):
            found = np.flatnonzero(np.asarray(pc.fill_null(pc.starts_with(data, first), False)) & (lengths >= size))
            if len(found):
                self._take_distinct(data, found, size, read, codes, skipped)

    def _take_distinct(
        self,
        data: pa.Array,
        found: npt.NDArray[np.intp],
        size: int,
        read: Callable[[bytes], tuple[RefKind, str] | None],
        codes: npt.NDArray[np.int64],
        skipped: Places,
    ) -> None:
        """Read each distinct prefix of a size once."""
        prefixes = pc.binary_slice(data.take(pa.array(found)), 0, size).dictionary_encode()
        of_prefix = np.asarray(prefixes.indices)
        ids = [read(prefix) for prefix in prefixes.dictionary.to_pylist()]
        known = np.array([UNFRAMED if one is None else self._code(*one) for one in ids], np.int64)
        codes[found] = known[of_prefix]
        skipped[found] = np.where(codes[found] >= 0, size, 0)
        unread = found[codes[found] < 0]
        if size == 5 and len(unread):
            longer = unread[np.asarray(pc.binary_length(data.take(pa.array(unread)))) >= 9]
            if len(longer):
                self._take_distinct(data, longer, 9, _id_of, codes, skipped)

    # ------------------------------------------------------------ headers

    def _read_headers(self, codes: npt.NDArray[np.int64], skipped: Places) -> None:
        if "headers" not in self._batch.schema.names:
            return
        headers = self._batch.column("headers")
        flat = headers.flatten()
        if not len(flat):
            return
        names = _HeaderNames.of(self._side)
        # If a record has several of these headers, the last one wins.
        readers: Mapping[str, Callable[[bytes | None], _InHeader | None]] = {
            names.global_id: lambda value: _long_of(RefKind.GLOBAL_ID, value),
            names.content_id: lambda value: _long_of(RefKind.CONTENT_ID, value),
            names.confluent: lambda value: _confluent_of(value, has_tail=self._has_tails),
        }
        keys, values = pc.struct_field(flat, "key"), pc.struct_field(flat, "value")
        if not pc.any(pc.is_in(keys, value_set=pa.array([*readers, names.encoding]))).as_py():
            return
        parents = np.asarray(pc.list_parent_indices(headers))
        for name, read in readers.items():
            self._take_headers(keys, values, parents, name, read, codes, skipped)
        is_json = pc.and_(pc.equal(keys, names.encoding), pc.equal(pc.fill_null(values, b""), b"JSON"))
        codes[parents[np.asarray(pc.fill_null(is_json, False))]] = BAD_HEADER

    def _take_headers(
        self,
        keys: pa.Array,
        values: pa.Array,
        parents: npt.NDArray[np.int64],
        name: str,
        read: Callable[[bytes | None], _InHeader | None],
        codes: npt.NDArray[np.int64],
        skipped: Places,
    ) -> None:
        mine = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(keys, name), False)))
        if not len(mine):
            return
        distinct = values.take(pa.array(mine)).fill_null(b"").dictionary_encode()
        ids = [read(value) for value in distinct.dictionary.to_pylist()]
        known = np.array([BAD_HEADER if one is None else self._code(*one) for one in ids], np.int64)
        codes[parents[mine]] = known[np.asarray(distinct.indices)]
        skipped[parents[mine]] = 0


def _id_of(prefix: bytes) -> tuple[RefKind, str] | None:
    number = int.from_bytes(prefix[1:], "big")
    if not 0 < number < 1 << 63:
        return None
    return (RefKind.ID if len(prefix) == 5 else RefKind.GLOBAL_ID), str(number)


def _guid_of(prefix: bytes) -> tuple[RefKind, str] | None:
    return RefKind.GUID, str(uuid.UUID(bytes=prefix[1:17]))


_InHeader: TypeAlias = tuple[RefKind, str, bytes]
"""The name of a schema, and the bytes after it."""


def _long_of(kind: RefKind, value: bytes | None) -> _InHeader | None:
    number = int.from_bytes(value or b"", "big", signed=True)
    return (kind, str(number), b"") if value is not None and len(value) == 8 and number > 0 else None


def _confluent_of(value: bytes | None, *, has_tail: bool) -> _InHeader | None:
    size = {0: 5, 1: 17}.get(value[0]) if value else None
    if value is None or size is None or len(value) < size or (len(value) > size and not has_tail):
        return None
    found = _id_of(value[:size]) if size == 5 else _guid_of(value[:size])
    return None if found is None else (*found, value[size:])
