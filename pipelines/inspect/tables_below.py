"""The tables of a warehouse, of one of its databases, by the directories that are there."""

from __future__ import annotations

from paimon_table import FilesystemCatalog
from paimon_table.catalog.table_name import DATABASE_SUFFIX
from paimon_table.storage.file_io import FileIO


def tables_below(io: FileIO, root: str) -> list[str]:
    """Paths of the tables of a warehouse, or of a database when ``root`` is one; empty when it is neither."""
    if root.endswith(DATABASE_SUFFIX):
        warehouse, _, database = root.removesuffix(DATABASE_SUFFIX).rpartition("/")
        catalog = FilesystemCatalog(io, warehouse)
        found = catalog.names(database)
    else:
        catalog = FilesystemCatalog(io, root)
        found = catalog.names()
    return [catalog.files(name).paths.root for name in found]
