"""Turns results into the measured part of docs/BENCHMARKS.md: a table for each workload, and the plots beside it."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.results import Results, Run
from benchmarks.side_by_side.workloads import WORKLOADS

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "BENCHMARKS.md"
IMAGES = PROJECT / "docs" / "images"
PLOTS = Path(__file__).with_name("plots.py")
PLOT_ENVIRONMENT = Environment("plots", ("matplotlib==3.10.8",))
BEGIN, END = "<!-- measured: python -m benchmarks.side_by_side -->", "<!-- end of measured -->"
BUSY = 0.5


def publish(results: Results, results_file: Path, home: Path) -> None:
    """Replace the measured part of the page and draw the plots again."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{PAGE} lacks the lines {BEGIN} and {END}: put them where the tables belong")
    PAGE.write_text(f"{head}{BEGIN}\n\n{measured_part(results)}\n{END}{tail}")
    PLOT_ENVIRONMENT.set_up(home)
    command = [str(PLOT_ENVIRONMENT.python(home)), str(PLOTS), str(results_file), str(IMAGES)]
    subprocess.run(command, check=True)


def measured_part(results: Results) -> str:
    """The Markdown between the marks."""
    machine = results.machine
    lines = [
        f"Measured on {results.measured_on}: {machine.processor}, {machine.cores} cores, "
        f"{machine.memory_bytes / (1 << 30):.0f} GiB of memory. The broker ran on the same cores.",
    ]
    if results.busy >= BUSY:
        lines += [
            "",
            f"**The machine was busy with other work** ({results.busy:g} processes per core at the start): compare"
            " processor time, not events/s.",
        ]
    lines += ["", "![Events per second and processor time of each system](images/side-by-side.svg)", ""]
    for name in dict.fromkeys(run.workload for run in results.runs):
        lines += [*_workload_part(name, [run for run in results.runs if run.workload == name]), ""]
    lines += ["![Events in the table over time](images/side-by-side-progress.svg)"]
    return "\n".join((*lines, ""))


def _workload_part(name: str, runs: Sequence[Run]) -> list[str]:
    topic, workload = runs[0].topic, WORKLOADS[name]
    turns = max(run.number for run in runs)
    keys = "" if workload.is_append else f" over {_number(topic.keys)} keys"
    tables = "" if workload.table_count == 1 else f" in {workload.table_count} tables"
    commits = f"At most {_number(workload.events_per_commit)} events a batch, a checkpoint each"
    return [
        f"### {workload.title}",
        "",
        f"{_number(topic.events)} events of {topic.bytes / topic.events:.0f} bytes{keys}; "
        f"{_number(topic.rows)} rows{tables} at the end. {commits} {workload.checkpoint_ms / 1000:g} s."
        + ("" if turns == 1 else f" Medians of {turns} turns."),
        "",
        "| system | events/s | Tidemark is | processor s per million events | peak memory | written to disk "
        "| whole run, with start |",
        "|---|---|---|---|---|---|---|",
        *(_row([run for run in runs if run.system == system], runs) for system in _systems(runs)),
    ]


def _systems(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.system for run in runs))


def _row(own: Sequence[Run], all_runs: Sequence[Run]) -> str:
    cells = (
        own[0].title,
        _number(_median(own, lambda run: run.cost.events_per_s)),
        _ratio(own, all_runs),
        f"{_median(own, lambda run: run.cost.cpu_s_per_million):.1f}",
        f"{_number(_median(own, lambda run: run.cost.peak_memory_bytes / 1e6))} MB",
        f"{_number(_median(own, lambda run: run.cost.written_bytes / 1e6))} MB",
        f"{_median(own, lambda run: run.cost.seconds):.1f} s",
    )
    return f"| {' | '.join(cells)} |"


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
    """Three significant digits of large numbers are what a run can tell."""
    digits = max(0, len(str(round(value))) - 3) if value >= 1000 and value != int(value) else 0
    return f"{round(value, -digits):,.0f}".replace(",", " ")
