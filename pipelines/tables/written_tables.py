"""The tables that one pipeline has written, found without reading through the tables of others.

A pipeline's own marks tell its tables (``sinks.commit.pipeline_mark``): a start under a new checkpoint asks each table
of the warehouse for one. Only a pipeline that has left no mark anywhere, because it is new or because earlier versions
of Tidemark wrote its tables, has the snapshots of others read through, once: it leaves marks from then on. Tables that
no rule of it may write, or that no version before the marks could write, are left out even then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from paimon_table import Catalog, CommitKind, Snapshot, TableFiles, TableName, UserSearch
from paimon_table.errors import TidemarkError
from pipelines.tables.table_failure import is_of_table
from sinks.commit.pipeline_mark import PipelineMark, read_mark
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


def search_tables(catalog: Catalog, pipeline: str, may_write: Callable[[TableName], bool]) -> list[TableName]:
    """All tables of the catalog that ``pipeline`` has written, under whatever checkpoint and by whatever version.

    ``may_write`` says of a name whether the pipeline's rules can give it; it is asked where there is no mark.
    """
    names = catalog.names()
    marks = _marks(catalog, pipeline, names)
    marked = {name for name, mark in marks if mark is not None}
    if marked:
        beside = {TableName.of(other) for _, mark in marks if mark is not None for other in mark.unmarked}
        return [name for name in names if name in marked | beside]
    possible = _each([*filter(may_write, names)], lambda name: _could_be_written_without_mark(catalog.files(name)))
    return [t.name for t in written_tables(catalog, pipeline, [name for name, is_possible in possible if is_possible])]


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


def searched_for(
    catalog: Catalog, names: Collection[TableName], user: str, since_ms: int | None
) -> list[tuple[TableName, UserSearch]]:
    """The newest snapshot of a commit user in each table, as ``search_user``; damaged tables tell nothing."""

    def look(name: TableName) -> UserSearch:
        try:
            snapshots = catalog.files(name).snapshots
            return snapshots.search_user(user, snapshots.latest_id(), since_ms=since_ms)
        except Exception as error:
            if not is_of_table(error):
                raise
            return UserSearch(None, exhaustive=False)

    return _each(names, look)


def unmarked_of(catalog: Catalog, pipeline: str, names: Collection[TableName]) -> set[TableName]:
    """Those of ``names`` without a mark of ``pipeline``."""
    return {name for name, mark in _marks(catalog, pipeline, names) if mark is None}


def _marks(
    catalog: Catalog, pipeline: str, names: Collection[TableName]
) -> list[tuple[TableName, PipelineMark | None]]:
    def mark(name: TableName) -> PipelineMark | None:
        files = catalog.files(name)
        return read_mark(files.io, files.paths, pipeline)

    return _each(names, mark)


def _could_be_written_without_mark(files: TableFiles) -> bool:
    """Whether a version of Tidemark before the marks could have written the table.

    None could without a primary key or with dynamic buckets, and Paimon lets neither be changed afterwards.
    """
    try:
        schema = files.newest_schema()
    except (TidemarkError, OSError):
        return True
    return schema is not None and bool(schema.primary_keys) and schema.options.get("bucket", "-1").strip() != "-1"


def _each(names: Collection[TableName], look: Callable[[TableName], T]) -> list[tuple[TableName, T]]:
    with ThreadPoolExecutor(_READERS) as readers:
        return list(zip(names, readers.map(look, names), strict=True))
