"""The index manifest: the complete list of the index files of one snapshot.

Implements Paimon's record layout, version 1, and the rule that applies changes to the previous list. Of the types HASH
and DELETION_VECTORS a (partition, bucket) has at most one file, which a new file replaces. Only tables without keys and
buckets, where a bucket is a whole partition, may have many files with deletion vectors (``many_vector_files``). Then
each data file has its deletion vector in at most one of these files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from paimon_table.errors import CorruptFile
from paimon_table.formats.avro.container import MalformedContainer, read_container, write_container
from paimon_table.formats.file_format import DAMAGES
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.index_file import DELETION_VECTORS, HASH, IndexFileMeta, VectorRange
from paimon_table.metadata.manifest import ADD
from paimon_table.metadata.manifest_schema import (
    array,
    block_codec,
    nested_record,
    nullable,
    optional,
    required,
    root_record,
)

_VERSION = 1

_RANGE_FIELDS = [
    required("f0", "string"),
    required("f1", "int"),
    required("f2", "int"),
    optional("_CARDINALITY", "long"),
]

_GLOBAL_FIELDS = [
    required("_ROW_RANGE_START", "long"),
    required("_ROW_RANGE_END", "long"),
    required("_INDEX_FIELD_ID", "int"),
    optional("_EXTRA_FIELD_IDS", array("int")),
    optional("_INDEX_META", "bytes"),
    optional("_SOURCE_META", "bytes"),
]

INDEX_SCHEMA: Mapping[str, Any] = root_record([
    required("_VERSION", "int"),
    required("_KIND", "int"),
    required("_PARTITION", "bytes"),
    required("_BUCKET", "int"),
    required("_INDEX_TYPE", "string"),
    required("_FILE_NAME", "string"),
    required("_FILE_SIZE", "long"),
    required("_ROW_COUNT", "long"),
    optional(
        "_DELETIONS_VECTORS_RANGES", array(nullable(nested_record("record__DELETIONS_VECTORS_RANGES", _RANGE_FIELDS)))
    ),
    optional("_EXTERNAL_PATH", "string"),
    optional("_GLOBAL_INDEX", nested_record("record__GLOBAL_INDEX", _GLOBAL_FIELDS)),
])  # fmt: skip
"""Avro schema of an index manifest's records."""

_PARSED = fastavro.parse_schema(dict(INDEX_SCHEMA))


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index file added to or deleted from a bucket; in a stored index manifest every entry is an ADD."""

    kind: int
    bucket: BucketId
    file: IndexFileMeta


def encode_index_manifest(entries: Iterable[IndexEntry], compression: str, name: str = "") -> bytes:
    """The bytes of an index manifest; ``compression`` is ``zstd`` or ``none``."""
    return write_container(INDEX_SCHEMA, _PARSED, map(_record, entries), block_codec(compression), name)


def decode_index_manifest(data: bytes, name: str) -> tuple[IndexEntry, ...]:
    """The entries of an index manifest in stored order. Raises CorruptFile, which names the file ``name``."""
    try:
        entries = tuple(_entry(record) for record in read_container(data, name.rpartition("/")[2]))
    except (MalformedContainer, *DAMAGES) as error:
        raise CorruptFile(f"index manifest {name} is not readable ({error!r}); restore it from a backup") from error
    if any(entry.kind != ADD for entry in entries):
        raise CorruptFile(f"index manifest {name} names a deleted file, but must list live ones; restore it")
    return entries


def deletion_files(entries: Iterable[IndexEntry]) -> dict[BucketId, tuple[IndexFileMeta, ...]]:
    """The files with deletion vectors, by bucket."""
    files: dict[BucketId, tuple[IndexFileMeta, ...]] = {}
    for entry in entries:
        if entry.file.index_type == DELETION_VECTORS:
            files[entry.bucket] = (*files.get(entry.bucket, ()), entry.file)
    return files


def combined(
    present: Sequence[IndexEntry], changes: Iterable[IndexEntry], *, many_vector_files: bool = False
) -> tuple[IndexEntry, ...]:
    """The list after the changes; applies deletions first, so that changes may delete and replace a file."""
    changes = tuple(changes)
    files = {_place(entry, many_vector_files): entry for entry in present}
    for change in changes:
        if change.kind != ADD:
            files.pop(_place(change, many_vector_files), None)
    for change in changes:
        if change.kind == ADD:
            files[_place(change, many_vector_files)] = change
    return tuple(files.values())


def find_index_conflict(
    present: Sequence[IndexEntry], changes: Iterable[IndexEntry], *, many_vector_files: bool = False
) -> str | None:
    """Why ``changes`` cannot follow the list ``present``; None if they can.

    A deleted file must be live. An added file must not describe a bucket or data file that a remaining index file
    describes, because its writer did not know the content of that file.
    """
    live = {_place(entry, many_vector_files): entry.file for entry in present}
    changes = tuple(changes)
    for change in changes:
        if change.kind != ADD:
            gone = live.pop(_place(change, many_vector_files), None)
            if gone is None or gone.file_name != change.file.file_name:
                return f"index file {change.file.file_name} of bucket {change.bucket.bucket} is no longer live"
    added = [change for change in changes if change.kind == ADD]
    if many_vector_files and added:
        marked = {(bucket, r.data_file) for (bucket, _, _), file in live.items() for r in file.vector_ranges or ()}
        for change in added:
            for r in change.file.vector_ranges or ():
                if (change.bucket, r.data_file) in marked:
                    return f"data file {r.data_file} of bucket {change.bucket.bucket} has another deletion vector now"
    for change in added:
        if live.setdefault(_place(change, many_vector_files), change.file).file_name != change.file.file_name:
            return f"bucket {change.bucket.bucket} has another {change.file.index_type} index file now"
    return None


def _place(entry: IndexEntry, many_vector_files: bool) -> tuple[BucketId, str, str]:
    """The place that at most one index file may describe."""
    file = entry.file
    is_alone = file.index_type == HASH or (file.index_type == DELETION_VECTORS and not many_vector_files)
    return (entry.bucket, file.index_type, "" if is_alone else file.file_name)


def _record(entry: IndexEntry) -> dict[str, Any]:
    file = entry.file
    ranges = None if file.vector_ranges is None else [_range_record(r) for r in file.vector_ranges]
    return {
        "_VERSION": _VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.bucket.partition,
        "_BUCKET": entry.bucket.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size_bytes,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": None if file.global_index is None else dict(file.global_index),
    }


def _range_record(vector: VectorRange) -> dict[str, Any]:
    return {"f0": vector.data_file, "f1": vector.offset, "f2": vector.length, "_CARDINALITY": vector.cardinality}


def _entry(record: Mapping[str, Any]) -> IndexEntry:
    ranges = record.get("_DELETIONS_VECTORS_RANGES")
    return IndexEntry(
        record["_KIND"],
        BucketId(record["_PARTITION"], record["_BUCKET"]),
        IndexFileMeta(
            index_type=record["_INDEX_TYPE"],
            file_name=record["_FILE_NAME"],
            file_size_bytes=record["_FILE_SIZE"],
            row_count=record["_ROW_COUNT"],
            vector_ranges=None if ranges is None else tuple(_range(r) for r in ranges if r is not None),
            external_path=record.get("_EXTERNAL_PATH"),
            global_index=record.get("_GLOBAL_INDEX"),
        ),
    )


def _range(record: Mapping[str, Any]) -> VectorRange:
    return VectorRange(record["f0"], record["f1"], record["f2"], record.get("_CARDINALITY"))
