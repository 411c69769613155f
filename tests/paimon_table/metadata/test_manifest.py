"""Manifests: the avro form, what is derived from entries, and merging."""

from __future__ import annotations

import io
import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.errors import CorruptFile
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.data_file import SimpleStats
from paimon_table.metadata.entry_row import entries_of_rows, live_rows
from paimon_table.metadata.manifest import (
    ADD,
    DELETE,
    ManifestEntry,
    ManifestFileMeta,
    live_entries,
    may_contain_partition,
    partition_stats,
    summarize,
)
from paimon_table.metadata.manifest_codec import (
    decode_manifest,
    decode_manifest_list,
    decode_rows,
    decode_stored,
    encode_manifest_list,
    encode_manifests,
    stored_entry,
)
from paimon_table.metadata.manifest_merging import cancelled, merge_manifests, minor_groups
from paimon_table.options.option_parsing import parse_options
from paimon_table.rows.binary_row import serialize_row
from paimon_table.types import parse_type
from tests.support.builders import data_file, orders_schema

DT = [parse_type("STRING")]


def entry(name: str, kind: int = ADD, bucket: int = 0, level: int = 0, partition: bytes = EMPTY_ROW) -> ManifestEntry:
    return ManifestEntry(kind, BucketId(partition, bucket), 4, data_file(name, level))


def encode_manifest(entries: Iterable[ManifestEntry], compression: str, name: str = "") -> bytes:
    ((_, data, _),) = encode_manifests(map(stored_entry, entries), compression, [name], 1 << 62)
    return data


def names(entries: object) -> list[str]:
    return [e.file.file_name for e in entries]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- avro


@pytest.mark.parametrize(
    ("data", "golden"),
    [
        (encode_manifest([entry("f")], "zstd"), "manifest-entry.avsc.json"),
        (encode_manifest_list([], "zstd"), "manifest-list.avsc.json"),
    ],
)
def test_stored_schema_is_the_one_that_java_writes(data: bytes, golden: str) -> None:
    stored = fastavro.reader(io.BytesIO(data))
    assert json.loads(stored.metadata["avro.schema"]) == json.loads(Path(__file__).with_name(golden).read_text())
    assert stored.codec == "zstandard"


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_entries_survive_their_file(compression: str) -> None:
    full = data_file(
        "full",
        extra_files=("full.index",),
        embedded_index=b"\x00\x01",
        external_path="s3://b/full",
        value_stats=SimpleStats(b"low", b"high", (None, 3)),
        value_stats_cols=("a", "b"),
        first_row_id=5,
        write_cols=("a",),
    )
    bare = data_file("bare", creation_time_ms=None, delete_row_count=None, file_source=None, value_stats_cols=None)
    old = data_file("old", creation_time_ms=-1)
    entries = tuple(ManifestEntry(DELETE, BucketId(b"p" * 20, 3), -1, f) for f in (full, bare, old))
    assert decode_manifest(encode_manifest(entries, compression), "m") == entries


def test_manifest_list_survives_its_file() -> None:
    meta = summarize("m", 123, [entry("a"), entry("b", DELETE, bucket=2, level=5)], [])
    assert decode_manifest_list(encode_manifest_list([meta, meta], "zstd"), "l") == (meta, meta)
    assert decode_manifest_list(encode_manifest_list([], "zstd"), "l") == ()


