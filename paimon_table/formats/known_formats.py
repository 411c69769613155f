"""Facts about the formats of data files, without reading or writing one, and without Arrow.

Checks of options and schemas use it; ``registry`` has the formats themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.formats.avro.schema import gap as avro_gap
from paimon_table.options.file_settings import FileSettings, data_file_settings, used_settings
from paimon_table.options.table_options import TableOptions
from paimon_table.types import DataField


@dataclass(frozen=True, slots=True)
class KnownFormat:
    """A format: its name, which is also the suffix of file names, and the types that it can store."""

    name: str
    codecs: Mapping[str, str]
    """The values of ``file.compression``, and their names in the library."""
    gap: Callable[[DataField], str | None]
    """Why a column cannot be written; None if it can."""
    has_blocks: bool
    """Whether its files have parts of the size ``file.block-size``: row groups or stripes."""


def _no_gap(_field: DataField) -> str | None:
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
    """The format that the settings name; raises UnsupportedFeature for a format or compression that Tidemark lacks."""
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


def storing_format(settings: FileSettings, fields: Sequence[DataField]) -> KnownFormat:
    """The format that the settings name, after a check that it can store these columns.

    Raises ConfigError for a column that the format cannot store; otherwise as ``known_format``.
    """
    known = known_format(settings)
    for field in fields:
        gap = known.gap(field)
        if gap is not None:
            raise ConfigError(
                f"option {settings.format_option!r}: column {field.name!r} of type {field.type} cannot be stored, "
                f"because {gap}; use another format, name or type",
                option=settings.format_option,
            )
    return known


def postponed_file_settings(options: TableOptions, fields: Sequence[DataField]) -> FileSettings:
    """The settings for files of rows without a bucket, which are in the order of arrival.

    They are Avro without statistics, if Avro can store the columns and no option sets the format of level 0.
    """
    if not any(AVRO.gap(field) for field in fields):
        options = replace(options, file_format=AVRO.name, stats_mode="none")
    return replace(data_file_settings(options, 0), is_indexed=False, is_sorted=False)


def all_settings(options: TableOptions, fields: Sequence[DataField]) -> Iterator[FileSettings]:
    """All settings that new files of a table with these columns can have, including those of rows without a bucket."""
    yield from used_settings(options)
    if options.is_postponed:
        yield postponed_file_settings(options, fields)
