"""Draws the plots of a result file, in an environment of its own: ``plots.py RESULTS.json DIRECTORY BARS``.

``BARS`` is JSON: by the name of each image the workloads that it shows as bars.
"""

import json
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

COLOURS = {
    "tidemark": "#1f6fb2",
    "paimon-flink": "#d1495b",
    "iceberg": "#2e8b57",
    "delta": "#b07d12",
    "pypaimon": "#7a5195",
    "paimon-java": "#d1495b",
}
SHORT = {
    "tidemark": "Tidemark",
    "paimon-flink": "Paimon on Flink",
    "iceberg": "Iceberg MERGE",
    "delta": "Delta MERGE",
    "pypaimon": "pypaimon",
    "paimon-java": "Paimon Java",
}
ACROSS = 4
APPEND = {"iceberg": "Iceberg append", "delta": "Delta append"}


def main() -> None:
    results = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(sys.argv[2])
    # Text stays text; ids and dates would differ with each drawing.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "side-by-side", "font.size": 10})
    plt.rcParams.update({"font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False})
    runs = results["runs"]
    for name, workloads in json.loads(sys.argv[3]).items():
        save(bars([run for one in workloads for run in runs if run["workload"] == one]), directory / f"{name}.svg")
    followed = [run for run in runs if run["progress"]]
    if followed:
        save(progress(followed), directory / "side-by-side-progress.svg")


def save(figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")
    plt.close(figure)


def bars(runs):
    """Events per second and processor time, a group of bars for each workload."""
    workloads = list(dict.fromkeys(run["workload"] for run in runs))
    figure, panels = plt.subplots(
        len(workloads), 2, figsize=(10, 0.6 + 1.6 * len(workloads)), squeeze=False, layout="constrained"
    )
    for row, workload in zip(panels, workloads, strict=True):
        own = [run for run in runs if run["workload"] == workload]
        what = "events" if own[0]["progress"] else "rows"
        draw_bars(row[0], own, f"{what}/s", rate, workload)
        draw_bars(row[1], own, f"processor s per million {what}", cpu_per_million, workload)
    return figure


def draw_bars(panel, runs, what, value, workload):
    systems = list(dict.fromkeys(run["system"] for run in runs))
    values = [statistics.median(value(run) for run in runs if run["system"] == system) for system in systems]
    names = [name_of(system, workload) for system in systems]
    drawn = panel.barh(names, values, color=[COLOURS.get(system, "#8a8a8a") for system in systems], height=0.7)
    panel.bar_label(drawn, [text_of(one) for one in values], padding=4)
    panel.invert_yaxis()
    panel.set_title(f"{workload}: {what}", loc="left", fontsize=10, fontweight="bold")
    panel.set_xlim(0, max(values) * 1.18)
    panel.tick_params(left=False, bottom=False, labelbottom=False)
    panel.spines["bottom"].set_visible(False)


def progress(runs):
    """Events in the table over time, the first turn of each workload."""
    workloads = list(dict.fromkeys(run["workload"] for run in runs))
    across = min(ACROSS, len(workloads))
    down = -(-len(workloads) // across)
    figure, panels = plt.subplots(
        down, across, figsize=(1 + 3.6 * across, 3.4 * down), squeeze=False, layout="constrained"
    )
    for panel in panels.flat[len(workloads) :]:
        panel.set_visible(False)
    for panel, workload in zip(panels.flat, workloads, strict=False):
        for run in runs:
            if run["workload"] == workload and run["number"] == 1:
                times, events = zip(*run["progress"], strict=True)
                name = name_of(run["system"], workload)
                panel.plot(times, [one / 1000 for one in events], color=COLOURS.get(run["system"]), label=name)
        panel.set_title(workload, loc="left", fontsize=10, fontweight="bold")
        panel.set_xlabel("seconds since the start of the process")
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.legend(frameon=False, fontsize=8, loc="lower right")
    for row in panels:
        row[0].set_ylabel("thousand events in the table")
    return figure


def name_of(system, workload):
    return APPEND.get(system, SHORT.get(system, system)) if workload == "append" else SHORT.get(system, system)


def rate(run):
    return run["cost"]["half_events"] / run["cost"]["half_seconds"]


def cpu_per_million(run):
    return run["cost"]["half_cpu_s"] / run["cost"]["half_events"] * 1e6


def text_of(value):
    return f"{value:,.0f}".replace(",", " ") if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    main()
