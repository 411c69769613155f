"""The flushed files of one commit as one sorted run (``sequence.snapshot-ordering``).

Rows of one snapshot have no order among each other. Hence a commit may hold every key of a bucket once only, and files
that are not committed yet cannot be compared with others.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_table.data_files.bucket_files import BucketFiles
from paimon_table.merge.function import MergeFunction
from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.run_chunks import joined, run_chunks
from paimon_table.mergetree.sections import partition
from paimon_table.metadata.data_file import DataFileMeta, FileSource


def one_run(
    flushed: Sequence[DataFileMeta], files: BucketFiles, order: KeyOrder, function: MergeFunction, chunk_bytes: int
) -> tuple[DataFileMeta, ...]:
    """Level-0 files that hold each key of the ``flushed`` ones once, merged in order of arrival.

    ``flushed`` itself when no two of its files overlap. ``files`` must give rows with the sequence numbers that are
    stored; the given files stay where they are.
    """
    sections = partition(flushed, order.file_key)
    if all(len(section) == 1 for section in sections):
        return tuple(flushed)
    with files.data_writer(0, FileSource.APPEND) as data:
        for section in sections:
            for pieces in run_chunks(section, files.batches, order, chunk_bytes):
                rows, _ = joined(pieces)
                data.write(function.merge(rows, order.sort(rows)))
        return data.close()
