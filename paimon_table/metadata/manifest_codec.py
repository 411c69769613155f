"""Avro form of manifests and manifest lists.

Implements Paimon's record layouts, version 2, as Java writes them: record names are joined paths, null is the first
branch of every union, the block codec is zstandard.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fastavro

from paimon_table.errors import CorruptFile
from paimon_table.formats.avro.container import (
    ContainerWriter,
    MalformedContainer,
    read_container,
    read_rows,
    read_slices,
    write_container,
)
from paimon_table.formats.file_format import DAMAGES
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.metadata.entry_row import ENTRY_PATHS, EntryRow, entries_of_rows
from paimon_table.metadata.manifest import Facts, Identity, ManifestEntry, ManifestFileMeta
from paimon_table.metadata.manifest_schema import (
    array,
    block_codec,
    nested_record,
    nullable,
    optional,
    required,
    root_record,
)

_VERSION = 2


def _stats_record(path: str) -> dict[str, Any]:
    return nested_record(
        path,
        [
            required("_MIN_VALUES", "bytes"),
            required("_MAX_VALUES", "bytes"),
            optional("_NULL_COUNTS", array(nullable("long"))),
        ],
    )


_FILE_FIELDS: list[dict[str, Any]] = [
    required("_FILE_NAME", "string"),
    required("_FILE_SIZE", "long"),
    required("_ROW_COUNT", "long"),
    required("_MIN_KEY", "bytes"),
    required("_MAX_KEY", "bytes"),
    required("_KEY_STATS", _stats_record("record__FILE__KEY_STATS")),
    required("_VALUE_STATS", _stats_record("record__FILE__VALUE_STATS")),
    required("_MIN_SEQUENCE_NUMBER", "long"),
    required("_MAX_SEQUENCE_NUMBER", "long"),
    required("_SCHEMA_ID", "long"),
    required("_LEVEL", "int"),
    required("_EXTRA_FILES", array("string")),
    optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    optional("_DELETE_ROW_COUNT", "long"),
    optional("_EMBEDDED_FILE_INDEX", "bytes"),
    optional("_FILE_SOURCE", "int"),
    optional("_VALUE_STATS_COLS", array("string")),
    optional("_EXTERNAL_PATH", "string"),
    optional("_FIRST_ROW_ID", "long"),
    optional("_WRITE_COLS", array("string")),
    optional("_WRITE_COLS_SEQUENCES", array("long")),
]

ENTRY_SCHEMA: Mapping[str, Any] = root_record([
    required("_VERSION", "int"),
    required("_KIND", "int"),
    required("_PARTITION", "bytes"),
    required("_BUCKET", "int"),
    required("_TOTAL_BUCKETS", "int"),
    required("_FILE", nested_record("record__FILE", _FILE_FIELDS)),
])  # fmt: skip
"""Avro schema of a manifest's records."""

LIST_SCHEMA: Mapping[str, Any] = root_record([
    required("_VERSION", "int"),
    required("_FILE_NAME", "string"),
    required("_FILE_SIZE", "long"),
    required("_NUM_ADDED_FILES", "long"),
    required("_NUM_DELETED_FILES", "long"),
    required("_PARTITION_STATS", _stats_record("record__PARTITION_STATS")),
    required("_SCHEMA_ID", "long"),
    optional("_MIN_BUCKET", "int"),
    optional("_MAX_BUCKET", "int"),
    optional("_MIN_LEVEL", "int"),
    optional("_MAX_LEVEL", "int"),
    optional("_MIN_ROW_ID", "long"),
    optional("_MAX_ROW_ID", "long"),
])  # fmt: skip
"""Avro schema of a manifest list's records."""

_OPTIONAL = frozenset(field["name"] for field in _FILE_FIELDS if "default" in field)
"""Fields of ``_FILE`` that manifests may lack."""

