"""Rows in the order of the snapshots that added them, whoever wrote them (``sequence.snapshot-ordering``).

Implements Paimon's rule: what a commit adds other than by compaction gets the id of its snapshot as the least and the
greatest sequence number in its manifest entry, and every row of a file that a flush wrote counts as having that number.
Compaction reads its input in this order, so the files that it writes hold the snapshot ids themselves.

Rows of one snapshot have no order among each other. Hence a commit may hold every key of a bucket once only, and files
that are not committed yet cannot be compared with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_table.bucket_files import BucketFiles
from paimon_table.commit_delta import Delta
from paimon_table.data_file import DataFileMeta, FileSource
from paimon_table.manifest import ADD, ManifestEntry
from paimon_table.merge.function import MergeFunction
from paimon_table.merge.sort import KeyOrder
from paimon_table.run_chunks import joined, run_chunks
from paimon_table.sections import partition
from paimon_table.snapshot import CommitKind


def stamped(delta: Delta, snapshot_id: int) -> Delta:
    """``delta`` as snapshot ``snapshot_id`` publishes it; a compaction keeps the numbers that its files have."""
    if delta.kind is CommitKind.COMPACT:
        return delta
    return replace(delta, entries=tuple(_stamped_entry(entry, snapshot_id) for entry in delta.entries))


def _stamped_entry(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    if entry.kind != ADD:
        return entry
    file = replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    return replace(entry, file=file)


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
