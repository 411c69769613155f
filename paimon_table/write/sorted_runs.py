"""Sorts any number of rows by columns with the memory of a write buffer: sorted runs on local disk, then a merge.

A merge has the next batch of each run in memory. Rows that sort before the end of every batch with more rows after it
can be returned; the others wait for the next batches.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.rows.gather import concat
from paimon_table.write.clustering import sorted_by

BATCH_ROWS = 1 << 14
"""The number of rows of a run that a merge reads at a time."""

_RUN = "_RUN"
"""The number of the run of a waiting row in a merge."""


def sorted_rows(
    batches: Iterable[pa.Table], columns: tuple[str, ...], most_bytes: int, directory: str
) -> Iterator[pa.Table]:
    """All rows of the batches in the order of the columns, NULL first.

    ``most_bytes`` is the size in memory of a run. Runs are in a separate directory below ``directory``, on a local
    disk, until the iterator ends or is closed. Raises OSError if that disk is full.
    """
    with ExitStack() as resources:
        runs: list[_Run] = []
        place: str | None = None
        held: list[pa.Table] = []
        size_bytes = 0
        for rows in batches:
            held.append(rows)
            size_bytes += rows.nbytes
            if size_bytes < most_bytes:
                continue
            if place is None:
                os.makedirs(directory, exist_ok=True)
                place = resources.enter_context(tempfile.TemporaryDirectory(prefix="sort-", dir=directory))
            runs.append(_Run.write(f"{place}/{len(runs)}.arrow", sorted_by(concat(held), columns)))
            held, size_bytes = [], 0
        last = sorted_by(concat(held), columns) if held else None
        if not runs:
            yield from () if last is None else (last,)
            return
        if last is not None and place is not None:
            runs.append(_Run.write(f"{place}/{len(runs)}.arrow", last))
        del held, last
        for run in runs:
            resources.callback(run.close)
        yield from _merged(runs, columns)


@dataclass(slots=True)
class _Run:
    """Sorted rows in a file, read batch by batch."""

    path: str
    reader: pa.RecordBatchFileReader | None = None
    position: int = 0

    @staticmethod
    def write(path: str, rows: pa.Table) -> _Run:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(path, "wb") as stream, pa.ipc.new_file(stream, rows.schema, options=options) as writer:
            writer.write_table(rows.combine_chunks(), max_chunksize=BATCH_ROWS)
        return _Run(path)

    def next(self) -> pa.Table | None:
        """The next batch; None after the last one."""
        if self.reader is None:
            self.reader = pa.ipc.open_file(pa.OSFile(self.path, "rb"))
        if self.position == self.reader.num_record_batches:
            return None
        self.position += 1
        return pa.Table.from_batches([self.reader.get_batch(self.position - 1)])

    @property
    def has_more(self) -> bool:
        return self.reader is None or self.position < self.reader.num_record_batches

    def close(self) -> None:
        self.reader = None


def _merged(runs: list[_Run], columns: tuple[str, ...]) -> Iterator[pa.Table]:
    waiting: pa.Table | None = None
    due = list(range(len(runs)))
    while True:
        read = [(number, rows) for number in due if (rows := runs[number].next()) is not None]
        parts = [rows.append_column(_RUN, pa.array(np.full(rows.num_rows, number))) for number, rows in read]
        if waiting is not None:
            parts.append(waiting)
        if not parts:
            return
        ordered = sorted_by(concat(parts), columns)
        end, due = _safe_end(ordered.column(_RUN).to_numpy(), runs)
        if end:
            yield ordered.slice(0, end).drop_columns([_RUN])
        waiting = ordered.slice(end) if end < ordered.num_rows else None
        if waiting is None and not due:
            return


def _safe_end(of_run: np.ndarray[tuple[int], np.dtype[np.int64]], runs: list[_Run]) -> tuple[int, list[int]]:
    """The number of sorted rows that precede all rows on disk, and the runs to read next."""
    open_runs = [number for number, run in enumerate(runs) if run.has_more]
    if not open_runs:
        return len(of_run), []
    ends = {number: int(np.flatnonzero(of_run == number)[-1]) + 1 for number in open_runs}
    end = min(ends.values())
    return end, [number for number in open_runs if ends[number] == end]
