"""The readers that are compared on a finished Paimon table: Tidemark's own, pypaimon's, and Java's core.

Each is a process that reads the table some times and times itself, so neither its start nor its check counts. The
median of all turns but the first counts.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.side_by_side.columns import KEY
from benchmarks.side_by_side.reads import ROW_KIND, KeyRange, Read
from benchmarks.side_by_side.systems.system import Launch
from tests.interop.environment import java_class_path, pypaimon_python
from tests.stack.paths import java_command
from tidemark import __version__

WORKERS = Path(__file__).resolve().parents[1] / "workers"
PROJECT = WORKERS.parents[2]
TURNS = 6
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Read a table. ``directory`` is empty and belongs to this run alone."""

    read: Read
    table: str
    keys: KeyRange | None
    schema: pa.Schema
    """Of the table."""
    directory: Path

    @property
    def times(self) -> Path:
        """The process's record of its turns: JSON of seconds and processor seconds."""
        return self.directory / "times.json"

    @property
    def output(self) -> Path:
        """Where the process writes the rows."""
        return self.directory / "output"

    def seconds(self) -> tuple[float, float]:
        """Of a turn, and its processor seconds: medians."""
        turns = json.loads(self.times.read_text())[1:]
        return statistics.median(wall for wall, _ in turns), statistics.median(cpu for _, cpu in turns)


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read a Paimon table."""

    name: str
    title: str
    launch: Callable[[ReadTask], Launch]
    """Write the files of the process into the directory of the task, and give its command."""
    content: Callable[[ReadTask], pa.Table]
    """The rows that the process has read."""


def _python(name: str, interpreter: Callable[[], str | Path]) -> Callable[[ReadTask], Launch]:
    def launch(task: ReadTask) -> Launch:
        orders = {
            "path": task.table,
            "what": task.read.what,
            "key": KEY,
            "keys": None if task.keys is None else [task.keys.lower, task.keys.upper],
            "turns": TURNS,
            "times": str(task.times),
            "output": str(task.output),
        }
        path = task.directory / "task.json"
        path.write_text(json.dumps(orders))
        command = (str(interpreter()), str(WORKERS / "table_reader.py"), name, str(path))
        return Launch(command, _environment(name))

    return launch


def _environment(name: str) -> Mapping[str, str]:
    others = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**others, "PYTHONPATH": str(PROJECT)} if name == "tidemark" else others


def _java(task: ReadTask) -> Launch:
    lower, upper = (0, 0) if task.keys is None else (task.keys.lower, task.keys.upper)
    class_path = ":".join(map(str, java_class_path()))
    head = (java_command(), "-Xmx4g", "-Duser.timezone=UTC", "-cp", class_path, str(WORKERS / "PaimonReader.java"))
    arguments = (task.table, task.read.what, KEY, lower, upper, TURNS, task.times, task.output)
    return Launch((*head, *map(str, arguments)), os.environ)


def _lines(task: ReadTask) -> pa.Table:
    fields: Sequence[pa.Field] = [pa.field(ROW_KIND, pa.string()), *task.schema]
    rows = pc.read_csv(
        task.output,
        read_options=pc.ReadOptions(column_names=[field.name for field in fields]),
        parse_options=pc.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pc.ConvertOptions(column_types={field.name: field.type for field in fields}),
    )
    return rows if task.read.what == "changes" else rows.drop_columns([ROW_KIND])


def _parquet(task: ReadTask) -> pa.Table:
    return pq.read_table(task.output)


READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("tidemark", f"Tidemark {__version__}", _python("tidemark", lambda: sys.executable), _parquet),
        Reader("pypaimon", "pypaimon 2.1.0", _python("pypaimon", pypaimon_python), _parquet),
        Reader("paimon-java", "Paimon 1.4.2, Java, one thread", _java, _lines),
    )
}
"""In the order of the report; the others are compared with the first."""
