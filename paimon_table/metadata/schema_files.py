"""The schema files of a table: ``schema/schema-N``, dense ids from 0."""

from __future__ import annotations

from paimon_table.errors import CorruptFile
from paimon_table.metadata.paths import TablePaths
from paimon_table.schema.table_schema import TableSchema, from_json
from paimon_table.storage.file_io import FileIO, numbers_of


def schema_ids(io: FileIO, paths: TablePaths) -> list[int]:
    """The ids of the existing versions, in rising order; empty without a table."""
    try:
        return sorted(numbers_of(io.list_names(paths.schema_dir), "schema-"))
    except NotADirectoryError:
        return []


def read_schema(io: FileIO, paths: TablePaths, schema_id: int) -> TableSchema:
    """Read one version; raises CorruptFile if the file has another version or keys that are not columns."""
    path = paths.schema_file(schema_id)
    schema = from_json(io.read(path), path)
    if schema.id != schema_id:
        raise CorruptFile(f"{path} has the content of schema {schema.id}; restore it from a backup")
    known = {f.name for f in schema.fields}
    for name in (*schema.primary_keys, *schema.partition_keys):
        if name not in known:
            raise CorruptFile(f"{path} has a key column {name!r}, which is not a column; restore it from a backup")
    return schema
