"""From ``tidemark run`` to the first commit on a machine that never ran it, with each reader of Kafka.

    python -m benchmarks.first_start [--rounds 3] [--records 10000]

The readers take turns. Each run begins without a table, without a checkpoint and without the jars that the reader
``spark`` needs: Ivy gets an empty directory, and fetches them from the Maven repository that it knows. Prints seconds
from the start of the process, and the megabytes that Ivy fetched.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.events import TOPIC, events
from benchmarks.topic_filling import fill
from tests.stack.kafka import KafkaBroker

READERS = ("direct", "spark")
POLL_S = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=10_000)
    args = parser.parse_args()
    commits: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory) / "kafka")
        broker.start()
        try:
            fill(broker, TOPIC, 2, events(args.records, args.records // 5))
            for number in range(args.rounds):
                for reader in READERS:
                    root = Path(directory) / f"{reader}-{number}"
                    commit_s, end_s = first_commit(root, broker.bootstrap_servers, reader)
                    fetched = sum(path.stat().st_size for path in (root / "ivy").rglob("*") if path.is_file())
                    commits[reader].append(commit_s)
                    print(
                        f"{reader:8} first commit {commit_s:.1f} s, end {end_s:.1f} s, fetched {fetched / 1e6:.0f} MB",
                        flush=True,
                    )
        finally:
            broker.stop()
    direct, spark = (statistics.median(commits[reader]) for reader in READERS)
    print(f"first commit: direct {direct:.1f} s, spark {spark:.1f} s, {spark / direct:.1f} times as long")


def first_commit(root: Path, servers: str, reader: str) -> tuple[float, float]:
    """Seconds from the start of a run until its table has a snapshot, and until the run has ended."""
    (root / "ivy").mkdir(parents=True)
    file, log = root / "pipeline.yaml", root / "log"
    pipeline = {
        "version": 1,
        "name": "first-start",
        "source": {
            "kafka": {"bootstrap_servers": servers, "topics": [TOPIC], "reader": reader},
            "format": "debezium-json",
        },
        "checkpoint": f"{root}/checkpoint",
        "catalog": {"warehouse": f"{root}/warehouse"},
        "spark": {"master": "local[2]", "spark.jars.ivy": f"{root}/ivy"},
        "tables": [{"match": {"table": "(.*)"}, "into": "lake.{table}"}],
    }
    file.write_text(json.dumps(pipeline))  # JSON is YAML
    began_s = time.monotonic()
    with log.open("wb") as out:
        command = [sys.executable, "-m", "tidemark", "run", str(file), "--once"]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        commit_s = 0.0
        while process.poll() is None:
            if not commit_s and any(root.glob("warehouse/*/*/snapshot/snapshot-1")):
                commit_s = time.monotonic() - began_s
            time.sleep(POLL_S)
    if process.returncode or not commit_s:
        raise SystemExit(f"reader {reader} failed with code {process.returncode}:\n{log.read_text()[-2000:]}")
    return commit_s, time.monotonic() - began_s


if __name__ == "__main__":
    main()
