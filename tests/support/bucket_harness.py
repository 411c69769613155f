"""One bucket without a committer: applies commit messages to the list of live files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.data_files.bucket_files import row_schema
from paimon_table.data_files.key_value_file import read_key_value_file
from paimon_table.deletion_vectors.deletion_vector import DeletionVector
from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.merge.function import merge_function, without_retracts
from paimon_table.merge.sort import KeyOrder
from paimon_table.merge.superseded import without_superseded
from paimon_table.mergetree.run_chunks import Piece, joined
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import IndexFileMeta
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.options.option_parsing import options_of
from paimon_table.row_kind import VALUE_KIND
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.file_io import FileIO
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
SHORT = {number: text for text, number in KINDS.items()}

Row = tuple[Any, ...]
"""Kind as text, then the values of the columns."""


def context(
    columns: Sequence[tuple[str, str]],
    keys: Sequence[str],
    options: Mapping[str, str],
    io: FileIO | None = None,
    root: str = "/table",
    partition_keys: Sequence[str] = (),
) -> TableContext:
    """A table that exists in memory only, or below ``root`` of another storage."""
    typed = [(name, parse_type(t)) for name, t in columns]
    schema = create_schema(typed, keys, partition_keys, options={"bucket": "1", **options})
    return TableContext(io or MemoryFileIO(), TablePaths(root), schema, options_of(schema), {0: schema})


@dataclass
class BucketHarness:
    """Live files of bucket 0 of an unpartitioned table and the writers that change them."""

    ctx: TableContext
    lookup_dir: Path
    files: list[DataFileMeta] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    writer: BucketWriter | None = None
    numbers: Any = field(default_factory=itertools.count)
    deletion_files: tuple[IndexFileMeta, ...] = ()

    bucket: BucketId = field(default_factory=lambda: BucketId(EMPTY_ROW, 0))

    @property
    def directory(self) -> str:
        return self.ctx.bucket_dir(self.bucket)

    def new_writer(self) -> BucketWriter:
        environment = WriterEnvironment(
            lookup_dir=str(self.lookup_dir),
            new_uuid=lambda: f"u{next(self.numbers)}",
            **{"clock_ms": lambda: 1_000 + next(self.numbers), **self.environment},
        )
        state = BucketState(tuple(self.files), self.deletion_files)
        self.writer = BucketWriter(self.ctx, self.bucket, state, environment)
        return self.writer

    def table(self, rows: Iterable[Row]) -> pa.Table:
        """Rows as the writer takes them."""
        rows = list(rows)
        schema = self.ctx.schema.arrow_schema.append(pa.field(VALUE_KIND, pa.int8(), False))
        columns = list(zip(*[(*row[1:], KINDS[row[0]]) for row in rows], strict=True)) or [()] * len(schema)
        return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def commit(self, rows: Iterable[Row], full: bool = False, fresh: bool = True) -> CommitMessage:
        """Write rows in one commit; returns the message after applying it."""
        writer = self.new_writer() if fresh or self.writer is None else self.writer
        table = self.table(rows)
        if table.num_rows:
            writer.write(table)
        message = writer.prepare_commit(full_compact=full)
        self.apply(message)
        return message

    def looked_up(self) -> set[str]:
        """The data files that have a lookup file."""
        return {path.name.rpartition("-")[0] for path in self.lookup_dir.rglob("*.lookup")}

    def apply(self, message: CommitMessage, append: bool = True, compact: bool = True) -> None:
        """Acts as the committer: APPEND, then COMPACT; every deleted file must exist, no added one may.

        The files in the message must survive a power cut: the snapshot is published next.
        """
        named = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
        if isinstance(self.ctx.io, MemoryFileIO):
            left = self.ctx.io.disk.after_power_cut().files
            assert {self.ctx.data_file(self.bucket, file) for file in named} <= left.keys()
        live = {(f.level, f.file_name): f for f in self.files}
        for file in message.new_files if append else ():
            assert live.setdefault((file.level, file.file_name), file) is file
        for file in message.compact_before if compact else ():
            assert live.pop((file.level, file.file_name)) == file
        for file in message.compact_after if compact else ():
            assert live.setdefault((file.level, file.file_name), file) is file
        self.files = list(live.values())
        if compact and not message.compact_index.is_empty:
            assert message.compact_index.before == self.deletion_files
            self.deletion_files = message.compact_index.after

    def read(self, file: DataFileMeta) -> pa.Table:
        """The live rows of a data file, all rows of a changelog file."""
        deleted = self.vectors().get(file.file_name)
        partition = self.ctx.partition_values(self.bucket.partition)
        return read_key_value_file(self.ctx, self.directory, file, partition=partition, deleted=deleted)

    def vectors(self) -> dict[str, DeletionVector]:
        """The deletion vectors by data file."""
        return read_vectors(self.ctx.io, self.ctx.paths, self.deletion_files)

    def all_rows(self) -> pa.Table:
        """The merged rows of all live files, tombstones included."""
        options = self.ctx.options
        files = [f for f in self.files if f.level > 0 or not options.hides_level0]
        if not files:
            return row_schema(self.ctx.schema).empty_table()
        rows, levels = joined([Piece(f.level, self.read(f)) for f in files])
        groups = KeyOrder(self.ctx.schema, options).sort(rows)
        if options.upper_rows_are_whole:
            groups = without_superseded(groups, levels)
        return merge_function(self.ctx.schema, options).merge(rows, groups)

    def content(self) -> list[Row]:
        """Values of the rows that a reader sees, sorted by key."""
        return [tuple(row[2:]) for row in _rows(without_retracts(self.all_rows()))]

    def unmerged_content(self) -> list[Row]:
        """The view of a reader that takes the rows above level 0 as they are, as with deletion vectors."""
        return [tuple(row[2:]) for file in self.files if file.level > 0 for row in _rows(self.read(file))]

    def changes(self, files: Sequence[DataFileMeta]) -> list[Row]:
        """Kind and values of the rows of changelog files, in file order."""
        return [(SHORT[row[1]], *row[2:]) for file in files for row in _rows(self.read(file))]

    def with_options(self, **options: str) -> None:
        """Continue with other table options."""
        changed = {name.replace("_", "-"): value for name, value in options.items()}
        schema = replace(self.ctx.schema, options={**self.ctx.schema.options, **changed})
        self.ctx = replace(self.ctx, schema=schema, options=options_of(schema), schemas={schema.id: schema})


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True)) if table.num_rows else []
