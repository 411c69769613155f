"""The tables of a warehouse, of one of its databases, by the directories that are there."""

from __future__ import annotations

from paimon_table.metadata.paths import TablePaths, numbers_of
from paimon_table.storage.file_io import FileIO

_DATABASE = ".db"


def tables_below(io: FileIO, root: str) -> list[str]:
    """Paths of the tables of a warehouse, or of a database when ``root`` is one; empty when it is neither."""
    if root.endswith(_DATABASE):
        return _tables(io, root)
    return [path for name in _names(io, root) if name.endswith(_DATABASE) for path in _tables(io, f"{root}/{name}")]


def _tables(io: FileIO, database: str) -> list[str]:
    paths = [f"{database}/{name}" for name in _names(io, database)]
    return [path for path in paths if numbers_of(_names(io, TablePaths(path).schema_dir), "schema-")]


def _names(io: FileIO, directory: str) -> list[str]:
    try:
        return io.list_names(directory)
    except NotADirectoryError:
        return []
