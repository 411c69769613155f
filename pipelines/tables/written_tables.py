"""The tables of the warehouse that a pipeline has written, as their snapshots record it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotStore
from paimon_table.storage.file_io import FileIO
from pipelines.config.table_name import TableName
from sinks.commit.positions import Position, newest_with_position

_READERS = 16
"""Tables that are looked at side by side: on object storage each one costs a few round trips."""


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table with a position of the pipeline."""

    name: TableName
    path: str
    position: Position
    kind: CommitKind
    """Of the newest commit with a position."""


def written_tables(io: FileIO, warehouse: str, pipeline: str) -> Iterator[WrittenTable]:
    """Tables with a position of ``pipeline``, in the order of the listing; reads no schema and no manifest."""
    names = [
        TableName(database.removesuffix(".db"), table)
        for database in io.list_names(warehouse)
        if database.endswith(".db")
        for table in io.list_names(f"{warehouse}/{database}")
    ]

    def newest(name: TableName) -> tuple[Snapshot, Position] | None:
        return newest_with_position(SnapshotStore(io, TablePaths(name.path_in(warehouse))), pipeline)

    with ThreadPoolExecutor(_READERS) as readers:
        for name, found in zip(names, readers.map(newest, names), strict=True):
            if found is not None:
                snapshot, position = found
                yield WrittenTable(name, name.path_in(warehouse), position, snapshot.commit_kind)
