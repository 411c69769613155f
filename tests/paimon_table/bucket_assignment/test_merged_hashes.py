"""The merged file of a lane against a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from paimon_table.bucket_assignment import merged_hashes
from paimon_table.bucket_assignment.lane_hashes import LaneHashes, Load, open_lane_hashes
from paimon_table.bucket_assignment.merged_hashes import merge, newest_merged
from paimon_table.metadata.hash_index import KeyHashes
from paimon_table.rows.sorted_values import SortedValues


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_hashes, "RANGE_ROWS", 64)


def buckets_of_hashes(count: int, each: int, seed: int = 1) -> dict[int, KeyHashes]:
    drawn = np.random.default_rng(seed).choice(2**32, count * each, replace=False) - 2**31
    parts = drawn.astype(np.int32).reshape(count, each)
    parts[0, :2] = [-(2**31), 2**31 - 1]
    return {bucket: np.unique(part) for bucket, part in enumerate(parts)}


def loads(hashes: Mapping[int, KeyHashes]) -> Load:
    return lambda bucket: SortedValues(hashes[bucket])


def assert_found(index: LaneHashes, hashes: dict[int, KeyHashes]) -> None:
    known = {int(value): bucket for bucket, values in hashes.items() for value in values}
    asked = np.unique(np.concatenate([*hashes.values(), np.array([0, 1, -1, 12345], np.int32)]))
    assert index.find(asked).tolist() == [known.get(int(value), -1) for value in asked]


def test_settled_buckets_are_found_in_the_merged_file(tmp_path: Path) -> None:
    hashes = buckets_of_hashes(9, 100)
    names = {bucket: f"i{bucket}" for bucket in hashes}
    index = open_lane_hashes(tmp_path / "lane", names, lambda: frozenset({8}), loads(hashes))
    merged = newest_merged(tmp_path / "lane", names)
    assert merged is not None
    assert merged.files == {bucket: f"i{bucket}" for bucket in range(8)}
    assert_found(index, hashes)


def test_a_replaced_bucket_is_no_longer_looked_for_in_it(tmp_path: Path) -> None:
    hashes = buckets_of_hashes(9, 100)
    names = {bucket: f"i{bucket}" for bucket in hashes}
    merge(tmp_path / "lane", None, (), {bucket: (names[bucket], hashes[bucket]) for bucket in hashes})
    hashes[3] = hashes[3][::2]
    del hashes[5]
    del names[5]
    names[3] = "another"
    index = open_lane_hashes(tmp_path / "lane", names, lambda: frozenset(), loads(hashes))
    assert_found(index, hashes)


def test_kept_buckets_go_on_in_the_next_file(tmp_path: Path) -> None:
    hashes = buckets_of_hashes(12, 100)
    lane = tmp_path / "lane"
    first = merge(lane, None, (), {bucket: (f"i{bucket}", hashes[bucket]) for bucket in range(6)})
    second = merge(lane, first, [0, 2, 4, 5], {b: (f"i{b}", hashes[b]) for b in range(6, 12)})
    left = {bucket: values for bucket, values in hashes.items() if bucket not in (1, 3)}
    assert second.row_count == sum(map(len, left.values()))
    assert np.all(second.hashes[1:] > second.hashes[:-1])
    assert [path.name for path in lane.iterdir()] == [second.path.name]
    assert_found(LaneHashes({b: f"i{b}" for b in left}, loads(hashes), second), left)


@pytest.mark.parametrize("length", [0, 5, 40, 2000])
def test_a_file_that_is_cut_short_is_passed_over(tmp_path: Path, length: int) -> None:
    hashes = buckets_of_hashes(9, 100)
    names = {bucket: f"i{bucket}" for bucket in hashes}
    merged = merge(tmp_path / "lane", None, (), {bucket: (names[bucket], hashes[bucket]) for bucket in hashes})
    merged.path.with_name("merged-cut").write_bytes(merged.path.read_bytes()[:length])
    merged.path.unlink()
    assert newest_merged(tmp_path / "lane", names) is None
    assert_found(open_lane_hashes(tmp_path / "lane", names, lambda: frozenset(), loads(hashes)), hashes)


def test_a_file_with_a_flipped_bit_is_passed_over(tmp_path: Path) -> None:
    hashes = buckets_of_hashes(9, 100)
    names = {bucket: f"i{bucket}" for bucket in hashes}
    merged = merge(tmp_path / "lane", None, (), {bucket: (names[bucket], hashes[bucket]) for bucket in hashes})
    data = merged.path.read_bytes()
    merged.path.unlink()
    for place in [*range(200), *range(200, len(data), 37), *range(len(data) - 8, len(data))]:
        damaged = merged.path.with_name(f"merged-{place}")
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        assert newest_merged(tmp_path / "lane", names) is None, place
        damaged.unlink()


def test_files_used_longest_ago_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_hashes, "MAX_BYTES", 14_000)
    for number in range(4):
        hashes = buckets_of_hashes(9, 100, number)
        merge(tmp_path / f"lane{number}", None, (), {b: (f"i{b}", hashes[b]) for b in hashes})
    left = sorted(path.parent.name for path in tmp_path.glob("*/merged-*"))
    assert left == ["lane2", "lane3"]


@pytest.mark.parametrize("merged_count", [0, 5, 6, 9])
def test_a_hash_in_several_buckets_is_in_the_lowest_whatever_is_merged(tmp_path: Path, merged_count: int) -> None:
    hashes = buckets_of_hashes(9, 100)
    names = {bucket: f"i{bucket}" for bucket in reversed(range(9))}
    twice = np.array([-(2**31), 2**31 - 1], np.int32)
    for bucket in (2, 5, 8):
        hashes[bucket] = np.union1d(hashes[bucket], np.r_[twice, hashes[7][:3]]).astype(np.int32)
    hashes[0] = np.setdiff1d(hashes[0], twice)
    of_merged = {bucket: (names[bucket], hashes[bucket]) for bucket in range(9 - merged_count, 9)}
    merged = merge(tmp_path / "lane", None, (), of_merged) if of_merged else None

    index = LaneHashes(names, loads(hashes), merged)

    assert index.find(twice).tolist() == [2, 2]
    assert index.find(hashes[7][:3]).tolist() == [2, 2, 2]


def test_buckets_are_not_read_once_all_hashes_are_found() -> None:
    hashes = buckets_of_hashes(4, 100)
    read: list[int] = []
    index = LaneHashes(
        {b: f"i{b}" for b in reversed(range(4))}, lambda bucket: read.append(bucket) or loads(hashes)(bucket)
    )

    found = index.find(np.sort(np.concatenate([hashes[0], hashes[1]])))

    assert set(found.tolist()) == {0, 1}
    assert read == [0, 1]
