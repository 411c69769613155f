"""Snapshot files, hints, and the search for a user's newest snapshot."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.publisher import FilePublisher
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotStore, from_json, to_json
from paimon_table.storage.memory_io import MemoryFileIO

FULL = Snapshot(
    id=7,
    uuid="5b7d0c1e-5c9f-4f2c-8f43-111111111111",
    schema_id=2,
    base_manifest_list="manifest-list-u-0",
    base_manifest_list_size=1000,
    delta_manifest_list="manifest-list-u-1",
    delta_manifest_list_size=1001,
    changelog_manifest_list="manifest-list-u-2",
    changelog_manifest_list_size=1002,
    index_manifest="index-manifest-u-0",
    commit_user="shop",
    writer_version="tidemark",
    commit_identifier=41,
    commit_kind=CommitKind.COMPACT,
    time_ms=1_700_000_000_000,
    total_record_count=100,
    delta_record_count=-3,
    changelog_record_count=5,
    watermark=-1,
    statistics="stat-u-0",
    properties={"offsets": '{"a":{"0":5}}'},
    next_row_id=0,
    operation="WRITE",
)


def plain(snapshot_id: int, user: str = "u", time_ms: int = 0, identifier: int = 0) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=identifier,
        commit_kind=CommitKind.APPEND,
        time_ms=time_ms,
        total_record_count=0,
        delta_record_count=0,
    )


@pytest.fixture
def store() -> SnapshotStore:
    return SnapshotStore(MemoryFileIO(), TablePaths("/t"))


def publish(store: SnapshotStore, *snapshots: Snapshot) -> None:
    for snapshot in snapshots:
        assert FilePublisher(store.io, store.paths).publish_snapshot(snapshot)


def expire(store: SnapshotStore, *ids: int) -> None:
    for snapshot_id in ids:
        store.io.delete(store.paths.snapshot_file(snapshot_id))


def test_snapshot_file_has_javas_keys_and_order() -> None:
    assert to_json(FULL) == Path(__file__).with_name("snapshot-7.json").read_text(encoding="utf-8").rstrip("\n")


def test_unset_keys_are_left_out() -> None:
    text = to_json(plain(1))
    for key in ("uuid", "changelogManifestList", "indexManifest", "watermark", "operation"):
        assert key not in text


def test_snapshot_survives_its_file() -> None:
    assert from_json(to_json(FULL)) == FULL
    assert from_json(to_json(plain(1))) == plain(1)


def test_the_checksum_is_no_property_and_covers_every_value() -> None:
    text = to_json(FULL)
    assert "tidemark.checksum" in text and "tidemark.checksum" not in from_json(text).properties

    for key, value in (("commitIdentifier", FULL.commit_identifier), ("totalRecordCount", FULL.total_record_count)):
        with pytest.raises(CorruptFile, match=r"snapshot-7 is not readable.*checksum"):
            from_json(text.replace(f'"{key}" : {value}', f'"{key}" : {value + 1}'), "snapshot-7")
    with pytest.raises(CorruptFile, match="checksum"):
        from_json(text.replace('"indexManifest"', '"indexMani est"'))


@pytest.mark.parametrize("snapshot", [FULL, plain(1)], ids=["full", "plain"])
def test_a_flipped_bit_is_refused_or_changes_nothing(snapshot: Snapshot) -> None:
    data = to_json(snapshot).encode()
    refused = 0
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert from_json(bytes(flipped)) == snapshot, flipped
        except CorruptFile:
            refused += 1
    assert refused > len(data) * 4


@pytest.mark.parametrize(
    ("before", "after"),
    [('"properties"', '"pRoperties"'), ('"properties"', '"other"'), ("tidemark.checksum", "tidemark.chunk")],
)
def test_a_checksum_under_a_damaged_name_is_missed(before: str, after: str) -> None:
    with pytest.raises(CorruptFile, match="has the checksum"):
        from_json(to_json(FULL).replace(before, after))


def copy_of_java(text: str) -> str:
    """As Java 1.4 writes a tag or changelog: without keys that it does not know."""
    document = json.loads(text)
    return json.dumps(
        {key: value for key, value in document.items() if key not in {"uuid", "writerVersion", "operation"}}
    )


def test_copies_of_other_writers_are_compared_with_what_they_copy() -> None:
    copied = replace(FULL, uuid=None, writer_version=None, operation=None)
    text = copy_of_java(to_json(FULL))
    assert from_json(text) == copied
    with pytest.raises(CorruptFile, match="checksum"):
        from_json(text.replace(f'"totalRecordCount": {FULL.total_record_count}', '"totalRecordCount": 1'))


def test_checksums_of_earlier_versions_count() -> None:
    """They covered all keys at once, so copies of Java's cannot be compared with them."""
    text = re.sub(r'"tidemark.checksum" : "\w+"', '"tidemark.checksum" : "1999b3ce"', to_json(FULL))
    assert from_json(text) == FULL
    with pytest.raises(CorruptFile, match="checksum"):
        from_json(text.replace(f'"totalRecordCount" : {FULL.total_record_count}', '"totalRecordCount" : 1'))
    assert from_json(copy_of_java(text)) == replace(FULL, uuid=None, writer_version=None, operation=None)