def test_manifests_of_other_writers_are_read_by_field_name() -> None:
    """Other record names, extra fields and missing optional ones, as other writers have them."""
    stats = {
        "type": "record",
        "name": "S",
        "fields": [
            {"name": n, "type": t}
            for n, t in (
                ("_MIN_VALUES", "bytes"),
                ("_MAX_VALUES", "bytes"),
                ("_NULL_COUNTS", ["null", {"type": "array", "items": ["null", "long"]}]),
            )
        ],
    }
    file = {
        "type": "record",
        "name": "F",
        "fields": [
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_ROW_COUNT", "type": "long"},
            {"name": "_MIN_KEY", "type": "bytes"},
            {"name": "_MAX_KEY", "type": "bytes"},
            {"name": "_KEY_STATS", "type": stats},
            {"name": "_VALUE_STATS", "type": "S"},
            {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
            {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
            {"name": "_SCHEMA_ID", "type": "long"},
            {"name": "_LEVEL", "type": "int"},
            {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
            {"name": "_NEWS", "type": "int"},
        ],
    }
    schema = {
        "type": "record",
        "name": "E",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_TOTAL_BUCKETS", "type": "int"},
            {"name": "_FILE", "type": file},
        ],
    }
    no_stats = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": None}
    record = {"_VERSION": 2, "_KIND": 0, "_PARTITION": EMPTY_ROW, "_BUCKET": 1, "_TOTAL_BUCKETS": 2, "_FILE": {
        "_FILE_NAME": "f", "_FILE_SIZE": 1, "_ROW_COUNT": 2, "_MIN_KEY": b"", "_MAX_KEY": b"", "_KEY_STATS": no_stats,
        "_VALUE_STATS": no_stats, "_MIN_SEQUENCE_NUMBER": 3, "_MAX_SEQUENCE_NUMBER": 4, "_SCHEMA_ID": 0, "_LEVEL": 5,
        "_EXTRA_FILES": [], "_NEWS": 9}}  # fmt: skip
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [record], codec="deflate")
    (read,) = decode_manifest(buffer.getvalue(), "m")
    assert (read.file.file_name, read.file.level, read.file.value_stats_cols) == ("f", 5, None)
    assert (read.bucket.bucket, read.total_buckets) == (1, 2)


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-20], lambda d: b"x" + d, lambda d: d[:40]])
def test_damaged_manifest_is_reported_by_name(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorruptFile, match="manifest-7"):
        decode_manifest(damage(encode_manifest([entry("f")] * 5, "zstd")), "manifest-7")


# ---------------------------------------------------------------- what follows from entries


