"""Which files of a table without primary key are packed together."""

from dataclasses import replace

import pytest

from paimon_table.compaction.append_picker import PackLimits, pick_packs
from paimon_table.metadata.data_file import DataFileMeta
from tests.support.builders import data_file

MB = 1 << 20
LIMITS = PackLimits(5, small_bytes=180 * MB, enough_bytes=512 * MB, delete_ratio=0.2, cheap_bytes=10_000 * MB)


def files(*sizes_mb: int) -> list[DataFileMeta]:
    """Files of these sizes in order of arrival, of ten rows each."""
    return [
        replace(
            data_file(name=f"f{number:02}", level=0),
            file_size_bytes=size * MB,
            row_count=10,
            min_sequence_number=10 * number,
            max_sequence_number=10 * number + 9,
        )
        for number, size in enumerate(sizes_mb)
    ]


def sizes(packs: tuple[tuple[DataFileMeta, ...], ...]) -> list[list[int]]:
    return [[file.file_size_bytes // MB for file in pack] for pack in packs]


@pytest.mark.parametrize(
    ("found", "packed"),
    [
        ((1, 1, 1, 1), []),
        ((1, 1, 1, 1, 1), [[1, 1, 1, 1, 1]]),
        ((200, 1, 1, 1, 1), []),
        ((200, 1, 300, 1, 1, 1, 1), [[1, 1, 1, 1, 1]]),
        ((100, 1, 1, 1, 1, 1), [[1, 1, 1, 1, 1]]),
        ((20, 5, 5, 5, 5), [[5, 5, 5, 5, 20]]),
        ((170, 170, 170), [[170, 170, 170]]),
        ((170, 170), []),
    ],
)
def test_small_files_of_a_partition_are_packed_whatever_their_order(
    found: tuple[int, ...], packed: list[list[int]]
) -> None:
    assert sizes(pick_packs(files(*found), {}, LIMITS, keeps_order=False)) == packed


@pytest.mark.parametrize(
    ("found", "packed"),
    [
        ((1, 1, 1, 1), []),
        ((1, 1, 1, 1, 1), [[1, 1, 1, 1, 1]]),
        ((1, 1, 200, 1, 1, 1), []),
        ((1, 200, 1, 1, 1, 1, 1, 1), [[1, 1, 1, 1, 1, 1]]),
        ((100, 1, 1, 1, 1, 1), [[1, 1, 1, 1, 1]]),
        ((5, 20, 5, 5, 5), [[5, 20, 5, 5, 5]]),
        ((170, 170, 170, 1), [[170, 170, 170]]),
    ],
)
def test_only_files_side_by_side_are_packed_where_order_counts(found: tuple[int, ...], packed: list[list[int]]) -> None:
    in_any_order = list(reversed(files(*found)))
    assert sizes(pick_packs(in_any_order, {}, LIMITS, keeps_order=True)) == packed


def test_the_more_there_is_to_write_the_more_files_have_to_be_there() -> None:
    limits = replace(LIMITS, cheap_bytes=8 * MB)
    for keeps_order in (False, True):

        def packed(count: int, size_mb: int, keeps_order: bool = keeps_order) -> int:
            return sum(map(len, pick_packs(files(*[size_mb] * count), {}, limits, keeps_order=keeps_order)))

        assert [packed(10, 1), packed(11, 1)] == [0, 11]
        assert [packed(49, 2), packed(50, 2)] == [0, 50]
        assert [packed(4, 45), packed(5, 45)] == [0, 5], "the result is large enough to be left alone"


def test_each_row_is_written_a_few_times_only() -> None:
    """A thousand files of 1 MB that come one by one: the work of packing grows with the logarithm of the table."""
    limits = replace(LIMITS, cheap_bytes=8 * MB)
    for keeps_order in (False, True):
        present: list[DataFileMeta] = []
        rewritten = 0
        for number, new in enumerate(files(*[1] * 1000)):
            present.append(new)
            for pack in pick_packs(present, {}, limits, keeps_order=keeps_order):
                rewritten += sum(file.file_size_bytes for file in pack)
                merged = replace(
                    pack[0],
                    file_name=f"m{number}",
                    file_size_bytes=sum(file.file_size_bytes for file in pack),
                    max_sequence_number=pack[-1].max_sequence_number,
                )
                present = [file for file in present if file not in pack] + [merged]
        assert rewritten < 3.5 * 1000 * MB
        assert len(present) < 40


def test_files_with_many_deleted_rows_are_written_anew() -> None:
    found = files(200, 200, 1)
    assert pick_packs(found, {"f00": 2}, LIMITS, keeps_order=True) == ()
    assert sizes(pick_packs(found, {"f00": 3}, LIMITS, keeps_order=True)) == [[200]]
    assert pick_packs(found, {"f01": 3}, LIMITS, keeps_order=False) == ((found[1],),)


def test_a_full_compaction_packs_all_small_files_and_all_with_deleted_rows() -> None:
    found = files(1, 1, 200, 1, 200)
    full = pick_packs(found, {"f04": 1}, LIMITS, keeps_order=True, full=True)
    assert full == ((found[0], found[1]), (found[3], found[4]))
    assert pick_packs(files(1, 200), {}, LIMITS, keeps_order=False, full=True) == ()
