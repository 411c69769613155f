"""The mark of a pipeline on a table: it shows, without reading snapshots, that the pipeline has written the table.

Snapshots of the pipeline show it too, but any number of other snapshots may follow them. The mark is a small file in
the table's directory, ``tidemark/PIPELINE.json``, where Paimon's clean-up of orphan files does not look. It is durable
before the pipeline's first commit to the table and stays. It also keeps the formats that ``source.format: auto`` found
for the topics of the table, for a start without a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from paimon_table import TablePaths
from paimon_table.errors import CorruptFile
from paimon_table.storage.file_io import FileIO


def has_mark(io: FileIO, paths: TablePaths, pipeline: str) -> bool:
    """Whether ``pipeline`` has written the table, or was about to. Raises CorruptFile for a file that is not a mark."""
    return marked_formats(io, paths, pipeline) is not None


def marked_formats(io: FileIO, paths: TablePaths, pipeline: str) -> dict[str, str] | None:
    """The formats by topic in the mark of ``pipeline``; None without a mark. Raises CorruptFile for a file that is not
    a mark."""
    path = _file(paths, pipeline)
    try:
        mark = json.loads(io.read(path))
        named = mark["pipeline"]
        if named == pipeline:
            return {str(topic): str(name) for topic, name in mark.get("formats", {}).items()}
        if named.lower() == pipeline.lower():
            return None  # this storage ignores the case of file names
        raise ValueError(f"it names pipeline {named!r}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        content = json.dumps({"pipeline": pipeline})
        raise CorruptFile(
            f"{path} cannot be read ({error!r}). It records that pipeline {pipeline} writes this table: restore the "
            f"file, or write {content} into it"
        ) from error


def marking_pipelines(io: FileIO, paths: TablePaths) -> list[str]:
    """The names of the pipelines that left marks on a table, sorted."""
    names = io.list_names(f"{paths.root}/tidemark")
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def write_mark(io: FileIO, paths: TablePaths, pipeline: str, formats: Mapping[str, str] | None = None) -> None:
    """Make the mark durable; replaces an earlier one. ``formats`` are the formats found for topics."""
    mark = {"pipeline": pipeline} | ({"formats": dict(formats)} if formats else {})
    io.write(_file(paths, pipeline), json.dumps(mark, sort_keys=True).encode())


def _file(paths: TablePaths, pipeline: str) -> str:
    return f"{paths.root}/tidemark/{pipeline}.json"