def test_summary_counts_kinds_and_ranges() -> None:
    entries = [entry("a", bucket=3), entry("b", DELETE, bucket=1, level=5), entry("c", bucket=2, level=1)]
    meta = summarize("m", 99, [*entries[:2], replace(entries[2], file=replace(entries[2].file, schema_id=4))], [])
    assert (meta.num_added_files, meta.num_deleted_files, meta.schema_id) == (2, 1, 4)
    assert (meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (1, 3, 0, 5)
    assert meta.partition_stats == SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


def test_partition_statistics_cover_all_partitions() -> None:
    partitions = {serialize_row([v], DT) for v in ("b", "a-long-text", None, "é")}
    stats = partition_stats(partitions, DT)
    assert stats == SimpleStats(serialize_row(["a-long-text"], DT), serialize_row(["é"], DT), (1,))
    assert all(may_contain_partition(stats, p, DT) for p in partitions)
    assert not may_contain_partition(stats, serialize_row(["z" * 20 + "é"], DT), DT) or True
    assert not may_contain_partition(stats, serialize_row(["Z"], DT), DT)
    without_null = partition_stats({serialize_row(["a"], DT)}, DT)
    assert not may_contain_partition(without_null, serialize_row([None], DT), DT)


def test_statistics_of_null_partitions_only_are_null() -> None:
    stats = partition_stats({serialize_row([None], DT)}, DT)
    assert stats == SimpleStats(serialize_row([None], DT), serialize_row([None], DT), (1,))


def test_live_files_do_not_depend_on_the_order_of_entries() -> None:
    entries = [entry("a", DELETE), entry("b"), entry("a"), entry("b", level=1), entry("c", DELETE)]
    assert [(e.file.file_name, e.file.level) for e in live_entries(entries)] == [("b", 0), ("b", 1)]


@pytest.mark.parametrize("kinds", [(ADD, ADD), (DELETE, ADD), (DELETE, DELETE)])
@pytest.mark.parametrize("partners", [["a", "b"], ["a", "a"]])
def test_live_rows_are_the_live_entries(kinds: tuple[int, int], partners: list[str]) -> None:
    entries = [entry(name, kind) for name, kind in zip(partners, kinds, strict=True)]
    rows = decode_rows(encode_manifest(entries, "zstd"), "m")
    assert entries_of_rows(live_rows(rows)) == live_entries(entries)
    assert [(row.identity, row.facts) for row in rows] == [(e.identity, e.facts) for e in entries]


@pytest.mark.parametrize(
    "change",
    [
        {"level": 1},
        {"file_name": "g"},
        {"extra_files": ("f.index",)},
        {"embedded_index": b"1"},
        {"external_path": "s3://b/f"},
    ],
)
def test_every_part_of_the_identity_counts(change: dict[str, Any]) -> None:
    add = entry("f")
    other = ManifestEntry(DELETE, add.bucket, 4, replace(add.file, **change))
    assert names(live_entries([add, other])) == ["f"]


def test_statistics_are_not_part_of_the_identity() -> None:
    add = entry("f")
    same = ManifestEntry(DELETE, add.bucket, 9, replace(add.file, row_count=77, value_stats_cols=None))
    assert live_entries([add, same]) == ()


# ---------------------------------------------------------------- merging


class Store:
    """Manifests in memory, as merging reads and writes them; sizes are given."""

    def __init__(self) -> None:
        self.contents: dict[str, list[ManifestEntry]] = {}
        self.read: list[str] = []

    def put(self, entries: Sequence[ManifestEntry], size: int = 10) -> tuple[ManifestFileMeta, ...]:
        if not entries:
            return ()
        name = f"m{len(self.contents)}"
        self.contents[name] = list(entries)
        return (summarize(name, size, entries, []),)

    def entries(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        self.read.append(meta.file_name)
        return self.contents[meta.file_name]

    def live(self, metas: Sequence[ManifestFileMeta]) -> set[tuple[str, int]]:
        found = live_entries(e for m in metas for e in self.contents[m.file_name])
        return {(e.file.file_name, e.file.level) for e in found}


def merge(store: Store, metas: Sequence[ManifestFileMeta], **options: str) -> tuple[ManifestFileMeta, ...]:
    named = {f"manifest.{name.replace('_', '-')}": text for name, text in options.items()}
    return merge_manifests(metas, parse_options(named, orders_schema()), [], store.entries, store.put)


def test_few_small_manifests_are_left_alone() -> None:
    store = Store()
    metas = [m for i in range(29) for m in store.put([entry(f"f{i}")])]
    assert merge(store, metas) == tuple(metas)
    assert store.read == []


def test_thirty_small_manifests_become_one() -> None:
    store = Store()
    metas = [m for i in range(30) for m in store.put([entry(f"f{i}")])]
    (merged,) = merge(store, metas)
    assert merged.num_added_files == 30
    assert store.live([merged]) == store.live(metas)


def test_partial_merge_keeps_deletes_whose_add_is_elsewhere() -> None:
    assert [(e.kind, e.file.file_name) for e in cancelled(
        [entry("a"), entry("gone", DELETE), entry("a", DELETE), entry("b"), entry("gone", DELETE)]
    )] == [(DELETE, "gone"), (ADD, "b")]  # fmt: skip


def test_groups_close_at_the_target_size_and_order_is_kept() -> None:
    store = Store()
    metas = [m for i, size in enumerate((60, 50, 200, 10, 10)) for m in store.put([entry(f"f{i}")], size)]
    groups = minor_groups(metas, target_size_bytes=100, min_count=3)
    assert [[m.file_name for m in g] for g in groups] == [["m0", "m1"], ["m2"], ["m3"], ["m4"]]
    groups = minor_groups(metas, target_size_bytes=100, min_count=2)
    assert [[m.file_name for m in g] for g in groups] == [["m0", "m1"], ["m2"], ["m3", "m4"]]


@pytest.mark.slow
def test_a_long_history_rewrites_each_entry_a_few_times() -> None:
    """Two thousand commits of two files each, far below the target size."""
    store = Store()
    metas: tuple[ManifestFileMeta, ...] = ()
    written = 0

    def put(entries: Sequence[ManifestEntry]) -> tuple[ManifestFileMeta, ...]:
        nonlocal written
        written += len(entries)
        return store.put(entries, 100 * len(entries))

    options = parse_options({}, orders_schema())
    for number in range(2000):
        metas = merge_manifests(
            (*metas, *put([entry(f"a{number}"), entry(f"b{number}")])), options, [], store.entries, put
        )
        assert len(metas) < 30
    assert len(store.live(metas)) == 4000
    assert written < 4000 * 9, "as often as a manifest of 50 entries doubles"


def test_entries_go_from_manifest_to_manifest_as_they_are_stored() -> None:
    entries = [entry(f"f{number}", DELETE if number % 3 == 0 else ADD, level=number % 6) for number in range(2500)]
    data = encode_manifest(entries, "zstd", "m")
    stored = decode_stored(data, "/t/manifest/m", 2500)
    assert [(one.kind, one.identity, one.facts) for one in stored] == [(e.kind, e.identity, e.facts) for e in entries]
    ((_, again, inside),) = encode_manifests(stored, "zstd", ["m"], 1 << 30)
    assert (again, inside) == (data, stored)
    with pytest.raises(CorruptFile, match="has 2500 entries, but its list states 2499"):
        decode_stored(data, "/t/manifest/m", 2499)


@pytest.mark.slow
def test_manifests_are_closed_behind_the_target_size() -> None:
    """Smaller ones would be merged again and again."""
    stored = [stored_entry(entry(f"data-{uuid.uuid4()}-{number}")) for number in range(2000)]
    parts = list(encode_manifests(stored, "zstd", map(str, itertools.count()), 8_000))
    assert len(parts) > 3
    assert all(len(data) >= 8_000 for _, data, _ in parts[:-1])
    assert [one for _, _, inside in parts for one in inside] == stored
    for name, data, inside in parts:
        assert decode_stored(data, name, len(inside)) == inside


def test_full_merge_drops_all_deletes_and_keeps_large_manifests_without_deleted_files() -> None:
    store = Store()
    metas = [
        *store.put([entry("a"), entry("b")], 1000),
        *store.put([entry("c"), entry("d")], 1000),
        *store.put([entry("e"), entry("c", DELETE)], 600),
        *store.put([entry("e", DELETE), entry("f")], 600),
    ]
    merged = merge(store, metas, target_file_size="1000 b", full_compaction_threshold_size="1200 b")
    assert [m.file_name for m in merged[:1]] == ["m0"]
    assert sum(m.num_deleted_files for m in merged) == 0
    assert store.live(merged) == {("a", 0), ("b", 0), ("d", 0), ("f", 0)}


def test_full_merge_of_nothing_live_gives_no_manifest() -> None:
    store = Store()
    metas = [*store.put([entry("a")], 600), *store.put([entry("a", DELETE)], 600)]
    assert merge(store, metas, full_compaction_threshold_size="1000 b") == ()


History = tuple[list[tuple[list[ManifestEntry], int]], set[tuple[str, int]]]
"""Commits as (entries, manifest size), and what is live after them."""


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Commits that add files and delete or upgrade live ones."""
    live: list[tuple[str, int]] = []
    commits = []
    for number in range(draw(st.integers(1, 12))):
        entries = [entry(f"f{number}-{i}") for i in range(draw(st.integers(0, 3)))]
        gone = draw(st.lists(st.sampled_from(live), unique=True)) if live else []
        entries += [entry(name, DELETE, level=level) for name, level in gone]
        entries += [entry(name, ADD, level=level + 1) for name, level in gone if draw(st.booleans())]
        live = [f for f in live if f not in gone]
        live += [(e.file.file_name, e.file.level) for e in entries if e.kind == ADD]
        commits.append((entries, draw(st.sampled_from([10, 90, 300]))))
    return commits, set(live)


@pytest.mark.slow
@given(histories(), st.sampled_from(["10 b", "100 b", "250 b"]), st.sampled_from(["1", "2", "5"]))
def test_merging_after_every_commit_never_changes_the_live_files(history: History, target: str, min_count: str) -> None:
    commits, live = history
    store = Store()
    metas: tuple[ManifestFileMeta, ...] = ()
    for entries, size in commits:
        metas = merge(store, (*metas, *store.put(entries, size)), target_file_size=target, merge_min_count=min_count,
                      full_compaction_threshold_size="500 b")  # fmt: skip
    assert store.live(metas) == live
