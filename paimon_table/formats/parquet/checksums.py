"""Checksums of Parquet files: of the pages, by the format, and of the footer, in addition to the format.

The footer's checksum is in the eight bytes before the footer: four letters and a CRC-32 of the file's name and the
footer. Other readers find the footer by its length from the end of the file and ignore the bytes before it. pyarrow
ends a file with its own footer and cannot put anything before it. Tidemark leaves this footer in place and appends the
checksum and a second copy of the footer. Files of other writers have no footer checksum and are read without one.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_table.formats.file_format import DamagedFile

MAGIC = b"PAR1"
_CHECKSUM = struct.Struct("<4sI")
_LETTERS = b"TMFC"
_TAIL = struct.Struct("<I4s")
_FIRST_READ_BYTES = 64 << 10
"""The bytes read from the end of a file at once. They cover most footers, because round trips to storage are slow."""


def checked_end(metadata: pq.FileMetaData, file_name: str) -> bytes:
    """The bytes to append to a complete file: the checksum, the footer again and the end."""
    out = pa.BufferOutputStream()
    metadata.write_metadata_file(out)
    end: bytes = out.getvalue().to_pybytes()[len(MAGIC) :]
    return footer_end(end[: -_TAIL.size], file_name)


def footer_end(footer: bytes, file_name: str) -> bytes:
    """The end of a file from the checksum of its footer on."""
    return _CHECKSUM.pack(_LETTERS, _footer_checksum(footer, file_name)) + footer + _TAIL.pack(len(footer), MAGIC)


def checked_metadata(stream: pa.NativeFile, file_name: str) -> pq.FileMetaData:
    """The metadata of a file; DamagedFile as for ``checked_footer``."""
    footer = checked_footer(stream, file_name)
    return pq.read_metadata(pa.BufferReader(footer + _TAIL.pack(len(footer), MAGIC)))


def checked_footer(stream: pa.NativeFile, file_name: str) -> bytes:
    """The footer of a file; raises DamagedFile if it contradicts its checksum, or belongs to another file."""
    return _footer(stream, file_name)[0]


def own_footer(stream: pa.NativeFile, file_name: str) -> bytes | None:
    """As ``checked_footer``; None for a file of another writer, which has no checksum."""
    footer, is_checked = _footer(stream, file_name)
    return footer if is_checked else None


def _footer(stream: pa.NativeFile, file_name: str) -> tuple[bytes, bool]:
    """The footer of a file, and whether a checksum confirms it."""
    size_bytes = int(stream.size())
    end = _read_end(stream, size_bytes, _FIRST_READ_BYTES)
    footer_bytes, magic = _TAIL.unpack(end[-_TAIL.size :]) if len(end) >= _TAIL.size else (0, b"")
    if magic != MAGIC or footer_bytes + _TAIL.size + len(MAGIC) > size_bytes:
        raise DamagedFile("it does not end as a Parquet file")
    checked_bytes = _CHECKSUM.size + footer_bytes + _TAIL.size
    if checked_bytes > len(end):
        end = _read_end(stream, size_bytes, checked_bytes)
    footer = end[len(end) - _TAIL.size - footer_bytes : -_TAIL.size]
    before = end[: len(end) - _TAIL.size - footer_bytes][-_CHECKSUM.size :]
    letters, checksum = _CHECKSUM.unpack(before) if len(before) == _CHECKSUM.size else (b"", 0)
    if letters != _LETTERS:
        return footer, False
    if checksum != _footer_checksum(footer, file_name):
        raise DamagedFile("the checksum of its footer is wrong, or it is another file under this name")
    return footer, True


def open_parquet(stream: pa.NativeFile, **options: Any) -> pq.ParquetFile:
    """Open a file so that reads verify the checksums of its pages, if it has them."""
    return pq.ParquetFile(stream, page_checksum_verification=True, **options)


def _read_end(stream: pa.NativeFile, size_bytes: int, wanted_bytes: int) -> bytes:
    length = min(size_bytes, wanted_bytes)
    data: bytes = stream.read_at(length, size_bytes - length)
    return data


def _footer_checksum(footer: bytes, file_name: str) -> int:
    return zlib.crc32(footer, zlib.crc32(file_name.encode()))
