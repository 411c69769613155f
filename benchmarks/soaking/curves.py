"""The curves of a soak: which of them are judged by what allowance, and how they are drawn."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from benchmarks.flatness import Allowance, Verdict, judge
from benchmarks.line_charts import Mark, Panel, Point, draw
from benchmarks.soaking.samples import Sample

PROCESSES = ("driver", "jvm", "workers")
_GROWING = "clicks"
"""The table that only gets rows: its bytes are judged by row."""
_SMOOTHED = 10
"""Batches of which the curve shows the median."""
_START_BATCHES = 20
"""The memory, threads and open files of a life's first batches belong to its start, however long that lasts."""

Batch = tuple[float, int, float]
"""Seconds since the beginning, life, seconds that it took."""


def batches_in(log: Path, began_at: float, starts: Sequence[float]) -> list[Batch]:
    """The batches that the service has reported; ``began_at`` is the time since 1970, ``starts`` are those of its
    lives.

    The first batch of a life is left out: most of its time is the start of Spark's workers.
    """
    found: list[Batch] = []
    last_life = 0
    for event in _events(log):
        if event["event"] == "batch":
            at_s = datetime.fromisoformat(event["time"]).timestamp() - began_at
            life = sum(start <= at_s for start in starts)
            if life == last_life:
                found.append((at_s, life, float(event["seconds"])))
            last_life = life
    return found


def _events(log: Path) -> Iterator[dict[str, str]]:
    """Lines of the log that are whole: a killed process may leave half a line."""
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def judged(samples: Sequence[Sample], tables: Sequence[str]) -> list[Verdict]:
    """One verdict for each curve that must stay flat. Of batches it is processor time: others use the machine too."""
    of_process = {
        "own_mb": {"driver": Allowance(0.1, 15), "jvm": Allowance(0.2, 60), "workers": Allowance(0.1, 40)},
        "open_files": dict.fromkeys(PROCESSES, Allowance(0.05, 10)),
        "threads": dict.fromkeys(PROCESSES, Allowance(0.05, 6)),
        "processes": {"workers": Allowance(0, 1)},
    }
    of_run = {
        **{f"{table}.files": Allowance(0.1, 60) for table in tables},
        **{f"{table}.mb": Allowance(0.1, 0.5) for table in tables if table != _GROWING},
        **{f"{table}.snapshots": Allowance(0.1, 6) for table in tables},
        "checkpoint.files": Allowance(0.05, 20),
        "checkpoint.mb": Allowance(0.1, 0.5),
        "local.files": Allowance(0.1, 60),
        "local.mb": Allowance(0.1, 20),
        "temporary.files": Allowance(0.1, 10),
        "metric_lines": Allowance(0.05, 10),
    }
    settled = list(_settled(samples))
    found = [
        judge(f"{kind}.{what}", _points(settled, f"{kind}.{what}"), allowance, by_life=True)
        for what, kinds in of_process.items()
        for kind, allowance in kinds.items()
    ]
    found += [judge(name, _points(samples, name), allowance, by_life=False) for name, allowance in of_run.items()]
    by_row = [(sample.life, value) for sample in samples if (value := _bytes_by_row(sample)) is not None]
    found.append(judge(f"{_GROWING} bytes by row", by_row, Allowance(0.1, 10), by_life=False))
    used = [(life, seconds) for _, life, seconds in _processor_seconds(samples)]
    found.append(judge("processor seconds of a batch", used, Allowance(0.1, 0.05), by_life=True))
    return [verdict for verdict in found if verdict is not None]


def _settled(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Those of each life that has closed its first ``_START_BATCHES``."""
    for _, of_life in groupby(samples, lambda sample: sample.life):
        mine = list(of_life)
        yield from (sample for sample in mine if sample.batch - mine[0].batch >= _START_BATCHES)


def _points(samples: Sequence[Sample], name: str) -> list[tuple[int, float]]:
    return [(sample.life, sample.numbers[name]) for sample in samples if name in sample.numbers]


def _processor_seconds(samples: Sequence[Sample]) -> Iterator[Batch]:
    """Of a batch, over the last ``_SMOOTHED`` batches or more, all processes together."""
    first = 0
    for at, sample in enumerate(samples):
        before = samples[max(at - 1, 0)]
        if sample.life != before.life or sample.numbers.get("processor_s", 0.0) < before.numbers.get(
            "processor_s", 0.0
        ):
            first = at  # a process has begun, or one of several was killed with what it had used
        while first + 1 <= at and sample.batch - samples[first + 1].batch >= _SMOOTHED:
            first += 1
        count, used = sample.batch - samples[first].batch, "processor_s"
        if count >= _SMOOTHED and used in sample.numbers and used in samples[first].numbers:
            yield sample.at_s, sample.life, (sample.numbers[used] - samples[first].numbers[used]) / count


def _bytes_by_row(sample: Sample) -> float | None:
    rows = sample.numbers.get(f"{_GROWING}.rows", 0)
    return sample.numbers[f"{_GROWING}.mb"] * 1e6 / rows if rows else None


def curves(
    path: Path, heading: str, samples: Sequence[Sample], batches: Sequence[Batch], tables: Sequence[str],
    marks: Sequence[Mark],
) -> None:  # fmt: skip
    """Draw them all."""

    def of(names: Sequence[str], what: str, starts_anew: bool) -> Mapping[str, Sequence[Point]]:
        return {name: list(_line(samples, f"{name}.{what}", starts_anew)) for name in names}

    used = list(_by_life(_processor_seconds(samples)))
    folders = ("checkpoint", "checkpoint-quarantine", "local", "temporary")
    panels = [
        Panel("own memory, MB", of(PROCESSES, "own_mb", True)),
        Panel("resident memory, MB (with mapped files)", of(PROCESSES, "resident_mb", True)),
        Panel("open files", of(PROCESSES, "open_files", True)),
        Panel("threads", of(PROCESSES, "threads", True)),
        Panel("seconds of a batch", {"it took": list(_by_life(_smooth(batches))), "of processors": used}),
        Panel("lag, records", {"lag": list(_line(samples, "lag", True))}),
        Panel("files of a table", of(tables, "files", False)),
        Panel("MB of a table", of(tables, "mb", False)),
        Panel("rows of a table, with what waits to be merged", of(tables, "rows", False)),
        Panel("snapshots of a table", of(tables, "snapshots", False)),
        Panel("files beside the tables", of(folders, "files", False)),
        Panel("MB beside the tables", of(folders, "mb", False)),
    ]
    draw(path, heading, panels, marks, max((sample.at_s for sample in samples), default=1.0))


def _line(samples: Sequence[Sample], name: str, starts_anew: bool) -> Iterator[Point]:
    life = 0
    for sample in samples:
        if starts_anew and sample.life != life:
            yield sample.at_s, None
            life = sample.life
        if name in sample.numbers:
            yield sample.at_s, sample.numbers[name]


def _smooth(batches: Sequence[Batch]) -> Iterator[Batch]:
    for life, of_life in groupby(batches, lambda batch: batch[1]):
        mine = list(of_life)
        for first in range(0, len(mine), _SMOOTHED):
            part = mine[first : first + _SMOOTHED]
            middle: Callable[[Iterator[float]], float] = statistics.median
            yield middle(at for at, _, _ in part), life, middle(seconds for _, _, seconds in part)


def _by_life(batches: Iterable[Batch]) -> Iterator[Point]:
    """As a line that starts over with each life."""
    last: int | None = None
    for at_s, life, seconds in batches:
        if last not in (None, life):
            yield at_s, None
        last = life
        yield at_s, seconds
