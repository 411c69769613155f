"""Dynamic buckets with a large index: time per batch and memory with 1, 20 and 100 million indexed keys.

    python -m benchmarks.dynamic_index [--keys MILLIONS ...] [--batches N] [--rows N]

Each size runs in a process of its own. The index has the hashes of that many keys, as in a table with these keys; there
are no data files. A batch is ``--rows`` rows (100 000), nine of ten for keys that are there, all over the table, one of
ten for new ones. "assign" is everything that dynamic buckets add to it: lanes, the index of each lane, buckets, and the
durable index files of the buckets that grow. Every batch rewrites these as a whole, as the format demands. Their size
depends on the newest buckets, which hold at most 2,000,000 keys each, and not on the number of all keys. So their time
is also shown on its own. "batch" has the data files and the commit on top, for rows of the keys that came last (rows
all over the table touch more buckets the larger it is, as with fixed ones). Decoding comes before both: the first line
has the time of one core for as many Debezium events. "first" is the first batch of a process, which reads and merges
the index. "restart" is that of another process on the same machine, which finds it merged. Memory is that of the
process: its own, and with the mapped index.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from benchmarks import json_decoding
from paimon_table.bucket_assignment.dynamic_lanes import assigner_numbers
from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.bucket_assignment.owned_buckets import DEFAULT_ASSIGNERS
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.hash_index import write_hashes
from paimon_table.metadata.index_file import IndexChange
from paimon_table.row_kind import VALUE_KIND
from paimon_table.rows.hashes import Hashes, murmur_hash_columns
from paimon_table.surroundings import random_uuid
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import WriterEnvironment
from pipelines.spark.session import LOCAL_ALLOCATION
from sources.debezium_json.decoder import DebeziumJsonDecoder
from tests.support.table_driver import new_table

BUCKET_ROWS = 2_000_000
"""Keys of a full bucket, as many as by default."""
COLUMNS = [("id", "BIGINT"), ("name", "STRING"), ("amount", "BIGINT")]


def fill_index(table: Table, key_count: int) -> None:
    """Index files as they are when the keys from 0 on have come, one behind the other."""
    messages = []
    for number in range(DEFAULT_ASSIGNERS):
        owned = in_order_of_arrival(key_count, number)
        for nth, start in enumerate(range(0, len(owned), BUCKET_ROWS)):
            hashes = np.sort(owned[start : start + BUCKET_ROWS])
            written = write_hashes(table.io, table.paths, random_uuid(), DEFAULT_ASSIGNERS, hashes)
            bucket = BucketId(EMPTY_ROW, number + nth * DEFAULT_ASSIGNERS)
            messages.append(CommitMessage(bucket=bucket, total_buckets=-1, append_index=IndexChange(after=(written,))))
    table.io.sync()
    table.new_commit("filler").commit(0, messages, {})


def in_order_of_arrival(key_count: int, number: int) -> Hashes:
    """The hashes of one assigner. Keys that differ in their lower 32 bits alone have hashes that differ."""
    owned = []
    for start in range(0, key_count, 1 << 23):
        keys = pa.array(np.arange(start, min(start + (1 << 23), key_count)))
        hashes = murmur_hash_columns([keys], [parse_type("BIGINT")])
        owned.append(hashes[assigner_numbers(hashes, DEFAULT_ASSIGNERS) == number])
    return np.concatenate(owned)


def batch_of(keys: np.ndarray) -> pa.Table:
    return pa.table({
        "id": pa.array(keys, pa.int64()),
        "name": pa.array([f"name {key % 1000}" for key in keys.tolist()]),
        "amount": pa.array(keys % 10_000, pa.int64()),
        VALUE_KIND: pa.array(np.zeros(len(keys), np.int8)),
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock and of the processor, which others on the machine disturb less."""

    clock_s: float
    processor_s: float

    @staticmethod
    def since(started: Spent) -> Spent:
        return Spent(time.perf_counter() - started.clock_s, time.process_time() - started.processor_s)

    @staticmethod
    def now() -> Spent:
        return Spent(time.perf_counter(), time.process_time())


def median(spent: Sequence[Spent]) -> str:
    clock, processor = statistics.median(s.clock_s for s in spent), statistics.median(s.processor_s for s in spent)
    return f"{1000 * clock:5.0f} ms ({1000 * processor:4.0f} of the processor)"


