"""Tidemark beside what users would take instead: the same topic, in turn, tables checked before a time counts.

    python -m benchmarks.side_by_side [--events N] [--workloads uniform,zipf,append] [--systems tidemark,delta]
                                      [--turns N] [--publish]

Sets up each system in an environment of its own (about 2 GB of downloads the first time), starts a broker on loopback,
fills a topic for each workload and runs the systems over it, one after the other. ``--publish`` writes the tables and
plots of docs/BENCHMARKS.md; ``--republish`` does so from the result file and measures nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.side_by_side.environments import NotSetUp
from benchmarks.side_by_side.measuring import SystemFailed
from benchmarks.side_by_side.report import publish
from benchmarks.side_by_side.results import Results, Topic, load, results_here
from benchmarks.side_by_side.running import FilledTopic, run_system
from benchmarks.side_by_side.systems import SYSTEMS
from benchmarks.side_by_side.systems.system import System
from benchmarks.side_by_side.workloads import WORKLOADS, Workload, changes_of, expected_rows, records
from benchmarks.topic_filling import fill
from tests.stack.kafka import KafkaBroker

HOME_VARIABLE = "SIDE_BY_SIDE_HOME"
PROJECT = Path(__file__).resolve().parents[2]
PARTITIONS = 2
_Named = TypeVar("_Named")


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    home = args.home.resolve()
    results_file = args.results or home / "results.json"
    if args.republish:
        publish(load(results_file), results_file, home)
        return 0
    workloads = [_named(name, WORKLOADS, "--workloads") for name in args.workloads.split(",")]
    systems, problems = _ready([_named(name, SYSTEMS, "--systems") for name in args.systems.split(",")], args, home)
    results = results_here()
    with tempfile.TemporaryDirectory(prefix="side-by-side-", ignore_cleanup_errors=True) as directory:
        broker = KafkaBroker(Path(directory) / "kafka")
        broker.start()
        try:
            for workload in workloads:
                topic = _filled(broker, workload, workload.event_count(args.events))
                for number in range(1, args.turns + 1):
                    for system in systems:
                        try:
                            results = _with_run(results, system, topic, number, home, args.cores)
                        except SystemFailed as error:
                            problems.append(f"{system.name}, {workload.name}: {error}")
                            print(problems[-1], flush=True)
                        results.save(results_file)
        finally:
            broker.stop()
    print(f"results: {results_file}")
    if args.publish:
        publish(results, results_file, home)
    for problem in problems:
        print(f"not measured: {problem.splitlines()[0]}", file=sys.stderr)
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="of each workload; some take a part of it")
    parser.add_argument("--workloads", default="uniform,zipf,append", help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="in which turn they run")
    parser.add_argument("--turns", type=int, default=1, help="how often each system runs on each workload")
    parser.add_argument("--cores", type=int, default=2, help="for each system")
    parser.add_argument(
        "--home",
        type=Path,
        default=Path(os.environ.get(HOME_VARIABLE, PROJECT / "build" / "side_by_side")),
        help=f"where environments and results are; {HOME_VARIABLE} says it too (default: build/side_by_side)",
    )
    parser.add_argument("--results", type=Path, help="result file (default: results.json in the home)")
    parser.add_argument("--ready-only", action="store_true", help="leave out systems that are not set up yet")
    parser.add_argument("--publish", action="store_true", help="write docs/BENCHMARKS.md and its plots")
    parser.add_argument("--republish", action="store_true", help="only write them again from the result file")
    return parser


def _named(name: str, found: Mapping[str, _Named], option: str) -> _Named:
    if name not in found:
        raise SystemExit(f"{option}: there is no {name!r}; write one of {', '.join(found)}")
    return found[name]


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


def _filled(broker: KafkaBroker, workload: Workload, count: int) -> FilledTopic:
    changes = changes_of(workload, count)
    name = f"{workload.name}.public.orders"
    size = fill(broker, name, PARTITIONS, records(changes, workload.tables))
    facts = Topic(count, size, len(np.unique(changes.keys)), changes.row_count)
    print(
        f"{workload.name}: {count} events of {size / count:.0f} bytes, {facts.keys} keys, {facts.rows} rows at the end"
    )
    return FilledTopic(workload, broker.bootstrap_servers, name, facts, expected_rows(changes, workload.tables))


def _with_run(results: Results, system: System, topic: FilledTopic, number: int, home: Path, cores: int) -> Results:
    # Beside the temporary directory of the broker, which goes at the end: the files of a wrong table stay.
    directory = Path(tempfile.mkdtemp(prefix=f"side-by-side-{system.name}-")) / topic.workload.name
    run = run_system(system, topic, number, directory, home, cores)
    directory.parent.rmdir()
    cost = run.cost
    print(
        f"{topic.workload.name} {number}: {system.name:13}{cost.events_per_s:9.0f} events/s, "
        f"{cost.cpu_s_per_million:6.1f} CPU s per million, {cost.peak_memory_bytes >> 20:5} MiB, "
        f"{cost.written_bytes / 1e6:7.0f} MB written, {cost.seconds:6.1f} s with start",
        flush=True,
    )
    return results.with_run(run)


if __name__ == "__main__":
    sys.exit(main())
