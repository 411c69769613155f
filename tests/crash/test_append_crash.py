"""Batches into a table without primary key, with a power cut after every change of what is stored."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.row_kind import VALUE_KIND
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import WriterEnvironment

BATCHES = range(4)
BUCKET = BucketId(EMPTY_ROW, 0)
UNAWARE = {"bucket": "-1"}
ORDERED = {"bucket": "1", "bucket-key": "id"}


def rows_of(batch: int) -> pa.Table:
    numbers = pa.array([batch * 2, batch * 2 + 1], pa.int32())
    return pa.table([numbers, pa.array([0, 0], pa.int8())], ["id", VALUE_KIND])


def open_table(io: MemoryFileIO, options: dict[str, str]) -> Table:
    options = {**options, "compaction.min.file-num": "2"}
    columns = [("id", parse_type("INT"))]
    return Table.open_or_create("/w/t", lambda: create_schema(columns, [], [], options), io=io)


def run_process(io: MemoryFileIO, options: dict[str, str], environment: WriterEnvironment) -> None:
    """One life of a job: every batch again, as after a lost note of what was done; APPEND first, then COMPACT."""
    table = open_table(io, options)
    commit = table.new_commit("user")
    for batch in BATCHES:
        done = commit.committed_identifier()
        if done is not None and done > batch:
            continue
        if done != batch:
            commit.commit(batch, appended(table, batch, environment), {})
        writer = table.bucket_writer(BUCKET, commit.refresh().live_files().of(BUCKET), environment)
        commit.commit(batch, [writer.compact_only()], {})


def appended(table: Table, batch: int, environment: WriterEnvironment) -> list[CommitMessage]:
    """The messages of one writer, or of two at once where there are no buckets."""
    rows, live = rows_of(batch), table.state().live_files()
    shares = [rows.slice(0, 1), rows.slice(1)] if table.options.is_unaware else [rows]
    messages = []
    for share in shares:
        writer = table.bucket_writer(BUCKET, live.of(BUCKET), environment)
        writer.write(share)
        messages.append(writer.prepare_append())
    return messages


def survive(first: MemoryFileIO, options: dict[str, str], environment: WriterEnvironment) -> MemoryDisk:
    io = first
    for _ in range(10):
        try:
            run_process(io, options, environment)
        except SimulatedCrash:
            io = MemoryFileIO(io.disk.after_power_cut())
        else:
            return io.disk
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.parametrize("options", [UNAWARE, ORDERED], ids=["without buckets", "with buckets"])
def test_power_cut_after_any_change_loses_and_doubles_no_row(options: dict[str, str], tmp_path: Path) -> None:
    environment = WriterEnvironment(str(tmp_path))
    undisturbed = MemoryFileIO()
    run_process(undisturbed, options, environment)
    expected = [row for batch in BATCHES for row in rows_of(batch).column("id").to_pylist()]
    for crash_after in undisturbed.changes:
        disk = survive(MemoryFileIO(crash_after=crash_after), options, environment)
        table = open_table(MemoryFileIO(disk), options)
        found = [row for rows in table.read() for row in rows.column("id").to_pylist()]
        assert (sorted(found) if table.options.is_unaware else found) == expected, f"cut after {crash_after}"
        changes = [row for _, rows in table.changes() for row in rows.column("id").to_pylist()]
        assert sorted(changes) == expected, f"changes, cut after {crash_after}"
    assert len(undisturbed.changes) >= 50
