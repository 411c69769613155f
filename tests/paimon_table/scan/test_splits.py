"""Files that overlap stay together; everything else may be cut apart."""

from dataclasses import replace

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.metadata.index_file import IndexFileMeta, VectorRange
from paimon_table.rows.binary_row import deserialize_row, serialize_row
from paimon_table.scan.splits import Split, split_bucket
from paimon_table.types import parse_type

INT = (parse_type("INT"),)
BUCKET = BucketId(EMPTY_ROW, 0)
MIB = 1 << 20


def _file(name: str, low: int, high: int, level: int = 0, size: int = MIB) -> DataFileMeta:
    return DataFileMeta(
        file_name=name, file_size_bytes=size, row_count=1, min_key=serialize_row([low], INT),
        max_key=serialize_row([high], INT), key_stats=SimpleStats(), value_stats=SimpleStats(),
        min_sequence_number=0, max_sequence_number=0, schema_id=0, level=level, delete_row_count=0,
    )  # fmt: skip


def _names(splits: tuple[Split, ...]) -> list[list[str]]:
    return [[file.file_name for file in split.files] for split in splits]


def _split(*files: DataFileMeta, target: int = 128 * MIB) -> tuple[Split, ...]:
    return split_bucket(BUCKET, files, lambda key: deserialize_row(key, INT), target)


def is_raw(split: Split) -> bool:
    """Whether every key of the split has one row, so that nothing needs merging."""
    return all(len(section) == 1 for section in split.sections)


def test_overlapping_files_are_merged_together() -> None:
    splits = _split(_file("a", 0, 5), _file("b", 5, 9), _file("c", 10, 20, level=5))
    assert _names(splits) == [["a", "b", "c"]]
    assert [len(section) for section in splits[0].sections] == [2, 1]
    assert not is_raw(splits[0])


def test_files_of_one_level_need_no_merge() -> None:
    (split,) = _split(_file("a", 0, 5, level=5), _file("b", 6, 9, level=5))
    assert is_raw(split)


def test_levels_with_unique_keys_need_no_merge_unless_there_are_deletes_or_level_0() -> None:
    def split(*files: DataFileMeta) -> tuple[Split, ...]:
        return split_bucket(BUCKET, files, lambda key: deserialize_row(key, INT), keys_are_unique=True)

    upper = [_file("a", 0, 5, level=4), _file("b", 0, 9, level=5)]
    assert [is_raw(s) for s in split(*upper)] == [True]
    assert [is_raw(s) for s in split(upper[0], replace(upper[1], delete_row_count=1))] == [False]
    assert [is_raw(s) for s in split(*upper, _file("c", 3, 4))] == [False]
    assert [is_raw(s) for s in _split(*upper)] == [False]


def test_a_split_names_the_vectors_of_its_own_files_only() -> None:
    ranges = tuple(VectorRange(name, 1, 24) for name in ("a", "c", "gone"))
    index = IndexFileMeta(
        index_type="DELETION_VECTORS", file_name="i", file_size_bytes=99, row_count=3, vector_ranges=ranges
    )
    files = [_file(name, i, i, level=5, size=100 * MIB) for i, name in enumerate("abc")]
    splits = split_bucket(
        BUCKET, files, lambda key: deserialize_row(key, INT), deletion_files=[index], keys_are_unique=True
    )
    found = [[r.data_file for f in split.deletion_files for r in f.vector_ranges or ()] for split in splits]
    assert (_names(splits), found) == ([["a"], ["b"], ["c"]], [["a"], [], ["c"]])


def test_small_files_count_as_the_cost_of_opening_them() -> None:
    files = [_file(f"{i:02}", i * 10, i * 10 + 5, level=5) for i in range(33)]
    assert [len(split.files) for split in _split(*files)] == [32, 1]


def test_a_section_is_never_cut() -> None:
    wide = [_file(f"{i}", 0, 100, size=100 * MIB) for i in range(3)]
    splits = _split(*wide, _file("next", 101, 102))
    assert _names(splits) == [["0", "1", "2"], ["next"]]


def test_bucket_without_files_has_no_splits() -> None:
    assert _split() == ()
