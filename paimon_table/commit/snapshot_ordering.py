"""Orders rows by the snapshots that added them, whichever writer wrote them (``sequence.snapshot-ordering``).

Implements Paimon's rule. In manifest entries, the files that a commit adds, except by compaction, get the id of its
snapshot as least and greatest sequence number. Every row of a flushed file counts as having that number. Compaction
reads its input in this order and writes the snapshot ids as sequence numbers.

Rows of one snapshot have no order among each other, so a commit may have each key of a bucket only once:
``write.one_run``.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_table.commit.delta import Delta
from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.snapshot import CommitKind


def stamped(delta: Delta, snapshot_id: int) -> Delta:
    """``delta`` in the form for snapshot ``snapshot_id``; a compaction keeps the numbers of its files."""
    if delta.kind is CommitKind.COMPACT:
        return delta
    return replace(delta, entries=tuple(_stamped_entry(entry, snapshot_id) for entry in delta.entries))


def _stamped_entry(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    if entry.kind != ADD:
        return entry
    file = replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    return replace(entry, file=file)
