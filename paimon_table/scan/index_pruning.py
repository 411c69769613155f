"""Skips data files that cannot have a matching row, by their file indexes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from paimon_table.data_files.altered_values import may_alter
from paimon_table.errors import CorruptFile
from paimon_table.file_index.bloom_filter import BloomFilter
from paimon_table.file_index.container import DamagedIndex, read_container
from paimon_table.file_index.hashing import hash64
from paimon_table.file_index.index_builder import INDEX_SUFFIX
from paimon_table.file_index.index_limits import can_be_hashed
from paimon_table.file_index.index_options import BLOOM_FILTER
from paimon_table.mergetree.sections import Section
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.table_context import TableContext
from paimon_table.scan.confinement import ConfinedColumn, confined_columns


def matching_sections(
    ctx: TableContext,
    directory: str,
    sections: Sequence[Section],
    predicate: pc.Expression | None,
    tested: Sequence[str],
) -> tuple[Section, ...]:
    """The sections of one bucket without the files that cannot have a row for which the predicate is true.

    ``tested`` names the columns of the predicate. For files that are merged with others only key columns count: values
    of other columns may be outdated, or hide other rows.
    """
    files = [file for section in sections for run in section for file in run]
    if predicate is None or not ctx.options.file_index_read or not any(map(_has_index, files)):
        return tuple(sections)
    confined = confined_columns(predicate, ctx.schema, tested)
    keys = tuple(column for column in confined if column.name in ctx.schema.trimmed_primary_keys)
    left = []
    for section in sections:
        usable = confined if len(section) == 1 else keys
        runs = (tuple(file for file in run if _may_hold(ctx, directory, file, usable)) for run in section)
        left.append(tuple(run for run in runs if run))
    return tuple(section for section in left if section)


def _has_index(file: DataFileMeta) -> bool:
    return file.embedded_index is not None or any(name.endswith(INDEX_SUFFIX) for name in file.extra_files)


def _may_hold(ctx: TableContext, directory: str, file: DataFileMeta, confined: Sequence[ConfinedColumn]) -> bool:
    """Whether the file can have a row with one of the values in each of the columns.

    True without an index. Raises CorruptFile if the index is missing or damaged.
    """
    if not confined or not _has_index(file):
        return True
    indexes = _read(ctx, directory, file)
    for column in confined:
        name = _stored_name(ctx, file, column)
        body = indexes.get(name, {}).get(BLOOM_FILTER) if name is not None else None
        if body and not BloomFilter(body).may_contain(hash64(column.values, column.type)).any():
            return False
    return True


def _stored_name(ctx: TableContext, file: DataFileMeta, column: ConfinedColumn) -> str | None:
    """The column's name in the schema of the file; None if the index does not have its current values."""
    written = ctx.schemas.get(file.schema_id)
    wanted = ctx.schema.field(column.name)
    stored = next((f for f in written.fields if f.id == wanted.id), None) if written is not None else None
    if stored is None or not can_be_hashed(column.type) or may_alter(file.file_name, column.type):
        return None
    return stored.name if stored.type.with_nullable(True) == wanted.type.with_nullable(True) else None


def _read(ctx: TableContext, directory: str, file: DataFileMeta) -> dict[str, dict[str, bytes]]:
    paths = [path for path in TablePaths.extra_files(directory, file) if path.endswith(INDEX_SUFFIX)]
    path = paths[0] if paths else f"index of {file.file_name} in its manifest"
    try:
        return read_container(ctx.io.read(path) if file.embedded_index is None else file.embedded_index)
    except FileNotFoundError as error:
        raise CorruptFile(
            f"{path} is missing; restore it or read the table with file-index.read.enabled=false"
        ) from error
    except DamagedIndex as error:
        raise CorruptFile(
            f"{path} is damaged ({error}); restore it or read the table with file-index.read.enabled=false"
        ) from error
