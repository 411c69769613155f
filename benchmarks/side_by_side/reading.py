"""One reader on one finished table: run it, check its rows, and only then give its cost."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.side_by_side.contents import by_key, changes_difference, difference
from benchmarks.side_by_side.measuring import Cost, SystemFailed, measured
from benchmarks.side_by_side.reads import Read
from benchmarks.side_by_side.results import Run, Topic
from benchmarks.side_by_side.running import TIMEOUT_S, FilledTopic, finish
from benchmarks.side_by_side.systems.readers import Reader, ReadTask
from benchmarks.side_by_side.systems.tidemark_pipeline import TidemarkPipeline, table_directory
from benchmarks.side_by_side.workers.table_reader import tidemark_changes, tidemark_kinds


@dataclass(frozen=True, slots=True)
class FinishedTable:
    """A Paimon table that has all events of its workload."""

    path: Path
    facts: Topic
    rows: pa.Table
    changes: pa.Table
    """Its whole changelog, ordered by key."""


def finished_table(topic: FilledTopic, directory: Path, home: Path, cores: int) -> FinishedTable:
    """Let Tidemark write the table in ``directory``; SystemFailed if its rows or its changelog are wrong."""
    finish(TidemarkPipeline(), topic, directory, home, cores)
    [(name, rows)] = topic.expected.items()
    path = table_directory(directory, name)
    changes = by_key(tidemark_kinds(tidemark_changes(str(path))))
    wrong = changes_difference(rows, changes)
    if wrong is not None:
        raise SystemFailed(f"changelog of {name}: {wrong}; its files stay in {directory}")
    return FinishedTable(path, topic.facts, rows, changes)


def run_reader(reader: Reader, read: Read, table: FinishedTable, number: int, directory: Path) -> Run:
    """Run it in ``directory``, which is removed afterwards; SystemFailed if it fails or reads something else."""
    directory.mkdir(parents=True)
    task = ReadTask(read, str(table.path), read.key_range(table.rows), table.rows.schema, directory)
    launch = reader.launch(task)
    samples = measured(launch.command, launch.environment, directory / "log.txt", lambda: 0, lambda: False, TIMEOUT_S)
    expected = read.expected(table.rows, table.changes)
    wrong = difference(expected, reader.content(task))
    if wrong is not None:
        raise SystemFailed(f"{read.name}: {wrong}; its files stay in {directory}")
    last, (seconds, cpu_s) = samples[-1], task.seconds()
    shutil.rmtree(directory)
    cost = Cost(
        seconds=last.at_s,
        cpu_s=last.use.cpu_s,
        half_events=expected.num_rows,
        half_seconds=seconds,
        half_cpu_s=cpu_s,
        peak_memory_bytes=max(sample.use.memory_bytes for sample in samples),
        written_bytes=last.use.written_bytes,
    )
    return Run(read.name, reader.name, reader.title, number, table.facts, {}, cost, ())
