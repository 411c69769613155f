"""The mark of a pipeline on a table: what says, without a look into snapshots, that the pipeline has written it.

Snapshots say it too, but only those of the pipeline, and other writers may have put any number of theirs on top. The
mark is a small file in the table's directory, ``tidemark/PIPELINE.json``, where Paimon's clean-up of orphan files does
not look. It is durable before the pipeline's first commit to the table and stays. Versions of Tidemark before the mark
made none: so a mark also names the tables of its pipeline that had none when it was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from paimon_table import TablePaths
from paimon_table.errors import CorruptFile
from paimon_table.storage.file_io import FileIO


@dataclass(frozen=True, slots=True)
class PipelineMark:
    """Content of the file."""

    pipeline: str
    unmarked: tuple[str, ...] = ()
    """Other tables of the pipeline, by identifier, which had no mark at the time."""


def read_mark(io: FileIO, paths: TablePaths, pipeline: str) -> PipelineMark | None:
    """The mark of ``pipeline`` on a table; None when there is none: it has not written the table, or before marks."""
    path = _file(paths, pipeline)
    try:
        document = json.loads(io.read(path))
        named = document["pipeline"]
        if named != pipeline:
            if named.lower() == pipeline.lower():
                return None  # file names do not tell case here
            raise ValueError(f"it names pipeline {named!r}")
        return PipelineMark(pipeline, tuple(map(str, document["unmarked"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(
            f"{path} is not readable ({error!r}); remove it: the table's snapshots say the same"
        ) from error


def marking_pipelines(io: FileIO, paths: TablePaths) -> list[str]:
    """The pipelines that have written a table, as far as they left marks, by name."""
    names = io.list_names(f"{paths.root}/tidemark")
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def write_mark(io: FileIO, paths: TablePaths, pipeline: str, unmarked: Iterable[str]) -> None:
    """Make the mark durable; replaces an earlier one."""
    document = {"pipeline": pipeline, "unmarked": sorted(unmarked)}
    io.write(_file(paths, pipeline), json.dumps(document).encode())


def _file(paths: TablePaths, pipeline: str) -> str:
    return f"{paths.root}/tidemark/{pipeline}.json"
