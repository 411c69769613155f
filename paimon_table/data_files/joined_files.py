"""Joins small data files of a table without primary key into larger ones, without decoding their rows.

The cost of reading depends on row groups, not on how they were joined. If row groups are large enough, a compaction
gains nothing from decoding and encoding each row. Options about the content of files (size of row groups, statistics)
apply when rows are written, so a requested full compaction rewrites all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from paimon_table.data_files.file_in_progress import local_wall_clock_ms
from paimon_table.data_files.key_value_file import FileNames
from paimon_table.data_files.stats import united_stats
from paimon_table.formats.file_format import DAMAGES, DamagedFile, is_storage_failure
from paimon_table.formats.known_formats import PARQUET
from paimon_table.formats.parquet.joining import LEAST_GROUP_BYTES, Opening, ParquetPart, join_parquet, parquet_part
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.file_settings import FileSettings, data_file_settings, format_of
from paimon_table.options.table_options import TableOptions
from paimon_table.step_times import timed

_Part = tuple[DataFileMeta, ParquetPart]


@timed("write")
def joined_files(
    ctx: TableContext, directory: str, files: Sequence[DataFileMeta], names: FileNames, clock_ms: Callable[[], int]
) -> tuple[DataFileMeta, ...] | None:
    """Write the rows of all files, without deleted rows, in their order into new files of the target size.

    None if the rows must be rewritten for that, and for a damaged file, which a read then reports. New files are
    durable after ``FileIO.sync``; none remains after an exception.
    """
    settings = data_file_settings(ctx.options, 0)
    if not _may_join(ctx, files, settings):
        return None
    parts = _parts(ctx, directory, files, settings)
    if parts is None:
        return None
    written: list[DataFileMeta] = []
    try:
        for share in _shares(parts, ctx.options):
            name = names.next(ctx.options.data_file_prefix, settings.extension)
            with ctx.io.open_output(f"{directory}/{name}") as out:
                join_parquet(out, name, [(_opening(ctx, directory, file), part) for file, part in share])
                size_bytes = int(out.tell())
            written.append(_described(ctx, [file for file, _ in share], name, size_bytes, clock_ms()))
    except BaseException as error:
        # Unreferenced: their metadata was not passed on.
        for file in written:
            ctx.delete_file_in(directory, file)
        if isinstance(error, (DamagedFile, FileNotFoundError)):
            return None
        raise
    return tuple(written)


def _opening(ctx: TableContext, directory: str, file: DataFileMeta) -> Opening:
    return partial(ctx.io.open_input, TablePaths.data_file(directory, file))


def _may_join(ctx: TableContext, files: Sequence[DataFileMeta], settings: FileSettings) -> bool:
    """Whether the files may be joined, by their metadata alone."""
    options = ctx.options
    if ctx.schema.primary_keys or options.bloom_filters or options.file_block_size_bytes is not None:
        return False
    return settings.format == PARQUET.name and all(
        file.schema_id == ctx.schema.id
        and format_of(file.file_name) == PARQUET.name
        and file.value_stats_cols == files[0].value_stats_cols
        and not file.extra_files
        and file.embedded_index is None
        and file.external_path is None
        and file.first_row_id is None
        and file.write_cols is None
        for file in files
    )


def _parts(
    ctx: TableContext, directory: str, files: Sequence[DataFileMeta], settings: FileSettings
) -> list[_Part] | None:
    """The files as similar parts with row groups that are large enough on average; None for other files."""
    parts: list[_Part] = []
    for file in files:
        try:
            with _opening(ctx, directory, file)() as stream:
                if stream.size() != file.file_size_bytes:
                    return None
                part = parquet_part(stream, file.file_name, PARQUET.codecs[settings.compression])
        except FileNotFoundError:
            return None
        except OSError as error:
            if is_storage_failure(error):
                raise
            return None
        except DAMAGES:
            return None
        if part is None or part.row_count != file.row_count or (parts and not part.is_like(parts[0][1])):
            return None
        parts.append((file, part))
    group_count = sum(len(part.groups) for _, part in parts)
    large = sum(file.file_size_bytes for file in files) >= group_count * LEAST_GROUP_BYTES
    return parts if large else None


def _shares(parts: Sequence[_Part], options: TableOptions) -> Iterator[list[_Part]]:
    """Which files to join into one, in order, so that no later compaction considers the results small, except the last.

    Files are not split, so some results exceed the target size, by less than one small file.
    """
    target_bytes = options.target_file_size_bytes
    large_bytes = min(target_bytes, int(target_bytes * options.small_file_ratio))
    share: list[_Part] = []
    size_bytes = 0
    for one in parts:
        if size_bytes >= large_bytes and size_bytes + one[0].file_size_bytes > target_bytes:
            yield share
            share, size_bytes = [], 0
        share.append(one)
        size_bytes += one[0].file_size_bytes
    yield share


def _described(
    ctx: TableContext, files: Sequence[DataFileMeta], name: str, size_bytes: int, now_ms: int
) -> DataFileMeta:
    first = files[0]
    fields = ctx.schema.fields
    if first.value_stats_cols is not None:
        fields = tuple(ctx.schema.field(column) for column in first.value_stats_cols)
    return replace(
        first,
        file_name=name,
        file_size_bytes=size_bytes,
        row_count=sum(file.row_count for file in files),
        value_stats=united_stats([(file.value_stats, file.row_count) for file in files], fields),
        min_sequence_number=min(file.min_sequence_number for file in files),
        max_sequence_number=max(file.max_sequence_number for file in files),
        creation_time_ms=local_wall_clock_ms(now_ms),
        file_source=FileSource.COMPACT,
        level=0,
        delete_row_count=0,
    )
