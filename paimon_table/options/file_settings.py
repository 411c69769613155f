"""The settings of one data or changelog file: format, compression and statistics, by level and purpose.

Implements ``file.format``, ``file.compression``, ``metadata.stats-mode``, their settings per level, and the
``changelog-file.*`` options that replace them for changelog files. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paimon_table.options.names import (
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
)
from paimon_table.options.table_options import TableOptions

_COMPRESSION_EXTENSIONS = {"none": "", "gzip": "gz", "zstd": "zst"}


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The option values for one file."""

    format: str
    format_option: str
    """The option that sets the format."""
    compression: str
    compression_option: str
    stats_mode: str
    extension: str
    """The end of the file's name, without the dot. The format comes last, because readers use it."""
    is_indexed: bool
    """Whether a file index is written; changelog files need none, because no reader looks up rows in them."""
    is_sorted: bool = True
    """Whether the rows of a table with a primary key are in the order of their keys."""


def data_file_settings(options: TableOptions, level: int) -> FileSettings:
    """The settings of data files on a level."""
    formats, compressions = dict(options.file_format_per_level), dict(options.file_compression_per_level)
    file_format = formats.get(level, options.file_format)
    return FileSettings(
        format=file_format,
        format_option=FILE_FORMAT_PER_LEVEL if level in formats else FILE_FORMAT,
        compression=compressions.get(level, options.file_compression),
        compression_option=FILE_COMPRESSION_PER_LEVEL if level in compressions else FILE_COMPRESSION,
        stats_mode=dict(options.stats_mode_per_level).get(level, options.stats_mode),
        extension=_extension(options, file_format),
        is_indexed=True,
    )


def changelog_file_settings(options: TableOptions, level: int) -> FileSettings:
    """The settings of changelog files of a step that writes to a level."""
    data = data_file_settings(options, level)
    own_format, own_compression = options.changelog_file_format, options.changelog_file_compression
    return FileSettings(
        format=own_format or data.format,
        format_option=CHANGELOG_FILE_FORMAT if own_format else data.format_option,
        compression=own_compression or data.compression,
        compression_option=CHANGELOG_FILE_COMPRESSION if own_compression else data.compression_option,
        stats_mode=options.changelog_file_stats_mode or data.stats_mode,
        extension=_extension(options, own_format or data.format),
        is_indexed=False,
    )


def used_settings(options: TableOptions) -> Iterator[FileSettings]:
    """All settings that new files of buckets can have, in the order of the levels."""
    for level in _distinct_levels(options):
        yield data_file_settings(options, level)
        if options.changelog_producer != "none":
            yield changelog_file_settings(options, level)


def _distinct_levels(options: TableOptions) -> list[int]:
    """The levels that an option names, and the lowest other level, which represents all others."""
    named = {level for level in options.named_levels if level <= options.max_level}
    other = next(level for level in range(len(named) + 1) if level not in named)
    return sorted(named | ({other} if other <= options.max_level else set()))


def format_of(file_name: str) -> str:
    """The format of a file, from its name."""
    return file_name.rpartition(".")[2].lower()


def _extension(options: TableOptions, file_format: str) -> str:
    """As in Paimon, file names have the compression of the table, even if a file has another one."""
    compression = _COMPRESSION_EXTENSIONS.get(options.file_compression, options.file_compression)
    if not options.file_suffix_include_compression or not compression:
        return file_format
    return f"{compression}.{file_format}"