def test_snapshots_of_other_writers_need_no_checksum() -> None:
    text = re.sub(r',\s*"tidemark.checksum" : "\w+"', "", to_json(FULL))
    assert "checksum" not in text and from_json(text) == FULL
    assert from_json(text.replace('"properties"', '"news"')) == replace(FULL, properties={})


def test_a_hint_above_the_last_snapshot_is_not_believed(store: SnapshotStore) -> None:
    publish(store, plain(1), plain(2))
    store.io.write(store.paths.latest_hint, b"999999")
    store.io.write(store.paths.earliest_hint, b"999999")

    assert (store.earliest_id(), store.latest_id()) == (1, 2)


def test_every_attribute_has_a_key() -> None:
    filled = {f.name for f in fields(FULL) if getattr(FULL, f.name) is not None}
    assert filled == {f.name for f in fields(Snapshot)}


def test_unknown_keys_and_nulls_are_ignored() -> None:
    text = to_json(plain(1)).replace('"id" : 1', '"id" : 1,\n  "news" : 3,\n  "watermark" : null')
    assert from_json(text) == plain(1)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"id": 1, "commitKind": "SHRED"}'])
def test_damaged_snapshot_is_reported(text: str) -> None:
    with pytest.raises(CorruptFile, match="snapshot file"):
        from_json(text)


def test_latest_snapshot_is_found_with_wrong_missing_and_unreadable_hints(store: SnapshotStore) -> None:
    assert store.latest_id() is None
    publish(store, *(plain(i) for i in range(1, 12)))
    assert store.io.read("/t/snapshot/LATEST") == b"11"
    for hint in (b"9", b"", b"x", b"0"):
        store.io.write(store.paths.latest_hint, hint)
        assert store.latest_id() == 11
    store.io.delete(store.paths.latest_hint)
    assert store.latest_id() == 11


def test_temporary_files_are_no_snapshots(store: SnapshotStore) -> None:
    publish(store, plain(1))
    store.io.write("/t/snapshot/.snapshot-2.x.tmp", b"")
    store.io.delete(store.paths.latest_hint)
    assert store.latest_id() == 1


def test_earliest_snapshot_after_expiry(store: SnapshotStore) -> None:
    publish(store, *(plain(i) for i in range(1, 6)))
    expire(store, 1, 2)
    store.io.write(store.paths.earliest_hint, b"1")
    assert store.earliest_id() == 3
    store.io.write(store.paths.earliest_hint, b"4")
    assert store.earliest_id() == 4


