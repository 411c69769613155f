"""Memory of the process that compacts one large bucket fully, or writes one large batch into one.

    python -m benchmarks.huge_bucket [--gigabytes 2] [--directory DIR] [--only STEP ...]
    python -m benchmarks.huge_bucket --batch-rows 10000000

A bucket of that many gigabytes of Parquet (rows of about 100 bytes over random keys) is made of level-0 files,
compacted fully, and gets a fifth as many changes, uncompacted. Each compaction runs in a process of its own that
allocates memory as the workers of a pipeline do. Its result is not committed, so all start from the same files. With
``--batch-rows`` the rows arrive as one batch instead. Needs about five times the size of the bucket on disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.engine_rows import COLUMNS, rows_of
from benchmarks.peaks import Peaks
from paimon_table import BucketId, Table, WriterEnvironment
from paimon_table.metadata.bucket_id import EMPTY_ROW
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.option_parsing import options_of
from pipelines.spark.session import LOCAL_ALLOCATION
from tests.support.table_driver import new_table

BUCKET = BucketId(EMPTY_ROW, 0)
ROWS_PER_COMMIT = 1_000_000
_SUM = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_non_null_value"}
_LOOKUP = {"changelog-producer": "lookup"}
_VECTORS = {"deletion-vectors.enabled": "true"}
STEPS: Mapping[str, tuple[Mapping[str, str], bool]] = {
    "full": ({}, True),
    "full, orc": ({"file.format": "orc"}, True),
    "full, lookup": (_LOOKUP, True),
    "full, full-compaction": ({"changelog-producer": "full-compaction"}, True),
    "full, deletion vectors": (_VECTORS, True),
    "full, deletion vectors, lookup": ({**_VECTORS, **_LOOKUP}, True),
    "full, aggregation, lookup": ({**_SUM, **_LOOKUP}, True),
    "level 0, lookup": (_LOOKUP, False),
    "level 0, deletion vectors": (_VECTORS, False),
    "level 0, aggregation, lookup": ({**_SUM, **_LOOKUP}, False),
}
"""Options of the compaction, and whether it is a full one."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--batch-rows", type=int, default=0)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--step", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.step is not None:
        _step(args.directory, args.step)
        return
    base = args.directory or Path(tempfile.mkdtemp(prefix="huge-bucket-"))
    try:
        _all(base, int(args.gigabytes * 1e9), args.batch_rows, args.only)
    finally:
        if args.directory is None:
            shutil.rmtree(base)


def _all(base: Path, size_bytes: int, batch_rows: int, only: Sequence[str]) -> None:
    if batch_rows:
        new_table(base / "table", COLUMNS, ["k"])
        _spool(base, batch_rows)
        _in_own_process(base, "batch")
        return
    if not (base / "table").exists():
        new_table(base / "table", COLUMNS, ["k"], options={"num-sorted-run.compaction-trigger": "100"})
        keys = _fill(base, size_bytes, 1)
        _in_own_process(base, "first")
        _fill(base, size_bytes // 5, 1_000, keys)
    for name in STEPS:
        if not only or name in only:
            _in_own_process(base, name)


def _in_own_process(base: Path, step: str) -> None:
    command = [sys.executable, "-m", "benchmarks.huge_bucket", "--directory", str(base), "--step", step]
    subprocess.run(command, check=True, env={**os.environ, **LOCAL_ALLOCATION})
    shutil.rmtree(base / "lookup", ignore_errors=True)


def _fill(base: Path, size_bytes: int, first_commit: int, keys: int = 0) -> int:
    """Add level-0 files of this size together; gives the number of keys, all of them there if it was not given."""
    table = _with_options(Table.open(str(base / "table")), {"write-only": "true"})
    keys = keys or size_bytes // 30
    added, commit = 0, first_commit
    while added < size_bytes:
        writer = table.bucket_writer(BUCKET, table.state().live_files().of(BUCKET), _environment(base))
        writer.write(rows_of(commit * ROWS_PER_COMMIT, ROWS_PER_COMMIT, keys, in_halves=False))
        message = writer.prepare_commit()
        table.new_commit("benchmark").commit(commit, [message], {})
        added += sum(file.file_size_bytes for file in message.new_files)
        commit += 1
    return keys


def _step(base: Path, step: str) -> None:
    table = Table.open(str(base / "table"))
    if step == "batch":
        _batch(base, table)
        return
    options, is_full = STEPS.get(step, ({}, True))
    table = _with_options(table, options)
    before = table.state().live_files().of(BUCKET)
    with Peaks() as peaks:
        writer = table.bucket_writer(BUCKET, before, _environment(base))
        message = writer.compact_only(full_compact=is_full)
    size_bytes = sum(file.file_size_bytes for file in before.files)
    print(f"{step}: {len(before.files)} files of {size_bytes / 1e9:.2f} GB: {peaks}", flush=True)
    if step == "first":
        table.new_commit("benchmark").commit(999, [message], {})
        return
    kept = {file.file_name for file in before.files}
    for file in (*message.compact_after, *message.compact_changelog):
        if file.file_name not in kept:
            table.context.delete_file(BUCKET, file)


def _spool(base: Path, batch_rows: int) -> Path:
    """The rows of a batch in a file, as the tasks that decode it leave them for the one that writes."""
    file = base / "batch.arrow"
    with ExitStack() as stack:
        writer = None
        for first in range(0, batch_rows, ROWS_PER_COMMIT):
            rows = rows_of(first, min(ROWS_PER_COMMIT, batch_rows - first), batch_rows, in_halves=False)
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_stream(str(file), rows.schema))
            writer.write_table(rows)
    return file


def _batch(base: Path, table: Table) -> None:
    with pa.memory_map(str(base / "batch.arrow")) as source:
        rows = pa.ipc.open_stream(source).read_all()
        with Peaks() as peaks:
            writer = table.bucket_writer(BUCKET, table.state().live_files().of(BUCKET), _environment(base))
            writer.write(rows)
            message = writer.prepare_append()
    print(f"batch of {rows.nbytes / 1e9:.2f} GB: {len(message.new_files)} new files, {peaks}", flush=True)


def _environment(base: Path) -> WriterEnvironment:
    return WriterEnvironment(str(base / "lookup"))


def _with_options(table: Table, options: Mapping[str, str]) -> Table:
    schema = replace(table.schema, options={**table.schema.options, **options})
    context: TableContext = replace(
        table.context, schema=schema, options=options_of(schema), schemas={**table.context.schemas, schema.id: schema}
    )
    return replace(table, context=context)


if __name__ == "__main__":
    main()
