"""One hot table among cool ones in a batch: when the changelog of each is published.

    python -m benchmarks.hot_table [--rows 400000] [--cool 3] [--cool-rows 2000] [--master 'local[2]']

A dump is read as two batches, inserts, then updates of the same keys, with ``changelog-producer: lookup``. The rows of
the hot table are in one bucket. Shown is how long after the first rows of the second batch (APPEND) each table has its
changelog (COMPACT). If they were published together, all would have it when the last one has.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from paimon_table import CommitKind, Snapshot, Table

_YAML = """\
version: 1
name: hot
source:
  files: {{ path: {root}/dump, max_records_per_batch: {records} }}
  format: debezium-json
checkpoint: {root}/checkpoint
catalog: {{ type: filesystem, warehouse: {root}/warehouse }}
spark: {{ master: "{master}", spark.driver.memory: 1g }}
defaults: {{ options: {{ bucket: 1, changelog-producer: lookup }} }}
tables:
  - match: {{ schema: public, table: (.*) }}
    into: 'lake.{{table}}'
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--cool", type=int, default=3)
    parser.add_argument("--cool-rows", type=int, default=2_000)
    parser.add_argument("--master", default="local[2]")
    args = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="hot-table-"))
    try:
        rows = {"hot": args.rows, **{f"cool{number}": args.cool_rows for number in range(args.cool)}}
        (root / "dump").mkdir()
        with (root / "dump" / "all.jsonl").open("w") as out:
            out.writelines(_lines(rows))
        file = root / "pipeline.yaml"
        file.write_text(_YAML.format(root=root, records=sum(rows.values()), master=args.master))
        subprocess.run([str(Path(sys.executable).with_name("tidemark")), "run", str(file), "--once"], check=True)
        _tell(root, list(rows))
    finally:
        shutil.rmtree(root)


def _lines(rows: dict[str, int]) -> Iterator[str]:
    for op in ("c", "u"):
        for table, count in rows.items():
            for key in range(count):
                offset = key if op == "c" else count + key
                yield json.dumps(_record(table, op, key, offset)) + "\n"


def _record(table: str, op: str, key: int, offset: int) -> dict[str, object]:
    source = {"db": "shop", "schema": "public", "table": table, "lsn": offset, "connector": "postgresql"}
    after = {"id": key, "name": f"customer number {offset:08d}", "amount": offset}
    value = {"before": None, "after": after, "source": source, "op": op, "ts_ms": offset}
    place = {"topic": f"shop.public.{table}", "partition": 0, "offset": offset, "ts": offset}
    return {**place, "key": json.dumps({"id": key}), "payload": json.dumps(value)}


def _tell(root: Path, tables: Sequence[str]) -> None:
    times = {name: dict(_last_batch(root, name)) for name in tables}
    begun_ms = min(of_table[CommitKind.APPEND] for of_table in times.values())
    for name, of_table in times.items():
        print(f"  {name}: changelog {(of_table[CommitKind.COMPACT] - begun_ms) / 1000:.2f} s after the first rows")


def _last_batch(root: Path, table: str) -> Iterator[tuple[CommitKind, int]]:
    """When the snapshots of the table's last batch were published, in milliseconds."""
    snapshots = Table.open_for_reading(str(root / "warehouse" / "lake.db" / table)).snapshots
    newest = snapshots.latest_id() or 0
    found: list[Snapshot] = [snapshots.read(snapshot_id) for snapshot_id in range(1, newest + 1)]
    for snapshot in found:
        if snapshot.commit_identifier == found[-1].commit_identifier:
            yield snapshot.commit_kind, snapshot.time_ms


if __name__ == "__main__":
    main()
