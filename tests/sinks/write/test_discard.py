"""File indexes of commit messages that are dropped."""

from __future__ import annotations

from pathlib import Path

from paimon_table.storage.memory_io import MemoryDisk
from tests.support.table_sinks import message, sink, table


def test_index_files_of_dropped_messages_are_deleted(tmp_path: Path) -> None:
    disk = MemoryDisk()
    options = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "10 b"}
    target = sink(table(disk, **options))
    target.commit(0, [message(target, 0, tmp_path, 1)], {}, lambda step: None, None)
    before = set(disk.files)

    dropped = message(target, 1, tmp_path, 2)

    assert any(path.endswith(".index") for path in set(disk.files) - before)
    target.target(1, None).context.remove_unpublished([dropped])
    assert set(disk.files) == before
    assert any(path.endswith(".index") for path in before)
