"""Small values for table tests: schemas, data files that exist only in metadata, commit messages, committers."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from paimon_table.commit.attempts import RetryWait
from paimon_table.commit.commit import TableCommit
from paimon_table.commit.own_commits import CommitsOfUser
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_table.rows.binary_row import serialize_row
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.table import Table
from paimon_table.types import parse_type

KEY_TYPES = [parse_type("INT NOT NULL")]
NO_WAIT = RetryWait(sleep_s=lambda seconds: None, random_fraction=lambda: 0.0)


def key(value: int) -> bytes:
    return serialize_row([value], KEY_TYPES)


def orders_schema(options: Mapping[str, str] | None = None, partition_by: Sequence[str] = ()) -> TableSchema:
    """``id INT, name STRING, dt STRING`` with key id (and the partition columns) in 4 buckets."""
    columns = [("id", "INT"), ("name", "STRING"), ("dt", "STRING")]
    return create_schema(
        [(name, parse_type(text)) for name, text in columns],
        [*partition_by, "id"],
        partition_by,
        {"bucket": "4", **(options or {})},
    )


def data_file(name: str, level: int = 0, keys: tuple[int, int] = (0, 9), rows: int = 10, **more: Any) -> DataFileMeta:
    low, high = key(keys[0]), key(keys[1])
    values: dict[str, Any] = {
        "file_name": name,
        "file_size_bytes": 1000,
        "row_count": rows,
        "min_key": low,
        "max_key": high,
        "key_stats": SimpleStats(low, high, (0,)),
        "value_stats": SimpleStats(),
        "min_sequence_number": 0,
        "max_sequence_number": rows - 1,
        "schema_id": 0,
        "level": level,
        "creation_time_ms": 1_700_000_000_123,
        "delete_row_count": 0,
        "file_source": int(FileSource.APPEND),
        "value_stats_cols": (),
    }
    return DataFileMeta(**{**values, **more})


def message(
    bucket: int = 0, partition: bytes = EMPTY_ROW, total_buckets: int = 4, **parts: Sequence[DataFileMeta]
) -> CommitMessage:
    """A commit message; parts are new_files, changelog_files, compact_before, compact_after, compact_changelog."""
    files: dict[str, Any] = {name: tuple(value) for name, value in parts.items()}
    return CommitMessage(bucket=BucketId(partition, bucket), total_buckets=total_buckets, **files)


def counting_uuids(prefix: str = "uuid") -> Callable[[], str]:
    numbers: Iterator[int] = itertools.count()
    return lambda: f"{prefix}-{next(numbers)}"


def ticking_clock(start_ms: int = 1_700_000_000_000) -> Callable[[], int]:
    ticks = itertools.count(start_ms)
    return lambda: next(ticks)


def committer(table: Table, user: str = "user", **more: Any) -> TableCommit:
    arguments: dict[str, Any] = {
        "commit_user": user,
        "clock_ms": ticking_clock(),
        "new_uuid": lambda: f"{user}-{uuid.uuid4()}",
        "retry_wait": NO_WAIT,
    }
    if more.pop("is_new_user", False):
        more["own"] = CommitsOfUser(table.snapshots, table.paths.root, user, is_new_user=True)
    return TableCommit(table.context, table.publisher, **{**arguments, **more})
