"""Tidemark compared with its alternatives: the same topic, in turn, tables checked before a time counts.

    python -m benchmarks.side_by_side [--events N] [--workloads uniform,wide,read-all] [--systems tidemark,delta]
                                      [--turns N] [--publish]

Sets up each system in an environment of its own (about 2 GB of downloads the first time), starts a broker on loopback,
fills a topic for each workload and runs the systems over it, one after the other. The workloads ``read-*`` run readers
over a table that Tidemark has written. ``--publish`` writes the tables and plots of docs/BENCHMARKS.md; ``--republish``
does so from the result file and measures nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.side_by_side.changes import changes_of, expected_rows, records
from benchmarks.side_by_side.environments import NotSetUp
from benchmarks.side_by_side.measuring import SystemFailed
from benchmarks.side_by_side.reading import FinishedTable, finished_table, run_reader
from benchmarks.side_by_side.reads import READS, Read
from benchmarks.side_by_side.report import publish
from benchmarks.side_by_side.results import Results, Run, Topic, load, results_here
from benchmarks.side_by_side.running import FilledTopic, run_system
from benchmarks.side_by_side.systems import SYSTEMS
from benchmarks.side_by_side.systems.readers import READERS, Reader
from benchmarks.side_by_side.systems.system import System
from benchmarks.side_by_side.workloads import WORKLOADS, Workload
from benchmarks.topic_filling import fill
from tests.stack.kafka import KafkaBroker
from tests.stack.paths import StackUnavailable

HOME_VARIABLE = "SIDE_BY_SIDE_HOME"
PROJECT = Path(__file__).resolve().parents[2]
PARTITIONS = 2
ALL_WORKLOADS: Mapping[str, Workload | Read] = {**WORKLOADS, **READS}
ALL_SYSTEMS: Mapping[str, System | Reader] = {**SYSTEMS, **READERS}
_Named = TypeVar("_Named")


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    home = args.home.resolve()
    results_file = args.results or home / "results.json"
    if args.republish:
        publish(load(results_file), results_file, home)
        return 0
    results = results_here()
    if args.add:
        results = _continued(results_file, results, args.workloads.split(","))
    names = args.systems.split(",")
    for name in names:
        _named(name, ALL_SYSTEMS, "--systems")
    compared = [_named(name, ALL_WORKLOADS, "--workloads") for name in args.workloads.split(",")]
    is_writing = any(isinstance(one, Workload) for one in compared)
    wanted = [SYSTEMS[name] for name in names if name in SYSTEMS] if is_writing else []
    systems, problems = _ready(wanted, args, home)
    with tempfile.TemporaryDirectory(prefix="side-by-side-", ignore_cleanup_errors=True) as directory:
        broker = KafkaBroker(Path(directory) / "kafka")
        broker.start()
        session = Session(broker, Path(directory), args, home, results_file, results, problems)
        try:
            for one in compared:
                if isinstance(one, Workload):
                    session.write(one, systems)
                else:
                    session.read(one, [READERS[name] for name in names if name in READERS])
        finally:
            broker.stop()
    print(f"results: {results_file}")
    if args.publish:
        publish(session.results, results_file, home)
    for problem in problems:
        print(f"not measured: {problem.splitlines()[0]}", file=sys.stderr)
    return 1 if problems else 0


@dataclass(slots=True)
class Session:
    """All runs of one command."""

    broker: KafkaBroker
    directory: Path
    args: argparse.Namespace
    home: Path
    results_file: Path
    results: Results
    problems: list[str]
    """What could not be measured, and why."""
    tables: dict[str, FinishedTable] = field(default_factory=dict)
    """Those that are read, by their workload: written when the first reader wants one."""

    def write(self, workload: Workload, systems: Sequence[System]) -> None:
        """Run the systems on a workload by turns."""
        topic = _filled(self.broker, workload, workload.event_count(self.args.events))
        for number in range(1, self.args.turns + 1):
            for system in systems:
                run = partial(run_system, system, topic, number, home=self.home, cores=self.args.cores)
                self._keep(f"{system.name}, {workload.name}", system.name, workload.name, run)

    def read(self, read: Read, readers: Sequence[Reader]) -> None:
        """Run the readers on a table by turns."""
        try:
            table = self._table(read.written)
        except SystemFailed as error:
            self._tell(f"{read.name}, the table to read: {error}")
            return
        for number in range(1, self.args.turns + 1):
            for reader in readers:
                run = partial(run_reader, reader, read, table, number)
                self._keep(f"{reader.name}, {read.name}", reader.name, read.name, run)

    def _table(self, workload: Workload) -> FinishedTable:
        if workload.name not in self.tables:
            topic = _filled(self.broker, workload, workload.event_count(self.args.events), "read")
            directory = self.directory / f"read-{workload.name}"
            self.tables[workload.name] = finished_table(topic, directory, self.home, self.args.cores)
        return self.tables[workload.name]

    def _keep(self, what: str, system: str, workload: str, run: Callable[[Path], Run]) -> None:
        # Not in the temporary directory of the broker, which is removed at the end: the files of a wrong table stay.
        directory = Path(tempfile.mkdtemp(prefix=f"side-by-side-{system}-")) / workload
        try:
            done = run(directory)
        except (SystemFailed, StackUnavailable) as error:
            self._tell(f"{what}: {error}")
            return
        directory.parent.rmdir()
        print(_line(done), flush=True)
        self.results = self.results.with_run(done)
        self.results.save(self.results_file)

    def _tell(self, problem: str) -> None:
        self.problems.append(problem)
        print(problem, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="of each workload; some take a part of it")
    parser.add_argument("--workloads", default=",".join(ALL_WORKLOADS), help=f"of {', '.join(ALL_WORKLOADS)}")
    parser.add_argument("--systems", default=",".join(ALL_SYSTEMS), help="in which turn they run")
    parser.add_argument("--turns", type=int, default=1, help="how often each system runs on each workload")
    parser.add_argument("--cores", type=int, default=2, help="for each system")
    parser.add_argument(
        "--home",
        type=Path,
        default=Path(os.environ.get(HOME_VARIABLE, PROJECT / "build" / "side_by_side")),
        help=f"where environments and results are; {HOME_VARIABLE} says it too (default: build/side_by_side)",
    )
    parser.add_argument("--results", type=Path, help="result file (default: results.json in the home)")
    parser.add_argument("--add", action="store_true", help="keep the runs of other workloads that the result file has")
    parser.add_argument("--ready-only", action="store_true", help="leave out systems that are not set up yet")
    parser.add_argument("--publish", action="store_true", help="write docs/BENCHMARKS.md and its plots")
    parser.add_argument("--republish", action="store_true", help="only write them again from the result file")
    return parser


def _named(name: str, found: Mapping[str, _Named], option: str) -> _Named:
    if name not in found:
        raise SystemExit(f"{option}: there is no {name!r}; write one of {', '.join(found)}")
    return found[name]


def _continued(results_file: Path, results: Results, workloads: Sequence[str]) -> Results:
    try:
        return load(results_file).before(results, workloads)
    except FileNotFoundError:
        raise SystemExit(
            f"--add: there is no {results_file}; leave --add out, or name the file with --results"
        ) from None
    except ValueError as error:
        raise SystemExit(f"--add: {results_file}: {error}; leave --add out, or name another --results") from error


def _ready(systems: Sequence[System], args: argparse.Namespace, home: Path) -> tuple[list[System], list[str]]:
    """The systems that can run, set up now where that is wanted, and why others cannot."""
    ready: list[System] = []
    problems: list[str] = []
    for system in systems:
        environment = system.environment
        if environment is not None and args.ready_only and not environment.is_set_up(home):
            print(f"{system.name}: left out, because it is not set up in {home}")
            continue
        try:
            if environment is not None:
                environment.set_up(home)
        except NotSetUp as error:
            problems.append(str(error))
            continue
        ready.append(system)
    return ready, problems


def _filled(broker: KafkaBroker, workload: Workload, count: int, topic: str = "written") -> FilledTopic:
    changes = changes_of(workload, count)
    name = f"{workload.name}.{topic}.orders"
    size = fill(broker, name, PARTITIONS, records(workload, changes))
    facts = Topic(count, size, len(np.unique(changes.keys)), changes.row_count)
    print(
        f"{workload.name}: {count} events of {size / count:.0f} bytes, {facts.keys} keys, {facts.rows} rows at the end"
    )
    return FilledTopic(workload, broker.bootstrap_servers, name, facts, expected_rows(workload, changes))


def _line(run: Run) -> str:
    cost = run.cost
    what = "rows" if run.workload in READS else "events"
    return (
        f"{run.workload} {run.number}: {run.system:13}{cost.events_per_s:9.0f} {what}/s, "
        f"{cost.cpu_s_per_million:6.1f} CPU s per million, {cost.peak_memory_bytes >> 20:5} MiB, "
        f"{cost.written_bytes / 1e6:7.0f} MB written, {cost.seconds:6.1f} s with start"
    )


if __name__ == "__main__":
    sys.exit(main())
