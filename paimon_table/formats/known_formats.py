"""What is known of the formats of data files without reading or writing one, and without Arrow.

Options and schemas are checked by it; ``registry`` has the formats themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from paimon_table.errors import UnsupportedFeature
from paimon_table.formats.avro.schema import gap as avro_gap
from paimon_table.options.file_settings import FileSettings
from paimon_table.types import DataType


@dataclass(frozen=True, slots=True)
class KnownFormat:
    """A format: its name, which is also the end of file names, and what it can hold."""

    name: str
    codecs: Mapping[str, str]
    """Values of ``file.compression``, and the names that the library has for them."""
    gap: Callable[[DataType], str | None]
    """Why a type cannot be written; None when it can."""
    has_blocks: bool
    """Whether its files have parts of the size ``file.block-size``: row groups or stripes."""


def _no_gap(_type: DataType) -> str | None:
    return None


PARQUET = KnownFormat(
    "parquet",
    {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "none": "none", "uncompressed": "none"},
    _no_gap,
    True,
)
ORC = KnownFormat(
    "orc", {"zstd": "zstd", "snappy": "snappy", "zlib": "zlib", "lz4": "lz4", "none": "uncompressed"}, _no_gap, True
)
AVRO = KnownFormat("avro", {"zstd": "zstandard", "deflate": "deflate", "null": "null"}, avro_gap, False)

KNOWN_FORMATS: Mapping[str, KnownFormat] = {known.name: known for known in (PARQUET, ORC, AVRO)}


def known_format(settings: FileSettings) -> KnownFormat:
    """The format that the settings name; UnsupportedFeature for a format or compression that Tidemark does not have."""
    known = KNOWN_FORMATS.get(settings.format)
    if known is None:
        raise UnsupportedFeature(
            f"option {settings.format_option!r}: {settings.format!r} is not supported; supported: "
            f"{', '.join(KNOWN_FORMATS)}",
            option=settings.format_option,
        )
    if settings.compression not in known.codecs:
        raise UnsupportedFeature(
            f"option {settings.compression_option!r}: {settings.compression!r} is not supported for {known.name} "
            f"files; supported: {', '.join(known.codecs)}",
            option=settings.compression_option,
        )
    return known