def test_taken_id_is_not_published_and_the_hint_stays(store: SnapshotStore) -> None:
    publish(store, plain(1, "a"), plain(2, "a"))
    assert not FilePublisher(store.io, store.paths).publish_snapshot(plain(1, "b"))
    assert store.read(1).commit_user == "a"
    assert store.io.read(store.paths.latest_hint) == b"2"


def test_newest_snapshot_of_a_user_is_found_behind_others(store: SnapshotStore) -> None:
    publish(store, plain(1, "me", identifier=1), plain(2, "me", identifier=2), plain(3, "x"), plain(4, "y"))
    found = store.newest_of_user("me")
    assert found is not None
    assert (found.id, found.commit_identifier) == (2, 2)
    assert store.newest_of_user("nobody") is None


def test_search_says_when_expired_snapshots_could_hide_the_answer(store: SnapshotStore) -> None:
    publish(store, *(plain(i, "other", time_ms=i * 100) for i in range(1, 7)))
    assert store.search_user("me", 6).exhaustive
    expire(store, 1, 2)
    assert not store.search_user("me", 6).exhaustive
    assert store.search_user("me", 6, since_ms=450).exhaustive
    assert not store.search_user("me", 6, since_ms=300).exhaustive
    assert store.search_user("me", 6, after_id=2).exhaustive


def test_snapshot_at_or_before_a_time(store: SnapshotStore) -> None:
    assert store.at_or_before(5) is None
    publish(store, *(plain(i, time_ms=i * 100) for i in range(1, 8)))
    expire(store, 1)
    assert store.at_or_before(199) is None
    for time_ms, expected in ((200, 2), (299, 2), (450, 4), (10_000, 7)):
        assert store.at_or_before(time_ms) == replace(plain(expected), time_ms=expected * 100)


def test_a_snapshot_that_is_missing_among_others_is_not_taken_for_expired(store: SnapshotStore) -> None:
    publish(store, *(plain(number, user="other") for number in range(1, 6)))
    expire(store, 3)
    missing = "snapshot-3 is missing; restore it from a backup"
    with pytest.raises(CorruptFile, match=missing):
        store.search_user("u", 5)
    with pytest.raises(CorruptFile, match=missing):
        list(store.between(2, 5))
    with pytest.raises(CorruptFile, match=missing):
        list(store.newest_first())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "7"),
        ("id", 7.0),
        ("timeMillis", True),
        ("totalRecordCount", {}),
        ("deltaRecordCount", 1 << 63),
        ("commitIdentifier", -(1 << 63) - 1),
        ("schemaId", 10**400),
        ("watermark", []),
        ("baseManifestList", 5),
        ("baseManifestList", "../../other/manifest-list"),
        ("deltaManifestList", ""),
        ("indexManifest", "/etc/passwd"),
        ("commitUser", None),
        ("commitUser", ["u"]),
        ("commitKind", {}),
        ("properties", {"a": 1}),
    ],
)
def test_values_of_other_kinds_are_told_with_their_key(key: str, value: object) -> None:
    """A snapshot of another writer, without a checksum."""
    document = {**json.loads(to_json(FULL)), key: value}
    if key != "properties":
        document["properties"] = {}

    with pytest.raises(CorruptFile, match=r"^/t/snapshot-7 is not readable as a snapshot") as told:
        from_json(json.dumps(document), "/t/snapshot-7")
    assert len(str(told.value)) < 300
    assert value is None or key in str(told.value)


def test_hints_and_names_of_immense_numbers_do_not_count() -> None:
    io = MemoryFileIO()
    store = SnapshotStore(io, TablePaths("/t"))
    for snapshot_id in (1, 2):
        io.write(f"/t/snapshot/snapshot-{snapshot_id}", to_json(plain(snapshot_id)).encode())
    for name in ("9" * 100, "003", "-1", "\u0663"):
        io.write(f"/t/snapshot/snapshot-{name}", b"")
    for hint in (store.paths.latest_hint, store.paths.earliest_hint):
        io.write(hint, b"9" * 6000)

    assert (store.earliest_id(), store.latest_id()) == (1, 2)
