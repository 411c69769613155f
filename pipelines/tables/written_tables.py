"""The tables that one pipeline has written, found without reading all tables of others.

A pipeline's own marks name its tables (``sinks.commit.pipeline_mark``): a start under a new checkpoint looks for one in
each table of the warehouse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from paimon_table import Catalog, CommitKind, Snapshot, TableName
from paimon_table.side_by_side import in_parallel, waits_at_once
from pipelines.tables.table_failure import is_of_table
from sinks.commit.pipeline_mark import marked_formats
from sinks.commit.positions import Position, is_for, position_of


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table with a position of the pipeline."""

    name: TableName
    position: Position
    awaits_compaction: bool
    """Whether rows of the pipeline, or of a command for it, were committed after the table's newest compaction."""


def search_tables(catalog: Catalog, pipeline: str) -> list[TableName]:
    """All tables of the catalog that ``pipeline`` has written, under any checkpoint."""
    return [name for name, formats in marks_of(catalog, pipeline, catalog.names()) if formats is not None]


def written_tables(
    catalog: Catalog,
    pipeline: str,
    names: Collection[TableName],
    skip: Callable[[TableName, Exception], None] | None = None,
) -> Iterator[WrittenTable]:
    """The tables among ``names`` with a position of ``pipeline``, in this order; reads no schema and no manifest.

    ``skip`` gets each table whose read fails for a reason of this table alone; without ``skip``, raises the error.
    """

    def look(name: TableName) -> WrittenTable | Exception | None:
        try:
            return _found(name, catalog.files(name).snapshots.newest_first(), pipeline)
        except Exception as error:
            if skip is None or not is_of_table(error):
                raise
            return error

    for name, found in in_parallel(look, names, waits_at_once(catalog.warehouse)):
        if isinstance(found, Exception):
            assert skip is not None
            skip(name, found)
        elif found is not None:
            yield found


def _found(name: TableName, newest_first: Iterable[Snapshot], pipeline: str) -> WrittenTable | None:
    awaits: bool | None = None
    for snapshot in newest_first:
        if awaits is None and snapshot.commit_kind == CommitKind.COMPACT:
            awaits = False
        elif awaits is None and snapshot.commit_kind == CommitKind.APPEND and is_for(snapshot, pipeline):
            awaits = True
        position = position_of(snapshot, pipeline)
        if position is not None:
            return WrittenTable(name, position, bool(awaits))
    return None


def marks_of(
    catalog: Catalog, pipeline: str, names: Collection[TableName]
) -> list[tuple[TableName, dict[str, str] | None]]:
    """Per table the formats of topics in the mark of ``pipeline``; None without a mark."""

    def look(name: TableName) -> dict[str, str] | None:
        files = catalog.files(name)
        return marked_formats(files.io, files.paths, pipeline)

    return list(in_parallel(look, names, waits_at_once(catalog.warehouse)))
