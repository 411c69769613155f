"""From the command to the end of a run over a dump, by phase; processor time of `--help` and `validate`.

    python -m benchmarks.startup [--against DIR] [--rounds N] [--records N] [--new N]

Runs `tidemark run FILE --once` as a user does: over a dump of ``--records`` into tables that are not there yet ("new"),
then over ``--new`` more of them with the tables and the checkpoint in place ("restart"). With ``--against`` the same is
done with another checkout (its `.venv` too), by turns, and the last column is our time divided by its. Times are the
medians of the rounds, in seconds; processor time is that of all processes of the run. Modules are compiled once, as in
an installation, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tidemark
from benchmarks.events import TOPIC, events

ROOT = Path(__file__).resolve().parents[1]
PIPELINE = """\
version: 1
name: startup
source:
  files: {path: dumps}
  format: debezium-json
checkpoint: out/checkpoint
catalog: {warehouse: out/warehouse}
spark: {master: "local[2]"}
tables:
  - match: {table: orders}
    into: lake.orders
    options: {bucket: "2", changelog-producer: lookup}
"""
_KEYS = 20_000
_PHASES = (
    ("interpreter and imports", "interpreter", "JVM begins"),
    ("JVM", "JVM begins", "JVM ends"),
    ("session", "session begins", "session ends"),
    ("checkpoint, tables, stream", "session ends", "query start ends"),
    ("to the first batch", "query start ends", "batch begins"),
    ("discarded runs of it", "collect begins", "last decode begins"),
    ("first batch", "batch begins", "batch ends"),
    ("to the end of Spark", "batch ends", "stop ends"),
    ("report", "stop ends", "exit"),
)
"""Name, mark at which it begins, mark at which it ends; the discarded runs are a part of the first batch."""


@dataclass(frozen=True, slots=True)
class Times:
    """One run of a command."""

    wall_s: float
    processor_s: float
    phases_s: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--new", type=int, default=1_000)
    args = parser.parse_args()
    checkouts = [ROOT] if args.against is None else [ROOT, args.against.resolve()]
    with tempfile.TemporaryDirectory(prefix="tidemark-startup-") as directory:
        place = Path(directory)
        (place / "pipeline.yaml").write_text(PIPELINE)
        write_dump(place / "first.jsonl", args.records, 0)
        write_dump(place / "more.jsonl", args.new, args.records)
        found: dict[str, list[list[Times]]] = {}
        for number in range(args.rounds):
            for index in range(len(checkouts)):
                checkout = checkouts[(index + number) % len(checkouts)]
                for name, times in one_round(checkout, place).items():
                    per_checkout = found.setdefault(name, [[] for _ in checkouts])
                    per_checkout[checkouts.index(checkout)].append(times)
    for name, per_checkout in found.items():
        show(name, per_checkout)


def write_dump(path: Path, count: int, first: int) -> None:
    with path.open("w") as out:
        for number, (key, value) in enumerate(events(count, _KEYS, first_step=first), first):
            record = {"topic": TOPIC, "partition": 0, "offset": number, "ts": 1_700_000_000_000 + number}
            out.write(json.dumps({**record, "key": key.decode(), "payload": value.decode()}) + "\n")


def one_round(checkout: Path, place: Path) -> dict[str, Times]:
    shutil.rmtree(place / "out", ignore_errors=True)
    shutil.rmtree(place / "dumps", ignore_errors=True)
    (place / "dumps").mkdir()
    os.link(place / "first.jsonl", place / "dumps" / "first.jsonl")
    times = {"new": run(checkout, place, "run", "pipeline.yaml", "--once")}
    first_rows = row_count(place)
    os.link(place / "more.jsonl", place / "dumps" / "more.jsonl")
    times["restart"] = run(checkout, place, "run", "pipeline.yaml", "--once")
    print(f"{checkout}: {first_rows} rows, then {row_count(place)}", flush=True)
    return times | {
        "--help": run(checkout, place, "--help"),
        "validate": run(checkout, place, "validate", "pipeline.yaml"),
    }


def row_count(place: Path) -> int:
    return len(tidemark.read_table(place / "out/warehouse/lake.db/orders", ["id"]))


def run(checkout: Path, place: Path, *arguments: str) -> Times:
    marks = place / "marks.json"
    marks.unlink(missing_ok=True)
    launcher = [str(checkout / ".venv/bin/python"), str(ROOT / "benchmarks/startup_marks.py"), str(marks)]
    began_s = time.monotonic()
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [*launcher, repr(began_s), *arguments],
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    used_s: dict[int, float] = {}
    while process.poll() is None:
        note_processor_time(process.pid, used_s)
        time.sleep(0.05)
    wall_s = time.monotonic() - began_s
    if process.returncode:
        assert process.stderr is not None
        raise SystemExit(f"{checkout}: {' '.join(arguments)}: {process.stderr.read().decode()}")
    if not used_s:  # over before it was looked at
        used_s[process.pid] = wall_s
    return Times(wall_s, sum(used_s.values()), phases(json.loads(marks.read_text())))


def note_processor_time(root: int, used_s: dict[int, float]) -> None:
    """The processor time so far of a process and all below it, by process id (Linux)."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    now_s: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid], now_s[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks
    for pid in now_s:
        above = pid
        while above and above != root:
            above = parents.get(above, 0)
        if above == root:
            used_s[pid] = now_s[pid]


def phases(marks: Sequence[Sequence[object]]) -> dict[str, float]:
    at: dict[str, float] = {}
    for name, moment in marks:
        at.setdefault(str(name), float(str(moment)))
    decodes = [float(str(moment)) for name, moment in marks if name == "collect begins"]
    if decodes:
        at["last decode begins"] = decodes[-1]
    return {name: at[end] - at[begin] for name, begin, end in _PHASES if begin in at and end in at}


def show(name: str, per_checkout: Sequence[Sequence[Times]]) -> None:
    print(f"\n{name}")
    rows = [("processor time", [[t.processor_s for t in times] for times in per_checkout])]
    rows += [("wall", [[t.wall_s for t in times] for times in per_checkout])]
    rows += [
        (phase, [[t.phases_s.get(phase, 0.0) for t in times] for times in per_checkout]) for phase, _, _ in _PHASES
    ]
    for title, values in rows:
        medians = [statistics.median(of_one) for of_one in values]
        if any(medians):
            ratio = f"{medians[0] / medians[1]:8.2f}" if len(medians) > 1 and medians[1] else ""
            print(f"  {title:28}" + "".join(f"{median:8.2f}" for median in medians) + ratio)


if __name__ == "__main__":
    main()
