"""The index manifest: its bytes, and the list after changes."""

from __future__ import annotations

import io
import json
from typing import Any, cast

import fastavro
import pytest

from paimon_table.errors import CorruptFile
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.index_file import DELETION_VECTORS, HASH, IndexFileMeta, VectorRange
from paimon_table.metadata.index_manifest import (
    IndexEntry,
    combined,
    decode_index_manifest,
    encode_index_manifest,
    find_index_conflict,
)
from paimon_table.metadata.manifest import ADD, DELETE
from paimon_table.rows.binary_row import serialize_row
from paimon_table.types import parse_type


def vectors(name: str, *ranges: VectorRange) -> IndexFileMeta:
    return IndexFileMeta(
        index_type=DELETION_VECTORS, file_name=name, file_size_bytes=100, row_count=len(ranges), vector_ranges=ranges
    )


def hashes(name: str) -> IndexFileMeta:
    return IndexFileMeta(index_type=HASH, file_name=name, file_size_bytes=8, row_count=2)


def add(file: IndexFileMeta, bucket: int = 0) -> IndexEntry:
    return IndexEntry(ADD, BucketId(EMPTY_ROW, bucket), file)


def delete(file: IndexFileMeta, bucket: int = 0) -> IndexEntry:
    return IndexEntry(DELETE, BucketId(EMPTY_ROW, bucket), file)


ENTRIES = [
    IndexEntry(
        ADD,
        BucketId(serialize_row(["a"], [parse_type("STRING")]), 3),
        vectors("index-u-0", VectorRange("data-1.parquet", 1, 24, 2), VectorRange("data-2.parquet", 33, 30, None)),
    ),
    add(hashes("index-u-1")),
    add(
        IndexFileMeta(
            index_type="btree",
            file_name="index-u-2",
            file_size_bytes=9,
            row_count=4,
            external_path="s3://b/index-u-2",
            global_index={
                "_ROW_RANGE_START": 0, "_ROW_RANGE_END": 9, "_INDEX_FIELD_ID": 1, "_EXTRA_FIELD_IDS": [2],
                "_INDEX_META": b"m", "_SOURCE_META": None,
            },
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_entries_survive_their_file(compression: str) -> None:
    assert list(decode_index_manifest(encode_index_manifest(ENTRIES, compression), "m")) == ENTRIES


def test_records_have_the_names_and_the_order_of_java() -> None:
    data = encode_index_manifest(ENTRIES, "none")
    reader = fastavro.reader(io.BytesIO(data))
    first = cast("dict[str, Any]", next(reader))
    assert list(first) == [
        "_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT",
        "_DELETIONS_VECTORS_RANGES", "_EXTERNAL_PATH", "_GLOBAL_INDEX",
    ]  # fmt: skip
    assert first["_VERSION"] == 1
    assert first["_DELETIONS_VECTORS_RANGES"][0] == {"f0": "data-1.parquet", "f1": 1, "f2": 24, "_CARDINALITY": 2}
    schema = json.loads(reader.metadata["avro.schema"])
    assert schema["fields"][8]["type"][1]["items"][1]["name"] == "record__DELETIONS_VECTORS_RANGES"


def test_a_file_without_the_newer_columns_is_read() -> None:
    old = {"type": "record", "name": "record", "fields": [
        *({"name": name, "type": kind} for name, kind in [
            ("_VERSION", "int"), ("_KIND", "int"), ("_PARTITION", "bytes"), ("_BUCKET", "int"),
            ("_INDEX_TYPE", "string"), ("_FILE_NAME", "string"), ("_FILE_SIZE", "long"), ("_ROW_COUNT", "long"),
        ]),
    ]}  # fmt: skip
    record = {
        "_VERSION": 1, "_KIND": 0, "_PARTITION": EMPTY_ROW, "_BUCKET": 0, "_INDEX_TYPE": "HASH",
        "_FILE_NAME": "index-u-1", "_FILE_SIZE": 8, "_ROW_COUNT": 2,
    }  # fmt: skip
    out = io.BytesIO()
    fastavro.writer(out, old, [record])
    assert decode_index_manifest(out.getvalue(), "m") == (add(hashes("index-u-1")),)


def test_unreadable_lists_are_refused() -> None:
    with pytest.raises(CorruptFile, match="index-manifest-1 is not readable"):
        decode_index_manifest(b"Obj", "index-manifest-1")
    with pytest.raises(CorruptFile, match="names a deleted file"):
        decode_index_manifest(encode_index_manifest([delete(hashes("a"))], "none"), "m")


def test_a_new_file_replaces_the_one_of_its_bucket_and_type() -> None:
    present = (add(vectors("a")), add(vectors("b"), 1), add(hashes("h")))
    assert set(combined(present, [add(vectors("c"))])) == {add(vectors("c")), add(vectors("b"), 1), add(hashes("h"))}
    assert set(combined(present, [add(vectors("c")), delete(vectors("a"))])) == {
        add(vectors("c")), add(vectors("b"), 1), add(hashes("h"))
    }  # fmt: skip
    assert set(combined(present, [delete(vectors("a"))])) == {add(vectors("b"), 1), add(hashes("h"))}


def test_other_types_may_have_many_files_in_a_bucket() -> None:
    def tree(name: str) -> IndexEntry:
        return add(IndexFileMeta(index_type="btree", file_name=name, file_size_bytes=1, row_count=1))

    assert combined([tree("a")], [tree("b")]) == (tree("a"), tree("b"))


def test_changes_conflict_with_files_that_their_writer_did_not_know() -> None:
    present = (add(vectors("a")),)
    assert find_index_conflict(present, [delete(vectors("a")), add(vectors("b"))]) is None
    assert find_index_conflict((), [add(vectors("b"))]) is None
    assert find_index_conflict(present, [add(vectors("b"), 1)]) is None
    assert "no longer live" in str(find_index_conflict((), [delete(vectors("a")), add(vectors("b"))]))
    assert "no longer live" in str(find_index_conflict(present, [delete(vectors("z"))]))
    assert "another DELETION_VECTORS" in str(find_index_conflict(present, [add(vectors("b"))]))


def test_a_table_without_buckets_has_many_files_with_vectors_in_a_partition() -> None:
    def of(name: str, *data_files: str) -> IndexFileMeta:
        return vectors(name, *(VectorRange(data_file, 1, 20, 1) for data_file in data_files))

    a, b, c = of("a", "data-1"), of("b", "data-2", "data-3"), of("c", "data-3")
    present = (add(a), add(b), add(hashes("h")))
    assert combined(present, [add(of("x", "data-1"), 1)], many_vector_files=True)[:3] == present
    assert combined(present, [delete(b), add(c)], many_vector_files=True) == (add(a), add(hashes("h")), add(c))

    def conflict(*changes: IndexEntry) -> str | None:
        return find_index_conflict(present, changes, many_vector_files=True)

    assert conflict(delete(a)) is None
    assert conflict(delete(b), add(c)) is None
    assert conflict(add(of("d", "data-4"))) is None
    assert conflict(add(of("d", "data-3"), 1)) is None
    assert conflict(delete(a), delete(b), add(of("d", "data-1", "data-2"))) is None
    assert "c of bucket 0 is no longer live" in str(conflict(delete(c)))
    assert "data-3 of bucket 0 has another deletion vector now" in str(conflict(add(c)))
    assert "another HASH" in str(conflict(add(hashes("k"))))
