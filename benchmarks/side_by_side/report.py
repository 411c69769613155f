"""Turns results into the measured part of docs/BENCHMARKS.md: a table for each workload, and the plots."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.reads import READS
from benchmarks.side_by_side.results import Results, Run
from benchmarks.side_by_side.workloads import WORKLOADS

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "BENCHMARKS.md"
IMAGES = PROJECT / "docs" / "images"
PLOTS = Path(__file__).with_name("plots.py")
PLOT_ENVIRONMENT = Environment("plots", ("matplotlib==3.10.8",))
BEGIN, END = "<!-- measured: python -m benchmarks.side_by_side -->", "<!-- end of measured -->"
BUSY = 0.1
FIRST = ("uniform", "zipf", "append")
"""Workloads of the first plot."""
_Cell = Callable[[Sequence[Run], Sequence[Run]], str]
"""Gives the text for the runs of one system among those of all."""


def publish(results: Results, results_file: Path, home: Path) -> None:
    """Replace the measured part of the page and draw the plots again."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{PAGE} lacks the lines {BEGIN} and {END}: put them where the tables belong")
    PAGE.write_text(f"{head}{BEGIN}\n\n{measured_part(results)}\n{END}{tail}")
    PLOT_ENVIRONMENT.set_up(home)
    plots = json.dumps({plot.name: plot.workloads for plot in plots_of(results)})
    command = [str(PLOT_ENVIRONMENT.python(home)), str(PLOTS), str(results_file), str(IMAGES), plots]
    subprocess.run(command, check=True)


@dataclass(frozen=True, slots=True)
class Plot:
    """An image of the page: a group of bars for each workload."""

    name: str
    shows: str
    workloads: Sequence[str]


def plots_of(results: Results) -> Sequence[Plot]:
    """Those that have something to show; the first one is in the README, too, and stays small."""
    shown = {run.workload for run in results.runs}
    names = [name for name in (*WORKLOADS, *READS) if name in shown]
    first = [name for name in names if name in FIRST]
    more = [name for name in names if name in WORKLOADS and name not in FIRST]
    reads = [name for name in names if name in READS]
    plots = (
        Plot("side-by-side", "Events per second and processor time of each system", first),
        Plot("side-by-side-more", "The same of the other workloads", more),
        Plot("side-by-side-reads", "Rows per second and processor time of each reader", reads),
    )
    return [plot for plot in plots if plot.workloads]


def measured_part(results: Results) -> str:
    """The Markdown between the marks."""
    machine = results.machine
    lines = [
        f"Measured on {results.measured_on}: {machine.processor}, {machine.cores} cores, "
        f"{machine.memory_bytes / (1 << 30):.0f} GiB of memory. The broker ran on the same cores.",
        "",
    ]
    for plot in plots_of(results):
        lines += [f"![{plot.shows}](images/{plot.name}.svg)", ""]
        for name in plot.workloads:
            part = _read_part if name in READS else _workload_part
            lines += [*part(name, [run for run in results.runs if run.workload == name]), ""]
    if any(run.progress for run in results.runs):
        lines += ["![Events in the table over time](images/side-by-side-progress.svg)"]
    return "\n".join(lines).rstrip() + "\n"


def _workload_part(name: str, runs: Sequence[Run]) -> list[str]:
    topic, workload = runs[0].topic, WORKLOADS[name]
    turns = max(run.number for run in runs)
    keys = "" if workload.is_append else f" over {_number(topic.keys)} keys"
    tables = "" if workload.table_count == 1 else f" in {workload.table_count} tables"
    most, every = _number(workload.events_per_commit), f"{workload.checkpoint_ms / 1000:g} s"
    commits = (
        f"A batch of `MERGE` has at most {most} events. Flink makes a checkpoint every {every}; "
        "a batch of Tidemark should take as long."
        if workload.is_paced
        else f"A batch has at most {most} events. Flink makes a checkpoint every {every}."
    )
    return [
        f"### {workload.title}",
        "",
        f"{_number(topic.events)} events of {topic.bytes / topic.events:.0f} bytes{keys}; "
        f"{_number(topic.rows)} rows{tables} at the end. {commits}"
        + ("" if turns == 1 else f" Medians of {turns} turns."),
        "",
        *_busy(runs),
        *_table(_WRITE_COLUMNS, runs),
    ]


def _read_part(name: str, runs: Sequence[Run]) -> list[str]:
    topic, turns = runs[0].topic, max(run.number for run in runs)
    return [
        f"### {READS[name].title}",
        "",
        f"{_number(runs[0].cost.half_events)} rows a read, of a table of {_number(topic.rows)} rows that "
        f"{_number(topic.events)} events made." + ("" if turns == 1 else f" Medians of {turns} turns."),
        "",
        *_busy(runs),
        *_table(_READ_COLUMNS, runs),
    ]


def _busy(runs: Sequence[Run]) -> list[str]:
    busy = max(run.busy for run in runs)
    if busy < BUSY:
        return []
    return [
        f"**The machine was busy with other work** ({100 * busy:.0f} % of the cores at the start): compare processor "
        "time, not events/s.",
        "",
    ]


def _table(columns: Mapping[str, _Cell], runs: Sequence[Run]) -> list[str]:
    by_system = [[run for run in runs if run.system == system] for system in _systems(runs)]
    rows = [[cell(own, runs) for cell in columns.values()] for own in by_system]
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *(f"| {' | '.join(row)} |" for row in rows)]


def _systems(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.system for run in runs))


def _ratio(own: Sequence[Run], all_runs: Sequence[Run]) -> str:
    """How many times the rate of each turn Tidemark has in the same turn; the median of these."""
    ours = {run.number: run.cost.events_per_s for run in all_runs if run.system == "tidemark"}
    if own[0].system == "tidemark":
        return ""
    ratios = [ours[run.number] / run.cost.events_per_s for run in own if run.number in ours]
    return f"{statistics.median(ratios):.1f} times as fast" if ratios else ""


def _median(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return statistics.median(map(value, runs))


def _number(value: float) -> str:
    """Three significant digits: the accuracy of a run."""
    digits = max(0, len(str(round(value))) - 3) if value >= 1000 and value != int(value) else 0
    return f"{round(value, -digits):,.0f}".replace(",", " ")


_WRITE_COLUMNS: Mapping[str, _Cell] = {
    "system": lambda own, _: own[0].title,
    "events/s": lambda own, _: _number(_median(own, lambda run: run.cost.events_per_s)),
    "Tidemark is": _ratio,
    "processor s per million events": lambda own, _: f"{_median(own, lambda run: run.cost.cpu_s_per_million):.1f}",
    "peak memory": lambda own, _: f"{_number(_median(own, lambda run: run.cost.peak_memory_bytes / 1e6))} MB",
    "written to disk": lambda own, _: f"{_number(_median(own, lambda run: run.cost.written_bytes / 1e6))} MB",
    "all events, with start": lambda own, _: f"{_median(own, lambda run: run.cost.seconds):.1f} s",
}
_READ_COLUMNS: Mapping[str, _Cell] = {
    "reader": lambda own, _: own[0].title,
    "rows/s": lambda own, _: _number(_median(own, lambda run: run.cost.events_per_s)),
    "Tidemark is": _ratio,
    "a read": lambda own, _: f"{_number(_median(own, lambda run: run.cost.half_seconds * 1000))} ms",
    "its processor time": lambda own, _: f"{_number(_median(own, lambda run: run.cost.half_cpu_s * 1000))} ms",
    "peak memory": lambda own, _: f"{_number(_median(own, lambda run: run.cost.peak_memory_bytes / 1e6))} MB",
}
