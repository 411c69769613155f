"""One system on one topic: run it, check its table against the events, and only then give its cost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.side_by_side.contents import difference
from benchmarks.side_by_side.measuring import Sample, SystemFailed, cost_of, measured
from benchmarks.side_by_side.results import Run, Topic
from benchmarks.side_by_side.systems.system import System, Task
from benchmarks.side_by_side.workloads import Workload

TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """A topic that holds all events of a workload, and the tables that they make."""

    workload: Workload
    bootstrap_servers: str
    name: str
    facts: Topic
    expected: Mapping[str, pa.Table]
    """By the name of the table."""


def run_system(system: System, topic: FilledTopic, number: int, directory: Path, home: Path, cores: int) -> Run:
    """Run it in ``directory``, which is removed afterwards; SystemFailed if it fails or its table is wrong."""
    samples = finish(system, topic, directory, home, cores)
    shutil.rmtree(directory)
    return Run(
        workload=topic.workload.name,
        system=system.name,
        title=system.title,
        number=number,
        topic=topic.facts,
        settings=system.settings(topic.workload),
        cost=cost_of(samples, topic.facts.events),
        progress=_steps(samples, topic.facts.events),
    )


def finish(system: System, topic: FilledTopic, directory: Path, home: Path, cores: int) -> list[Sample]:
    """Bring all events into tables in ``directory``, which stay; SystemFailed if it fails or one is wrong."""
    directory.mkdir(parents=True)
    task = Task(topic.workload, topic.bootstrap_servers, topic.name, topic.facts.events, directory, home, cores)
    launch = system.launch(task)
    with system.watching(task) as events_done:
        log_file = directory / "log.txt"
        samples = measured(
            launch.command, launch.environment, log_file, events_done, lambda: system.is_over(task), TIMEOUT_S
        )
    for table, rows in topic.expected.items():
        wrong = difference(rows, system.content(task, table))
        if wrong is not None:
            raise SystemFailed(f"{table}: {wrong}; its files stay in {directory}")
    return samples


def _steps(samples: list[Sample], event_count: int) -> tuple[tuple[float, int], ...]:
    """Where the progress changed; at the end all events are there, whether or not the progress had said so before."""
    steps = [(0.0, 0)]
    for sample in samples:
        if sample.events > steps[-1][1]:
            steps.append((round(sample.at_s, 2), sample.events))
    return (*steps, (round(samples[-1].at_s, 2), event_count))
