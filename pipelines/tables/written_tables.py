"""The tables that one pipeline has written, found without reading through the tables of others.

A pipeline's own marks name its tables (``sinks.commit.pipeline_mark``): a start under a new checkpoint looks for one in
each table of the warehouse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from paimon_table import Catalog, CommitKind, Snapshot, TableName
from pipelines.tables.table_failure import is_of_table
from sinks.commit.pipeline_mark import marked_formats
from sinks.commit.positions import Position, newest_with_position

_READERS = 16
"""Tables that are looked at side by side: on object storage each one costs a few round trips."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table with a position of the pipeline."""

    name: TableName
    position: Position
    kind: CommitKind
    """Of the newest commit with a position."""


def search_tables(catalog: Catalog, pipeline: str) -> list[TableName]:
    """All tables of the catalog that ``pipeline`` has written, under whatever checkpoint."""
    return [name for name, formats in marks_of(catalog, pipeline, catalog.names()) if formats is not None]


def written_tables(
    catalog: Catalog,
    pipeline: str,
    names: Collection[TableName],
    skip: Callable[[TableName, Exception], None] | None = None,
) -> Iterator[WrittenTable]:
    """Those of ``names`` with a position of ``pipeline``, in this order; reads no schema and no manifest.

    ``skip`` hears of tables that cannot be read for reasons of their own; without it these are raised.
    """

    def look(name: TableName) -> tuple[Snapshot, Position] | Exception | None:
        try:
            return newest_with_position(catalog.files(name).snapshots, pipeline)
        except Exception as error:
            if skip is None or not is_of_table(error):
                raise
            return error

    for name, found in _each(names, look):
        if isinstance(found, Exception):
            assert skip is not None
            skip(name, found)
        elif found is not None:
            snapshot, position = found
            yield WrittenTable(name, position, snapshot.commit_kind)


def marks_of(
    catalog: Catalog, pipeline: str, names: Collection[TableName]
) -> list[tuple[TableName, dict[str, str] | None]]:
    """Per table what the mark of ``pipeline`` says of the formats of topics; None where it has no mark."""

    def look(name: TableName) -> dict[str, str] | None:
        files = catalog.files(name)
        return marked_formats(files.io, files.paths, pipeline)

    return _each(names, look)


def _each(names: Collection[TableName], look: Callable[[TableName], T]) -> list[tuple[TableName, T]]:
    with ThreadPoolExecutor(_READERS) as readers:
        return list(zip(names, readers.map(look, names), strict=True))
