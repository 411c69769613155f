"""The number of rows that readers return at a time, so that each batch takes about the same memory.

A file does not show the memory of its rows, because the reader copies a text from a dictionary into every row.
Therefore the reader measures rows that it has read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

BATCH_BYTES = 1 << 20
"""The target size in memory of the rows of a batch."""

_MOST_BATCH_BYTES = 2 * BATCH_BYTES


def rows_per_batch(rows: pa.Table) -> int:
    """The number of rows of a batch of similar rows, at least one."""
    fitting: int = BATCH_BYTES * rows.num_rows // max(rows.nbytes, 1)
    return max(1, fitting)


def in_batches(rows: pa.Table, batch_rows: int) -> Iterator[pa.Table]:
    """``rows``, at most ``batch_rows`` at a time and as few as the size demands, wherever the large rows are."""
    step = min(batch_rows, rows_per_batch(rows))
    for start in range(0, rows.num_rows, step):
        yield from in_parts(rows.slice(start, step), _MOST_BATCH_BYTES)


def in_parts(rows: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """``rows``, halved until no part takes more memory, except single rows and parts no larger than a batch."""
    if rows.num_rows <= 1 or rows.nbytes <= max(most_bytes, BATCH_BYTES):
        yield rows
        return
    half = rows.num_rows // 2
    yield from in_parts(rows.slice(0, half), most_bytes)
    yield from in_parts(rows.slice(half), most_bytes)


def packed(batches: Iterator[pa.Table], schema: pa.Schema) -> pa.Buffer:
    """Batches in compressed form, for ``unpacked``."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        for rows in batches:
            stream.write_table(rows.combine_chunks())
    return sink.getvalue()


def unpacked(buffer: pa.Buffer) -> Iterator[pa.Table]:
    """The batches that were ``packed``, each with its own memory."""
    with pa.ipc.open_stream(buffer) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])