_ENTRIES_PER_BLOCK = 1000
_PARSED_ENTRY = fastavro.parse_schema(dict(ENTRY_SCHEMA))
_PARSED_LIST = fastavro.parse_schema(dict(LIST_SCHEMA))


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as stored in a manifest: it can be put into another one unchanged."""

    kind: int
    identity: Identity
    schema_id: int
    data: bytes

    @property
    def facts(self) -> Facts:
        partition, bucket, level = self.identity[:3]
        return self.kind, partition, bucket, level, self.schema_id


def encode_manifests(
    entries: Iterable[StoredEntry], compression: str, names: Iterable[str], target_bytes: int
) -> Iterator[tuple[str, bytes, list[StoredEntry]]]:
    """At least one manifest, each of about the target size or a little more, with its name, bytes and entries.

    Merging treats smaller manifests as unfinished.
    """
    names, blocks = iter(names), _blocks(entries, target_bytes)
    block = next(blocks, [])
    while True:
        name, out = next(names), io.BytesIO()
        inside: list[StoredEntry] = []
        container = ContainerWriter(out, ENTRY_SCHEMA, block_codec(compression), file_name=name)
        while block and (out.tell() < target_bytes or not inside):
            container.write_block(len(block), b"".join(entry.data for entry in block))
            inside += block
            block = next(blocks, [])
        yield name, out.getvalue(), inside
        if not block:
            return


def _blocks(entries: Iterable[StoredEntry], target_bytes: int) -> Iterator[list[StoredEntry]]:
    block: list[StoredEntry] = []
    size_bytes = 0
    for entry in entries:
        block.append(entry)
        size_bytes += len(entry.data)
        if len(block) == _ENTRIES_PER_BLOCK or size_bytes >= target_bytes:
            yield block
            block, size_bytes = [], 0
    if block:
        yield block


def stored_entry(entry: ManifestEntry) -> StoredEntry:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED_ENTRY, _entry_record(entry))
    return StoredEntry(entry.kind, entry.identity, entry.file.schema_id, out.getvalue())


def decode_stored(data: bytes, name: str, count: int) -> list[StoredEntry]:
    """The entries of a manifest as stored bytes; entries of other writers are re-encoded.

    Raises as ``decode_manifest``.
    """
    with _readable(name):
        slices = read_slices(data, ENTRY_SCHEMA, name.rpartition("/")[2])
        if slices is None:
            return [stored_entry(entry) for entry in decode_manifest(data, name, count)]
        if len(slices) != count:
            raise _wrong_count(name, len(slices), count)
        return [_stored(record, stored) for record, stored in slices]


def _stored(record: Mapping[str, Any], data: bytes) -> StoredEntry:
    file = record["_FILE"]
    identity = (
        record["_PARTITION"],
        record["_BUCKET"],
        file["_LEVEL"],
        file["_FILE_NAME"],
        tuple(file["_EXTRA_FILES"]),
        file["_EMBEDDED_FILE_INDEX"],
        file["_EXTERNAL_PATH"],
    )
    return StoredEntry(record["_KIND"], identity, file["_SCHEMA_ID"], data)


def encode_manifest_list(manifests: Iterable[ManifestFileMeta], compression: str, name: str = "") -> bytes:
    """The bytes of a manifest list, which may be empty; ``compression`` as for manifests."""
    return write_container(LIST_SCHEMA, _PARSED_LIST, map(_list_record, manifests), block_codec(compression), name)


def decode_manifest(data: bytes, name: str, count: int | None = None) -> tuple[ManifestEntry, ...]:
    """The entries of a manifest in stored order.

    Raises CorruptFile, which names the file ``name``, also if the number of entries differs from ``count``.
    """
    return entries_of_rows(decode_rows(data, name, count))


def decode_rows(data: bytes, name: str, count: int | None = None) -> list[EntryRow]:
    """The entries of a manifest as rows; as ``decode_manifest``."""
    with _readable(name):
        rows = read_rows(data, EntryRow, ENTRY_PATHS, _OPTIONAL, name.rpartition("/")[2])
    if count is not None and len(rows) != count:
        raise _wrong_count(name, len(rows), count)
    return rows


def decode_manifest_list(data: bytes, name: str) -> tuple[ManifestFileMeta, ...]:
    """The manifests that a list names, in order. Raises CorruptFile, which names the file ``name``."""
    records = _records(data, name)
    with _readable(name):
        return tuple(map(_list_entry, records))


def _records(data: bytes, name: str) -> list[Any]:
    with _readable(name):
        return read_container(data, name.rpartition("/")[2])


def _wrong_count(name: str, found: int, stated: int) -> CorruptFile:
    return CorruptFile(f"{name} has {found} entries, but its list states {stated}; restore it from a backup")


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except (MalformedContainer, *DAMAGES) as error:
        raise CorruptFile(f"manifest file {name} is not readable ({error!r}); restore it from a backup") from error


# ---------------------------------------------------------------- values to records


def _stats(stats: SimpleStats) -> dict[str, Any]:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": list(stats.null_counts)}


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
    return {
        "_VERSION": _VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.bucket.partition,
        "_BUCKET": entry.bucket.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_record(entry.file),
    }


def _file_record(file: DataFileMeta) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats(file.key_stats),
        "_VALUE_STATS": _stats(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": _list_or_none(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _list_or_none(file.write_cols),
        "_WRITE_COLS_SEQUENCES": None,
    }


def _list_or_none(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


def _list_record(meta: ManifestFileMeta) -> dict[str, Any]:
    return {
        "_VERSION": _VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size_bytes,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


# ---------------------------------------------------------------- records to values


def _read_stats(record: Mapping[str, Any]) -> SimpleStats:
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record["_NULL_COUNTS"] or ()))


def _list_entry(record: Mapping[str, Any]) -> ManifestFileMeta:
    get = record.get
    return ManifestFileMeta(
        file_name=record["_FILE_NAME"],
        file_size_bytes=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=_read_stats(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=get("_MIN_BUCKET"),
        max_bucket=get("_MAX_BUCKET"),
        min_level=get("_MIN_LEVEL"),
        max_level=get("_MAX_LEVEL"),
        min_row_id=get("_MIN_ROW_ID"),
        max_row_id=get("_MAX_ROW_ID"),
    )
