"""Samples that the soak takes every few seconds: memory, open files, threads, files on disk, snapshots, rows."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.folders import folder_use
from benchmarks.peaks import ProcessUse, process_use
from benchmarks.soaking.service import Service

Numbers = dict[str, float]
"""By the name of the series, such as ``jvm.own_mb`` or ``orders.files``."""

_EVERY_S = 3.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. ``life`` counts starts of the process: memory and open files start over with each."""

    at_s: float
    batch: int
    life: int
    numbers: Mapping[str, float]


@dataclass(slots=True)
class Samples:
    """Looks at the service and its folders; in the order of time."""

    service: Service
    root: Path
    port: int
    tables: Sequence[str]
    began_s: float
    taken: list[Sample] = field(default_factory=list)
    _next_s: float = 0.0

    def poll(self, batch: int) -> None:
        """Look, if it is time to."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _EVERY_S
        numbers = self._processes() | self._folders() | self._scraped()
        self.taken.append(Sample(round(now_s - self.began_s, 1), batch, self.service.life, numbers))

    def _processes(self) -> Numbers:
        numbers: Numbers = {}
        for kind, processes in self.service.processes().items():
            uses = [use for process in processes if (use := _use(process)) is not None]
            if uses:
                numbers[f"{kind}.own_mb"] = sum(use.own_bytes for use in uses) / 1e6
                numbers[f"{kind}.resident_mb"] = sum(use.resident_bytes for use in uses) / 1e6
                numbers[f"{kind}.open_files"] = sum(use.open_files for use in uses)
                numbers[f"{kind}.threads"] = sum(use.threads for use in uses)
                numbers[f"{kind}.processes"] = len(uses)
            numbers["processor_s"] = numbers.get("processor_s", 0.0) + sum(map(_processor_s, processes))
        return numbers

    def _folders(self) -> Numbers:
        numbers: Numbers = {}
        places = {name: self.root / name for name in ("checkpoint", "checkpoint-quarantine", "local", "temporary")}
        places |= {table: self.root / "warehouse" / "lake.db" / table for table in self.tables}
        for name, place in places.items():
            if name in self.tables and not place.exists():
                continue  # a table that comes later: its curve begins with it
            use = folder_use(place)
            numbers[f"{name}.files"], numbers[f"{name}.mb"] = use.files, use.size_bytes / 1e6
        for table in self.tables:
            snapshots = places[table] / "snapshot"
            ids = [int(file.name.removeprefix("snapshot-")) for file in snapshots.glob("snapshot-*")]
            if ids:
                numbers[f"{table}.snapshots"] = len(ids)
                with suppress(FileNotFoundError):
                    newest = json.loads((snapshots / f"snapshot-{max(ids)}").read_text())
                    numbers[f"{table}.rows"] = newest["totalRecordCount"]
        return numbers

    def _scraped(self) -> Numbers:
        """The metrics of the process, as Prometheus reads them."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        paused = sum(line.endswith(" 1.0") for line in lines if 'state="paused"' in line)
        lag = sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("tidemark_lag_records{"))
        return {"paused": paused, "lag": lag, "metric_lines": len(lines)}


def _use(process: psutil.Process) -> ProcessUse | None:
    with suppress(OSError):
        return process_use(process.pid)
    return None


def _processor_s(process: psutil.Process) -> float:
    """Its use so far, including ended children."""
    with suppress(psutil.Error):
        return float(sum(process.cpu_times()[:4]))
    return 0.0
