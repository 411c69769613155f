"""Readers of splits: one returns the rows of files unchanged, one merges the rows of overlapping files. Both skip rows
that deletion vectors mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.data_files.key_value_file import BATCH_ROWS, iter_key_value_batches
from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.errors import MalformedRecord
from paimon_table.merge.function import merge_function
from paimon_table.merge.sort import KeyOrder
from paimon_table.merge.superseded import without_superseded
from paimon_table.mergetree.run_chunks import joined, run_chunks
from paimon_table.mergetree.sections import Section
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.scan.pruning import ranged_columns_only
from paimon_table.scan.selection import Selection
from paimon_table.scan.splits import Split


class SplitReader(Protocol):
    """Reads the sections of one split; needs only these sections."""

    def read(self, section: Section) -> Iterator[pa.Table]:
        """The rows of a section in pieces of bounded size: in key order, or without keys in order of arrival.

        They have their row kinds and the needed columns. A key occurs once. It may be a retract, which is not a row of
        the table. Rows that do not satisfy the predicate may be included.
        """
        ...


class SplitFiles:
    """The files of one split, without the rows that deletion vectors mark."""

    def __init__(self, ctx: TableContext, split: Split) -> None:
        self._ctx = ctx
        self._directory = ctx.bucket_dir(split.bucket)
        self._partition = ctx.partition_values(split.bucket.partition)
        names = [file.file_name for file in split.files]
        self._deleted = read_vectors(ctx.io, ctx.paths, split.deletion_files, names)

    def batches(
        self, file: DataFileMeta, names: Sequence[str], batch_rows: int, predicate: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """The rows of a file; ``predicate`` may skip groups of rows, see ``iter_key_value_batches``."""
        deleted = self._deleted.get(file.file_name)
        return iter_key_value_batches(
            self._ctx, self._directory, file, names, self._partition, batch_rows, predicate, deleted
        )


class RawReader:
    """Reads sections of one run without a merge, because merge engines keep single rows of a key unchanged."""

    def __init__(self, ctx: TableContext, files: SplitFiles, selection: Selection) -> None:
        self._files = files
        self._names = selection.needed
        self._predicate = selection.predicate if ranged_columns_only(ctx.schema, selection.tested) else None

    def read(self, section: Section) -> Iterator[pa.Table]:
        """See ``SplitReader``."""
        for run in section:
            for file in run:
                yield from self._files.batches(file, self._names, BATCH_ROWS, self._predicate)


class MergeReader:
    """Reads sections of several runs: the merge engine's result for all rows of a key."""

    def __init__(self, ctx: TableContext, files: SplitFiles, selection: Selection) -> None:
        schema, options = ctx.schema, ctx.options
        self._ctx = ctx
        self._files = files
        self._order = KeyOrder(schema, options)
        self._function = merge_function(schema, options)
        needed = self._function.needed_columns(selection.needed)
        self._names = tuple(dict.fromkeys((*schema.trimmed_primary_keys, *options.sequence_fields, *needed)))
        is_about_keys = set(selection.tested) <= set(schema.trimmed_primary_keys)
        usable = is_about_keys and ranged_columns_only(schema, selection.tested)
        self._predicate = selection.predicate if usable else None
        """The key part of the predicate: skipping by it skips all versions of a key."""

    def read(self, section: Section) -> Iterator[pa.Table]:
        """See ``SplitReader``. Raises MalformedRecord for rows that the engine cannot merge."""
        for pieces in run_chunks(section, self._batches, self._order):
            rows, levels = joined(pieces)
            del pieces
            groups = self._order.sort(rows)
            if self._ctx.options.upper_rows_are_whole:
                groups = without_superseded(groups, levels)
            try:
                merged = self._function.merge(rows, groups)
            except MalformedRecord as error:
                raise error.told(f"table {self._ctx.paths.root}: {error}") from error
            yield merged

    def _batches(self, file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
        return self._files.batches(file, self._names, batch_rows, self._predicate)


class KeyedReader:
    """Reads each section of a table with a primary key, with a merge if its files need one."""

    def __init__(self, ctx: TableContext, split: Split, selection: Selection) -> None:
        files = SplitFiles(ctx, split)
        self._raw = RawReader(ctx, files, selection)
        self._merge = MergeReader(ctx, files, selection)

    def read(self, section: Section) -> Iterator[pa.Table]:
        """See ``SplitReader``."""
        return self._raw.read(section) if len(section) == 1 else self._merge.read(section)


def open_reader(ctx: TableContext, split: Split, selection: Selection) -> SplitReader:
    """The reader of a split of this kind of table."""
    if not ctx.schema.primary_keys:
        return RawReader(ctx, SplitFiles(ctx, split), selection)
    return KeyedReader(ctx, split, selection)
