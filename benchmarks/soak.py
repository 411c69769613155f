"""A pipeline as it lives for months, in an hour: kills, new columns, pauses, bad records; nothing is lost or grows.

    python -m benchmarks.soak [--batches 1500] [--minutes 90] [--seed 1] [--kills 12] [--interval 200ms] [--out DIR]

Starts a broker on loopback and a pipeline over seven tables of different kinds. Each closed batch is followed by a few
hundred more changes, so that the load ends by itself and never runs ahead. The service is started again whenever it
ends, as systemd does. Memory, open files, threads, files on disk and snapshots are looked at every few seconds.

At the end every row is compared with the source by two readers (Tidemark's and Java Paimon's), and the curves are
judged by the rule in ``flatness``. ``--out`` gets soak.json and soak.png. Exit code 1 where rows differ, a curve is not
flat, a process outlives its driver, or the service ends without having been killed. Ctrl-C ends the load and still does
all of that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.flatness import Verdict
from benchmarks.line_charts import Mark
from benchmarks.soaking.check import orphans, wrong_quarantine, wrong_rows
from benchmarks.soaking.curves import Batch, batches_in, curves, judged
from benchmarks.soaking.run import CHANGES, TABLES_PER_BATCH, Soak
from benchmarks.soaking.schedule import Change, schedule
from benchmarks.soaking.source import KEYS, KINDS
from tests.stack.kafka import running_kafka

TABLES = [kind.name for kind in KINDS]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1_500)
    parser.add_argument("--minutes", type=float, default=90.0, help="the load ends then, whatever was reached")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=12, help="of driver, JVM, one or all Python workers, all of these")
    parser.add_argument("--interval", default="200ms", help="trigger of the pipeline")
    parser.add_argument("--out", type=Path, default=Path("soak-output"))
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    steps = schedule(args.batches, args.kills, Random(args.seed))
    with _scratch() as root, running_kafka(root / "broker") as topics:
        soak = Soak(root, topics, args.seed, args.interval)
        try:
            soak.fill()
            with suppress(KeyboardInterrupt):
                soak.run(steps, args.batches, args.minutes * 60)
            soak.finish()
            wrong = [*soak.wrong, *_wrong_content(soak)]
            found = _curves(soak, args.out)
        finally:
            soak.close()
            shutil.copy(soak.service.log, args.out / "service.jsonl")
    sys.exit(_told(found, wrong))


@contextmanager
def _scratch() -> Iterator[Path]:
    """A directory of its own, which goes with the run."""
    root = Path(tempfile.mkdtemp(prefix="tidemark-soak-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _wrong_content(soak: Soak) -> list[str]:
    """What differs from the source, before and after files that nothing references were removed."""
    sources = list(soak.sources.values())
    warehouse = soak.root / "warehouse"
    wrong = wrong_rows(warehouse, sources) + wrong_quarantine(soak.root / "checkpoint-quarantine", soak.bad)
    left = {table: orphans(warehouse / "lake.db" / table) for table in TABLES}
    soak.tell(f"files that killed writers have left, removed now: {left}")
    return wrong + [f"after remove-orphans: {text}" for text in wrong_rows(warehouse, sources)]


def _curves(soak: Soak, out: Path) -> list[Verdict]:
    """Judge the curves, and write soak.json and soak.png."""
    samples = soak.samples.taken
    starts = [start - soak.began_at for start in soak.service.starts]
    batches = batches_in(soak.service.log, soak.began_at, starts)
    verdicts = judged(samples, TABLES)
    conditions = _conditions(soak, batches)
    document: dict[str, Any] = {
        "conditions": conditions,
        "events": soak.events,
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "batches": [(round(at_s, 2), life, seconds) for at_s, life, seconds in batches],
        "samples": [asdict(sample) for sample in samples],
    }
    (out / "soak.json").write_text(json.dumps(document))
    marks = [
        Mark(at_s, "kill" if text.startswith("killed") else "change")
        for at_s, _, text in soak.events
        if text.startswith("killed") or text in set(Change)
    ]
    heading = (
        f"{conditions['batches']} batches, {conditions['records']:,} records, {len(TABLES)} tables, "
        f"{conditions['lives']} lives of the service; seconds on the x axis; red: kills, blue: changes"
    )
    curves(out / "soak.png", heading, samples, batches, TABLES, marks)
    return verdicts


def _conditions(soak: Soak, batches: Sequence[Batch]) -> dict[str, Any]:
    return {
        "batches": soak.service.closed_batches(),
        "records": soak.records,
        "bad_records": len(soak.bad),
        "lives": len(soak.service.starts),
        "seconds": round(soak.now_s),
        "seed": soak.seed,
        "keys_per_table": KEYS,
        "changes_per_batch": CHANGES * TABLES_PER_BATCH,
        "rows": {name: len(source.rows) for name, source in soak.sources.items()},
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "batches_timed": len(batches),
    }


def _told(verdicts: Sequence[Verdict], wrong: Sequence[str]) -> int:
    """Print the table and the faults; gives the exit code."""
    print(f"{'curve':28} {'middle third':>14} {'last third':>14} {'at most':>14}")
    for verdict in verdicts:
        word = {True: "flat", False: "NOT FLAT", None: "too short to say"}[verdict.is_flat]
        print(f"{verdict.series:28} {verdict.middle:14,.2f} {verdict.last:14,.2f} {verdict.limit:14,.2f}  {word}")
    rising = [verdict.series for verdict in verdicts if verdict.is_flat is False]
    for text in [*wrong, *(f"not flat: {series}" for series in rising)]:
        print(f"WRONG: {text}")
    if not wrong and not rising:
        print("all rows and bad records are right, and every curve is flat")
    return 1 if wrong or rising else 0


if __name__ == "__main__":
    main()