class Batches:
    """Batches of rows, new keys coming behind those that are indexed."""

    def __init__(self, table: Table, lookup_dir: str, key_count: int, rows: int) -> None:
        self._table = table
        self._commit = table.new_commit("bench")
        self._environment = WriterEnvironment(lookup_dir)
        self._key_count = key_count
        self._rows = rows
        self._random = np.random.default_rng(1)
        self._identifier = 0

    def assign(self) -> tuple[Spent, Spent, int]:
        """Seconds to give rows all over the table their buckets and to make that durable; commits the index.

        Then those of it that index files take, and the bytes of these.
        """
        rows = batch_of(self._keys(0))
        live = self._commit.refresh().live_files()
        started = Spent.now()
        assigned = self._table.assign(rows, live, self._environment)
        files_started = Spent.now()
        changes = {bucket: assigned.assigner.prepare_append(bucket) for bucket in assigned.buckets}
        self._table.io.sync()
        spent, of_files = Spent.since(started), Spent.since(files_started)
        size_bytes = sum(file.file_size_bytes for change in changes.values() for file in change.after)
        messages = [CommitMessage(bucket=b, total_buckets=-1, append_index=change) for b, change in changes.items()]
        self._publish(messages)
        return spent, of_files, size_bytes

    def write(self) -> Spent:
        """Seconds for a whole batch of rows of the newest keys."""
        rows = batch_of(self._keys(self._key_count - 500_000))
        started = Spent.now()
        live = self._commit.refresh().live_files()
        assigned = self._table.assign(rows, live, self._environment)
        messages = []
        for bucket, part in assigned.buckets.items():
            change = assigned.assigner.prepare_append(bucket)
            writer = self._table.bucket_writer(bucket, live.of(bucket), self._environment)
            writer.write(part)
            messages.append(replace(writer.prepare_commit(), append_index=change))
        self._publish(messages)
        return Spent.since(started)

    def _keys(self, oldest: int) -> np.ndarray:
        new = self._rows // 10
        known = self._random.integers(oldest, self._key_count, self._rows - new)
        self._key_count += new
        return np.concatenate([known, np.arange(self._key_count - new, self._key_count)])

    def _publish(self, messages: list[CommitMessage]) -> None:
        self._commit.commit(self._identifier, messages, {})
        self._identifier += 1


def decoding(rows: int) -> str:
    random = Random(7)
    batch = json_decoding.batch_of([json_decoding.event(number, random) for number in range(rows)], random)
    decoder = DebeziumJsonDecoder()

    def decode() -> Spent:
        started = Spent.now()
        decoder.decode(batch, {json_decoding.SOURCE: json_decoding.TARGET})
        return Spent.since(started)

    return median([decode() for _ in range(5)])


def memory_mib() -> Iterator[tuple[str, int]]:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, text = line.partition(":")
        if name in ("VmHWM", "RssAnon", "RssFile"):
            yield name, int(text.split()[0]) >> 10


def measure(millions: int, batches: int, rows: int) -> str:
    """The line of one size; runs in a process of its own."""
    with tempfile.TemporaryDirectory() as root:
        options = {"bucket": "-1", "write-only": "true"}
        table = new_table(f"{root}/t", COLUMNS, ["id"], (), options)
        fill_index(table, millions * 1_000_000)
        code = subprocess.run(
            [sys.executable, "-m", "benchmarks.dynamic_index", "--table", root, str(millions), str(batches), str(rows)],
            env={**os.environ, **LOCAL_ALLOCATION},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return code.stdout.strip()


def measure_table(root: str, millions: int, batches: int, rows: int) -> str:
    table = Table.open(f"{root}/t")
    work = Batches(table, f"{root}/lookup", millions * 1_000_000, rows)
    first = work.assign()[0].clock_s
    work.assign()
    held_hashes.cache_clear()
    restart = work.assign()[0].clock_s
    assigned = [work.assign() for _ in range(batches)]
    written = [work.write() for _ in range(batches)]
    assign, files = median([spent for spent, _, _ in assigned]), median([of_files for _, of_files, _ in assigned])
    size = statistics.median(size_bytes for _, _, size_bytes in assigned) / (1 << 20)
    memory = dict(memory_mib())
    return (
        f"{millions:>5} M keys: assign {assign}, of which index files of {size:.0f} MiB {files}, "
        f"batch {median(written)}, first {first:5.1f} s, restart {restart:4.1f} s; "
        f"memory {memory['RssAnon']} MiB own, {memory['RssAnon'] + memory['RssFile']} MiB with the "
        f"mapped index, {memory['VmHWM']} MiB at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1, 20, 100], help="millions of indexed keys")
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--table", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        root, *numbers = given.table
        print(measure_table(root, *map(int, numbers)))
        return
    print(f"decoding {given.rows:,} events: {decoding(given.rows)}", flush=True)
    for millions in given.keys:
        print(measure(millions, given.batches, given.rows), flush=True)


if __name__ == "__main__":
    main()
