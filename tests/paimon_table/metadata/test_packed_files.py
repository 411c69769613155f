"""The live files of a large table on their way to tasks."""

from __future__ import annotations

import pickle
from typing import Any

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.packed_files import FilePacker
from paimon_table.metadata.table_state import BucketState, LiveFiles
from tests.support.builders import data_file


def files_of(bucket: int, count: int = 30) -> tuple[DataFileMeta, ...]:
    more: dict[str, Any] = {
        "extra_files": ("x.index",),
        "embedded_index": b"\x01",
        "first_row_id": 7,
        "write_cols": ("a",),
    }
    return tuple(data_file(f"data-{bucket}-{number}", 5, (number, number + 1), **more) for number in range(count))


def live(buckets: int) -> LiveFiles:
    return LiveFiles({BucketId(EMPTY_ROW, b): files_of(b) for b in range(buckets)}, partition_buckets={EMPTY_ROW: 99})


def test_tasks_get_what_the_driver_knows() -> None:
    before = live(50)
    after = pickle.loads(pickle.dumps(FilePacker().pack(before)))
    assert dict(after.files) == before.files
    assert after.of(BucketId(EMPTY_ROW, 3)) == BucketState(files_of(3), (), 99)
    assert after.of(BucketId(EMPTY_ROW, 77)) == BucketState((), (), 99)
    assert BucketId(EMPTY_ROW, 77) not in after.files and len(after.files) == 50


def test_small_tables_travel_as_they_are() -> None:
    before = live(3)
    assert FilePacker().pack(before) is before


def test_only_what_has_changed_is_packed_again() -> None:
    packer, before = FilePacker(), live(50)
    first = packer.pack(before).files
    changed = dict(before.files)
    changed[BucketId(EMPTY_ROW, 7)] = files_of(7, 31)
    del changed[BucketId(EMPTY_ROW, 8)]
    second = packer.pack(LiveFiles(changed)).files
    assert dict(second) == changed
    kept = [b for b in changed if second.packed[b] is first.packed[b]]  # type: ignore[attr-defined]
    assert len(kept) == 48


def test_files_are_small_when_they_travel() -> None:
    assert len(pickle.dumps(FilePacker().pack(live(50)))) < len(pickle.dumps(live(50))) / 4
