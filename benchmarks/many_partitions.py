"""One batch that touches many partitions: time, memory and open files of the processes of a pipeline.

    python -m benchmarks.many_partitions [--partitions 2000] [--rows 200000] [--producer none] [--buckets 1]

A dump of Debezium events whose rows lie in that many partitions is read as two batches, each of which touches all of
them: inserts, then updates of the same keys. It runs as ``tidemark run --once`` with ``local[2]``; the memory of the
processes is measured from outside.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from paimon_table import Table

_YAML = """\
version: 1
name: many
source:
  files: {{ path: {root}/dump, max_records_per_batch: {rows} }}
  format: debezium-json
checkpoint: {root}/checkpoint
catalog: {{ type: filesystem, warehouse: {root}/warehouse }}
spark: {{ master: "local[2]", spark.driver.memory: 1g }}
tables:
  - match: {{ schema: public, table: orders }}
    into: lake.orders
    primary_key: [day, id]
    partition_by: [day]
    options: {{ bucket: {buckets}, changelog-producer: {producer} }}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--producer", default="none")
    parser.add_argument("--buckets", type=int, default=1)
    args = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="many-partitions-"))
    try:
        _write_dump(root / "dump", args.partitions, args.rows)
        file = root / "pipeline.yaml"
        file.write_text(_YAML.format(root=root, rows=args.rows, producer=args.producer, buckets=args.buckets))
        _run(file)
        _tell(root)
    finally:
        shutil.rmtree(root)


def _write_dump(directory: Path, partitions: int, rows: int) -> None:
    directory.mkdir(parents=True)
    with (directory / "shop.public.orders.jsonl").open("w") as out:
        for offset in range(2 * rows):
            out.write(json.dumps(_record(offset, offset % rows, partitions)) + "\n")


def _record(offset: int, key: int, partitions: int) -> dict[str, object]:
    row = {"id": key, "day": f"day-{key % partitions:05d}", "name": f"customer number {offset:08d}", "amount": offset}
    source = {"db": "shop", "schema": "public", "table": "orders", "lsn": offset, "connector": "postgresql"}
    value = {"before": None, "after": row, "source": source, "op": "c" if key == offset else "u", "ts_ms": offset}
    record: dict[str, object] = {"topic": "shop.public.orders", "partition": 0, "offset": offset, "ts": offset}
    return {
        **record,
        "key": json.dumps({"id": key, "day": row["day"]}),
        "payload": json.dumps(value),
    }


def _run(file: Path) -> None:
    tidemark = Path(sys.executable).with_name("tidemark")
    started = time.perf_counter()
    process = subprocess.Popen([str(tidemark), "run", str(file), "--once"])
    peak: dict[str, int] = {}
    while process.poll() is None:
        for name, value in _sizes(process.pid):
            peak[name] = max(peak.get(name, 0), value)
        time.sleep(0.05)
    print(f"{time.perf_counter() - started:.1f} s, exit code {process.returncode}")
    for name, value in sorted(peak.items()):
        print(f"  {name}: {value:,}")


def _sizes(pid: int) -> list[tuple[str, int]]:
    """The driver's and the JVM's memory (MB) and open files, and those of the worker that has the most."""
    found = []
    try:
        driver = psutil.Process(pid)
        processes = [driver, *driver.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    for process in processes:
        try:
            kind = "driver" if process.pid == pid else "jvm" if process.name() == "java" else "worker"
            found += [(f"{kind} MB", process.memory_info().rss >> 20), (f"{kind} open files", process.num_fds())]
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
            continue
    return found


def _tell(root: Path) -> None:
    table = Table.open_for_reading(str(root / "warehouse" / "lake.db" / "orders"))
    state = table.state()
    files = [file for of_bucket in state.files.values() for file in of_bucket]
    print(f"  {len(state.files):,} buckets, {len(files):,} files, {sum(f.row_count for f in files):,} stored rows")
    for snapshot_id in range(1, state.snapshot_id + 1):
        snapshot = table.snapshots.read(snapshot_id)
        print(f"  snapshot {snapshot_id}: {snapshot.commit_kind}, {snapshot.delta_record_count:,} rows")


if __name__ == "__main__":
    main()
