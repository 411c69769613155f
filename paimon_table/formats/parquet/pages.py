"""Verifies the checksums of consecutive pages of a Parquet file.

A page is a header, which is a Thrift struct, and its data. The header has the size and the CRC-32 of the data.
"""

from __future__ import annotations

import zlib

from paimon_table.formats.file_format import DamagedFile
from paimon_table.formats.parquet.thrift_compact import BrokenThrift, Struct, read_struct_from, unzigzag

_STORED_BYTES, _CHECKSUM = 3, 4
"""Fields of PageHeader."""

_USUAL_HEADER = 1 << 8
_LONGEST_HEADER = 1 << 20
"""Headers may hold statistics; anything longer is not a header."""


class PageChecks:
    """Checks pages whose bytes arrive in pieces of any size."""

    def __init__(self) -> None:
        self._waiting = b""
        """The first bytes of an incomplete header."""
        self._left = 0
        """The number of missing bytes of the page."""
        self._checksum = 0
        self._wanted = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes; raises DamagedFile if a page contradicts its checksum or has none."""
        view = memoryview(data)
        while view:
            if not self._left:
                view = self._begin(view)
            part = view[: self._left]
            self._checksum = zlib.crc32(part, self._checksum)
            self._left -= len(part)
            view = view[len(part) :]
            if not self._left and not self._waiting and self._checksum != self._wanted:
                raise DamagedFile("the checksum of a page is wrong")

    def close(self) -> None:
        """End the input; raises DamagedFile if the last page is incomplete."""
        if self._left or self._waiting:
            raise DamagedFile("a row group ends inside of a page")

    def _begin(self, view: memoryview) -> memoryview:
        """Read the header of the next page; returns the bytes after it, or none if the header is incomplete."""
        known = len(self._waiting)
        for most in (_USUAL_HEADER, _LONGEST_HEADER):
            data = self._waiting + bytes(view[:most])
            try:
                header, length = read_struct_from(data)
            except BrokenThrift:
                continue
            self._take(header)
            return view[length - known :]
        if len(data) >= _LONGEST_HEADER:
            raise DamagedFile("the header of a page is damaged")
        self._waiting = data
        return view[:0]

    def _take(self, header: Struct) -> None:
        try:
            self._left, checksum = unzigzag(header[_STORED_BYTES].data), unzigzag(header[_CHECKSUM].data)
        except (KeyError, TypeError) as error:
            raise DamagedFile("a page has no checksum, or its header is damaged") from error
        if self._left < 0:
            raise DamagedFile("the header of a page is damaged")
        self._waiting, self._checksum, self._wanted = b"", 0, checksum & 0xFFFFFFFF
