"""Which buckets need a compaction although no rows arrive for them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_table.compaction.append_picker import PackLimits, deleted_counts, pick_packs
from paimon_table.compaction.row_ages import RowAges
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_state import TableState
from paimon_table.options.table_options import TableOptions


def due_compactions(
    state: TableState,
    options: TableOptions,
    *,
    fully: bool,
    is_appended: bool,
    ages: RowAges = RowAges(),
) -> tuple[BucketId, ...]:
    """The buckets that a compacting job must compact.

    ``fully``: all buckets with files below their highest level, or with expired rows or kept deletes. Otherwise, if
    readers wait for it, those with level-0 files. If ``is_appended``, the table already has uncompacted rows of the
    commit, whose buckets are included. If not, only buckets whose rows or changes readers would see only after more
    rows arrive. In a table without buckets: those with small files. With postponed buckets: none, because a separate
    job compacts them.
    """
    if not options.has_key:
        return _unpacked(state, options, fully)
    if options.is_postponed:
        return ()
    if fully:
        return tuple(b for b, files in state.files.items() if not _is_compacted(files, options.max_level, ages))
    is_hidden = options.hides_level0 or options.changelog_producer == "lookup"
    if not options.needs_lookup or not (is_appended or (is_hidden and options.level0_patience == 1)):
        return ()
    patience = options.level0_patience
    return tuple(b for b, files in state.files.items() if sum(f.level == 0 for f in files) >= patience)


def _unpacked(state: TableState, options: TableOptions, fully: bool) -> tuple[BucketId, ...]:
    """The buckets with small files to pack; with fixed buckets the writers of rows do that."""
    is_shared = options.is_unaware
    if not (fully or is_shared):
        return ()
    limits = PackLimits.of(options)
    index = state.deletion_files()
    return tuple(
        bucket
        for bucket, files in state.files.items()
        if pick_packs(files, deleted_counts(index.get(bucket, ())), limits, keeps_order=not is_shared, full=fully)
    )


def _is_compacted(files: Sequence[DataFileMeta], max_level: int, ages: RowAges) -> bool:
    """Whether all files are on the highest level, which older options may have set higher, and need no rewrite."""
    highest = max(max_level, *(f.level for f in files))
    return all(f.level == highest and not ages.has_gone(f) for f in files)
