"""The measurements as a JSON file, from which a report can be written again, on another day and another machine."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import psutil

from benchmarks.side_by_side.measuring import Cost

_LOOK_S = 3.0
"""How long other work is measured, with nothing of the benchmark running."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured."""

    processor: str
    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Topic:
    """The events of a workload, in numbers."""

    events: int
    bytes: int
    """Of the values of all events."""
    keys: int
    rows: int
    """Of the table at the end."""


@dataclass(frozen=True, slots=True)
class Run:
    """One system on one workload, its table found right."""

    workload: str
    system: str
    title: str
    number: int
    """From 1: in which turn."""
    topic: Topic
    settings: Mapping[str, str]
    cost: Cost
    progress: Sequence[tuple[float, int]]
    """Seconds since the start, events in the table."""
    busy: float = 0.0
    """``Results.busy`` of its session."""


@dataclass(frozen=True, slots=True)
class Results:
    """All runs of one session on one machine, or of several sessions that continued each other."""

    machine: Machine
    measured_on: str
    busy: float
    """The share of all cores that other work took right before the start."""
    runs: tuple[Run, ...] = ()

    def with_run(self, run: Run) -> Results:
        return replace(self, runs=(*self.runs, replace(run, busy=self.busy)))

    def before(self, later: Results, workloads: Collection[str]) -> Results:
        """A session that continues with these runs, except for workloads that it runs again."""
        if self.machine != later.machine:
            raise ValueError(f"measured on another machine: {self.machine}, this is {later.machine}")
        kept = tuple(run for run in self.runs if run.workload not in workloads)
        return replace(later, runs=(*kept, *later.runs))

    def save(self, path: Path) -> None:
        """Replace the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self), indent=1) + "\n")
        beside.replace(path)


def results_here() -> Results:
    """Of this machine, still without runs."""
    cores = os.cpu_count() or 1
    machine = Machine(_processor(), cores, psutil.virtual_memory().total)
    return Results(machine, date.today().isoformat(), round(psutil.cpu_percent(_LOOK_S) / 100, 2))


def load(path: Path) -> Results:
    """What ``save`` wrote."""
    document = json.loads(path.read_text())
    runs = tuple(
        Run(
            **{
                **run,
                "topic": Topic(**run["topic"]),
                "cost": Cost(**run["cost"]),
                "progress": tuple((at, events) for at, events in run["progress"]),
            }
        )
        for run in document["runs"]
    )
    return Results(Machine(**document["machine"]), document["measured_on"], document["busy"], runs)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
