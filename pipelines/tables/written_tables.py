"""The tables of the warehouse that a pipeline has written, as their snapshots record it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from paimon_table.catalog.catalog import Catalog
from paimon_table.catalog.table_name import TableName
from paimon_table.metadata.snapshot import CommitKind, Snapshot
from sinks.commit.positions import Position, newest_with_position

_READERS = 16
"""Tables that are looked at side by side: on object storage each one costs a few round trips."""


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table with a position of the pipeline."""

    name: TableName
    position: Position
    kind: CommitKind
    """Of the newest commit with a position."""


def written_tables(catalog: Catalog, pipeline: str) -> Iterator[WrittenTable]:
    """Tables with a position of ``pipeline``, in the order of the catalog; reads no schema and no manifest."""
    names = catalog.names()

    def newest(name: TableName) -> tuple[Snapshot, Position] | None:
        return newest_with_position(catalog.files(name).snapshots, pipeline)

    with ThreadPoolExecutor(_READERS) as readers:
        for name, found in zip(names, readers.map(newest, names), strict=True):
            if found is not None:
                snapshot, position = found
                yield WrittenTable(name, position, snapshot.commit_kind)
