"""What one bucket writer writes, compacts and publishes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.errors import BrokenInvariant, ConfigError, MalformedRecord
from paimon_table.merge.sort import KeyOrder
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import FileSource
from paimon_table.row_kind import VALUE_KIND
from paimon_table.rows.binary_row import serialize_row
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, apply_changes
from tests.support.bucket_harness import BucketHarness, Row, context

_TWO = (("k", "INT"), ("v", "INT"))
_SEQUENCED = (("k", "INT"), ("v", "INT"), ("s", "INT"))


@pytest.fixture
def lookup_dir(tmp_path: Path) -> Path:
    return tmp_path / "lookup"


def _bucket(lookup_dir: Path, columns: Sequence[tuple[str, str]] = _TWO, **options: str) -> BucketHarness:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return BucketHarness(context(columns, ["k"], named), lookup_dir)


def _changes(bucket: BucketHarness, rows: Sequence[Row], full: bool = False) -> list[Row]:
    return bucket.changes(bucket.commit(rows, full=full).compact_changelog)


# ---------------------------------------------------------------- flush


def test_a_flush_keeps_the_newest_row_of_each_key_and_numbers_all(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    message = bucket.commit([("+I", 2, 20), ("+I", 1, 10), ("+U", 2, 21), ("-D", 3, 30)])
    (file,) = message.new_files
    assert bucket.read(file).to_pydict() == {
        "_SEQUENCE_NUMBER": [1, 2, 3],
        "_VALUE_KIND": [0, 2, 3],
        "k": [1, 2, 3],
        "v": [10, 21, 30],
    }
    assert (file.level, file.file_source, file.delete_row_count) == (0, FileSource.APPEND, 1)
    assert not message.has_compact and message.changelog_files == ()


def test_numbers_go_on_after_the_largest_stored_one(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    bucket.commit([("+I", 1, 10), ("+I", 2, 20)])
    (file,) = bucket.commit([("+I", 3, 30)]).new_files
    assert (file.min_sequence_number, file.max_sequence_number) == (2, 2)
    (file,) = bucket.commit([("+I", 3, 31)], fresh=False).new_files
    assert file.min_sequence_number == 3


def test_a_commit_without_rows_is_empty(lookup_dir: Path) -> None:
    assert _bucket(lookup_dir, changelog_producer="lookup").commit([]).is_empty


def test_a_full_buffer_is_flushed_before_the_commit(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.environment["write_buffer_bytes"] = 1
    writer = bucket.new_writer()
    for value in (1, 2, 3):
        writer.write(bucket.table([("+I", 1, value), ("+I", value + 10, value)]))
    message = writer.prepare_commit()
    assert [f.level for f in message.new_files] == [0, 0, 0]
    bucket.apply(message)
    assert bucket.content() == [(1, 3), (11, 1), (12, 2), (13, 3)]
    assert bucket.changes(message.compact_changelog) == [("+I", 1, 3), ("+I", 11, 1), ("+I", 12, 2), ("+I", 13, 3)]


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_rows_that_are_more_than_the_buffer_are_written_part_by_part(lookup_dir: Path, producer: str) -> None:
    bucket = _bucket(lookup_dir, changelog_producer=producer)
    bucket.environment["write_buffer_bytes"] = 1 << 20
    writer = bucket.new_writer()
    numbers = np.arange(400_000, dtype=np.int32)
    rows = {"k": numbers % 300, "v": numbers, VALUE_KIND: np.zeros(len(numbers), np.int8)}
    writer.write(pa.table(rows, schema=bucket.table([]).schema))
    message = writer.prepare_append()
    bucket.apply(message)
    assert len(message.new_files) >= 4
    ranges = [(file.min_sequence_number, file.max_sequence_number) for file in message.new_files]
    assert all(end < begin for (_, end), (begin, _) in pairwise(ranges)), "later rows have higher numbers"
    assert sum(file.row_count for file in message.changelog_files) == (400_000 if producer == "input" else 0)
    bucket.apply(bucket.new_writer().prepare_commit(full_compact=True))
    assert bucket.content() == [(key, max(range(key, 400_000, 300))) for key in range(300)]


def test_input_changelog_holds_every_row_by_key_and_arrival(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="input")
    rows = [("+I", 2, 1), ("-U", 1, 5), ("-D", 2, 7), ("+U", 1, 6), ("+I", 2, 2)]
    message = bucket.commit(rows)
    assert bucket.changes(message.changelog_files) == [
        ("-U", 1, 5),
        ("+U", 1, 6),
        ("+I", 2, 1),
        ("-D", 2, 7),
        ("+I", 2, 2),
    ]
    (file,) = message.changelog_files
    assert file.file_name.startswith("changelog-") and file.delete_row_count == 2
    assert bucket.content() == [(1, 6), (2, 2)]


@pytest.mark.parametrize(
    ("option", "content", "logged"),
    [
        ("ignore_delete", [(1, 10), (2, 20)], [("+I", 1, 10), ("+I", 2, 20)]),
        ("ignore_update_before", [(2, 20)], [("+I", 1, 10), ("-D", 1, 10), ("+I", 2, 20)]),
    ],
)
def test_ignored_kinds_are_dropped_before_anything_else(
    lookup_dir: Path, option: str, content: list[Row], logged: list[Row]
) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="input")
    bucket.with_options(**{option: "true"})
    message = bucket.commit([("+I", 1, 10), ("+I", 2, 20), ("-D", 1, 10), ("-U", 2, 20)])
    assert bucket.content() == content
    assert bucket.changes(message.changelog_files) == logged
    assert max(f.max_sequence_number for f in message.changelog_files) == len(logged) - 1


def test_deletes_in_old_files_are_ignored_where_the_option_says_so(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    bucket.commit([("+I", 1, 10)])
    bucket.commit([("-D", 1, 10), ("-D", 2, 20)])
    bucket.with_options(ignore_delete="true")
    bucket.commit([], full=True)
    assert bucket.content() == [(1, 10)]


def test_rowkind_field_overrides_the_kind(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, (("k", "INT"), ("op", "STRING")), rowkind__field="op")
    bucket.commit([("+I", 1, "+I"), ("+I", 2, "+u"), ("+I", 1, "-d")])
    assert bucket.content() == [(2, "+u")]
    for op, words in ((None, "row kind cannot be null"), ("X", "unsupported short string 'X'")):
        with pytest.raises(MalformedRecord, match=words):
            bucket.commit([("+I", 1, op)])


def test_null_in_a_not_null_column_is_refused(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, (("k", "INT"), ("v", "INT NOT NULL")))
    rows = pa.table(
        {"k": pa.array([1], pa.int32()), "v": pa.array([None], pa.int32()), VALUE_KIND: pa.array([0], pa.int8())}
    )
    with pytest.raises(MalformedRecord, match=r"cannot write null to non-null column\(v\)"):
        bucket.new_writer().write(rows)


@pytest.mark.parametrize("column", [{}, {"v": pa.array([1], pa.int64())}])
def test_rows_of_another_schema_are_refused(lookup_dir: Path, column: dict[str, pa.Array]) -> None:
    rows = pa.table({"k": pa.array([1], pa.int32()), VALUE_KIND: pa.array([0], pa.int8()), **column})
    with pytest.raises(BrokenInvariant, match="'v'"):
        _bucket(lookup_dir).new_writer().write(rows)


# ---------------------------------------------------------------- compaction


def test_the_fifth_run_starts_a_compaction(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    for value in range(4):
        assert not bucket.commit([("+I", 1, value), ("+I", value + 2, value)]).has_compact
    message = bucket.commit([("+I", 1, 4), ("-D", 2, 0)])
    assert len(message.compact_before) == 5
    assert set(message.new_files) <= set(message.compact_before)
    (file,) = message.compact_after
    assert (file.level, file.file_source, file.row_count, file.delete_row_count) == (5, FileSource.COMPACT, 4, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (3, 8)
    assert bucket.content() == [(1, 4), (3, 1), (4, 2), (5, 3)]


def test_a_file_that_overlaps_nothing_is_moved_not_rewritten(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.commit([("+I", key, 0) for key in range(1000)])
    message = bucket.commit([("+U", 5, 1), ("-D", 7, 0)])
    (new,) = message.new_files
    assert message.compact_before == (new,)
    assert message.compact_after == (new.at_level(4),)
    assert bucket.content()[4:8] == [(4, 0), (5, 1), (6, 0), (8, 0)]


def test_tombstones_stay_until_the_highest_level(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.commit([("+I", key, 0) for key in range(1000)])
    assert _changes(bucket, [("-D", 7, 99)]) == [("-D", 7, 0)]
    assert _changes(bucket, [("-D", 7, 99)]) == []
    assert sum(f.delete_row_count or 0 for f in bucket.files) == 1
    bucket.commit([], full=True)
    assert [(f.level, f.row_count, f.delete_row_count) for f in bucket.files] == [(5, 999, 0)]


def test_write_only_tables_are_not_compacted(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup", write_only="true")
    for value in range(7):
        assert not bucket.commit([("+I", 1, value)]).has_compact
    with pytest.raises(ConfigError, match="write-only"):
        bucket.commit([], full=True)
    bucket.with_options(write_only="false")
    assert _changes(bucket, []) == [("+I", 1, 6)]
    assert [f.level for f in bucket.files] == [5]


def test_very_many_runs_are_merged_at_once(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, write_only="true")
    for value in range(40):
        bucket.commit([("+I", 0, value), ("+I", value + 1, value)])
    bucket.with_options(write_only="false")
    bucket.environment["chunk_bytes"] = 100
    assert len(bucket.commit([], full=True).compact_before) == 40
    assert bucket.content() == [(0, 39), *((value + 1, value) for value in range(40))]


def test_large_levels_have_many_files_and_only_touched_ones_are_merged(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup", target_file_size="1 kb")
    bucket.commit([("+I", key, key * 7919 % 1000) for key in range(10_000)])
    assert {f.level for f in bucket.files} == {5} and len(bucket.files) >= 5
    order = KeyOrder(bucket.ctx.schema, bucket.ctx.options)
    ranges = sorted((order.file_key(f.min_key), order.file_key(f.max_key)) for f in bucket.files)
    assert all(left[1] < right[0] for left, right in pairwise(ranges))
    message = bucket.commit([("+U", 9_999, 1), ("-D", 9_998, 0)], full=True)
    assert len(message.compact_before) == 2 and len(message.compact_after) == 1
    assert bucket.changes(message.compact_changelog)[1:] == [("-U", 9_999, 9_999 * 7919 % 1000), ("+U", 9_999, 1)]
    assert len(bucket.content()) == 9_999


# ---------------------------------------------------------------- lookup changelog


def test_lookup_changelog_walks_through_as_in_the_reference(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    assert _changes(bucket, [("+I", 1, 1)]) == [("+I", 1, 1)]
    assert _changes(bucket, [("-D", 1, 1), ("+I", 1, 2)]) == [("-U", 1, 1), ("+U", 1, 2)]
    assert _changes(bucket, [("+I", 1, 2)]) == [("-U", 1, 2), ("+U", 1, 2)]
    assert _changes(bucket, [("-D", 1, 777)]) == [("-D", 1, 2)]
    assert _changes(bucket, [("-D", 1, 5)]) == []
    assert _changes(bucket, [("+I", 1, 9), ("-D", 1, 9)]) == []


def test_row_deduplicate_leaves_out_updates_that_change_nothing(lookup_dir: Path) -> None:
    bucket = BucketHarness(
        context(
            _SEQUENCED,
            ["k"],
            {
                "changelog-producer": "lookup",
                "changelog-producer.row-deduplicate": "true",
                "changelog-producer.row-deduplicate-ignore-fields": "s",
            },
        ),
        lookup_dir,
    )
    bucket.commit([("+I", 1, 1, 1), ("+I", 2, 2, 1)])
    assert _changes(bucket, [("+U", 1, 1, 2), ("+U", 2, 3, 2)]) == [("-U", 2, 2, 1), ("+U", 2, 3, 2)]
    assert bucket.content() == [(1, 1, 2), (2, 3, 2)]


def test_late_rows_repeat_the_stored_row(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, _SEQUENCED, changelog_producer="lookup", sequence__field="s")
    bucket.commit([("+I", 1, 10, 5), *(("+I", key, 0, 0) for key in range(2, 1000))])
    same = [("-U", 1, 10, 5), ("+U", 1, 10, 5)]
    assert _changes(bucket, [("+I", 1, 11, 3)]) == same
    (moved_up,) = [f for f in bucket.files if f.level == 4]
    assert bucket.read(moved_up).column("v").to_pylist() == [10]  # Java takes the first level that has the key
    assert _changes(bucket, [("-D", 1, 12, 4)]) == same
    assert bucket.content()[0] == (1, 10, 5)
    assert _changes(bucket, [("-D", 1, 13, 6)]) == [("-D", 1, 10, 5)]
    bucket.commit([], full=True)
    assert _changes(bucket, [("+I", 1, 14, 5)]) == [("+I", 1, 14, 5)]


def test_changelog_rows_keep_their_sequence_numbers_and_level(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)])
    (file,) = bucket.commit([("+U", 2, 3), ("+U", 1, 4)]).compact_changelog
    rows = bucket.read(file)
    assert rows.column("_SEQUENCE_NUMBER").to_pylist() == [0, 3, 1, 2]
    assert (file.level, file.delete_row_count) == (5, 2)


def test_a_crash_between_append_and_compact_loses_no_changelog(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)])
    writer = bucket.new_writer()
    writer.write(bucket.table([("+U", 1, 5), ("-D", 2, 2), ("+I", 3, 3)]))
    lost = writer.prepare_commit()
    bucket.apply(lost, compact=False)

    message = bucket.new_writer().compact_only()
    bucket.apply(message)

    assert message.new_files == () and {f.level for f in bucket.files} == {5}
    assert bucket.changes(message.compact_changelog) == bucket.changes(lost.compact_changelog)
    assert bucket.content() == [(1, 5), (3, 3)]
    assert bucket.new_writer().compact_only().is_empty


@pytest.mark.slow
@pytest.mark.parametrize("compactor", ["same writer", "same writer without memory", "another writer"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"changelog_producer": "input"},
        {"changelog_producer": "lookup"},
        {"changelog_producer": "lookup", "merge_engine": "partial-update"},
        {"changelog_producer": "lookup", "lookup_compact": "gentle"},
        {"merge_engine": "first-row"},
        {"deletion_vectors__enabled": "true"},
        {"changelog_producer": "full-compaction"},
    ],
)
def test_appending_first_and_compacting_then_is_the_same(
    tmp_path: Path, options: dict[str, Any], compactor: str
) -> None:
    whole, split = (_bucket(tmp_path / name, **options) for name in ("whole", "split"))
    kinds = ["+I"] if options.get("merge_engine") in {"first-row", "partial-update"} else ["+I", "+U", "-D"]
    random = Random(str(options))
    compacted = 0
    for number in range(14):
        rows = [(random.choice(kinds), random.randrange(60), random.randrange(10_000)) for _ in range(40)]
        full = options.get("changelog_producer") == "full-compaction" and number % 3 == 2
        expected = whole.commit(rows, full=full)

        writer = split.new_writer()
        writer.write(split.table(rows))
        appended = writer.prepare_append()
        assert not appended.has_compact
        assert split.changes(appended.changelog_files) == whole.changes(expected.changelog_files)
        split.apply(appended)
        assert (writer.bytes_to_compact(full) > 0) == expected.has_compact
        if compactor == "same writer without memory":
            assert writer.kept_bytes > 0
            writer.release_memory()
            assert writer.kept_bytes == 0
        message = (split.new_writer() if compactor == "another writer" else writer).compact_only(full_compact=full)
        assert message.new_files == message.changelog_files == ()
        split.apply(message)

        compacted += message.has_compact
        assert split.changes(message.compact_changelog) == whole.changes(expected.compact_changelog)
        assert [f.level for f in split.files] == [f.level for f in whole.files]
        assert split.content() == whole.content()
    assert compacted


class _WatchedIO(MemoryFileIO):
    """Notes which files are opened for reading."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: set[str] = set()

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.add(path.rpartition("/")[2])
        return super().open_input(path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
@pytest.mark.parametrize("deletion_vectors", ["false", "true"])
def test_compaction_decodes_no_data_file_that_has_a_lookup_file(
    lookup_dir: Path, engine: str, deletion_vectors: str
) -> None:
    io = _WatchedIO()
    options = {"changelog-producer": "lookup", "merge-engine": engine, "fields.v.aggregate-function": "max"}
    options |= {"deletion-vectors.enabled": deletion_vectors, "num-sorted-run.compaction-trigger": "3"}
    bucket = BucketHarness(context(_TWO, ["k"], options, io), lookup_dir)
    model: dict[int, int] = {}
    rewritten = 0
    for number in range(12):
        has_lost_lookup_files = number == 8
        if has_lost_lookup_files:
            shutil.rmtree(lookup_dir)
        rows = [("+I", key, number) for key in range(number, 60, 1 + number % 5)]
        before = {file.file_name for file in bucket.files}
        io.opened.clear()
        message = bucket.commit(rows)
        read_again = io.opened & before
        rewritten += len({file.file_name for file in message.compact_before} & before)
        assert bool(read_again) == has_lost_lookup_files
        model.update((key, value) for _, key, value in rows)
        assert bucket.content() == sorted(model.items())
    assert rewritten > 3


_LAST_SECOND = datetime(1969, 12, 31, 23, 59, 59, 900_000)


@pytest.mark.slow
@pytest.mark.parametrize("formats", ["parquet", "orc", "avro", "orc, 5:parquet", "parquet, 5:orc"])
@pytest.mark.parametrize("sequence", ["", "at"])
@pytest.mark.parametrize("altered", ["columns", "fields of rows"])
def test_what_is_stored_does_not_depend_on_lookup_files(
    tmp_path: Path, formats: str, sequence: str, altered: str
) -> None:
    # ORC gives the last second before 1970 back as one second later, and CHAR without trailing blanks
    file_format, _, per_level = formats.partition(", ")
    options = {"changelog-producer": "lookup", "file.format": file_format}
    options |= {"file.format.per.level": per_level} if per_level else {}
    options |= {"sequence.field": sequence} if sequence else {}
    columns = (("k", "INT"), ("at", "TIMESTAMP(3)"), ("c", "CHAR(3)"), ("r", "ROW<at TIMESTAMP(3)>"))
    kept, wiped = (BucketHarness(context(columns, ["k"], options), tmp_path / name) for name in ("kept", "wiped"))
    random = Random(formats)
    moments = [
        _LAST_SECOND,
        datetime(1970, 1, 1, 0, 0, 0, 500_000),
        datetime(1969, 12, 31, 23, 59, 58),
        datetime(2024, 1, 1),
    ]

    for number in range(12):
        at = [random.choice(moments) for _ in range(6)]
        texts = [random.choice(["a  ", "a", "abc"]) for _ in range(6)]
        rows = [("+I", random.randrange(12), at[i], texts[i], {"at": at[-i]}) for i in range(6)]
        if altered == "fields of rows":
            rows = [(kind, key, moments[-1], "a", row) for kind, key, _, _, row in rows]
        shutil.rmtree(tmp_path / "wiped", ignore_errors=True)
        messages = [bucket.commit(rows, full=number % 4 == 3) for bucket in (kept, wiped)]
        assert kept.content() == wiped.content()
        published = [bucket.changes(m.compact_changelog) for bucket, m in zip((kept, wiped), messages, strict=True)]
        assert published[0] == published[1]


def test_compact_only_refuses_buffered_rows(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    writer = bucket.new_writer()
    writer.write(bucket.table([("+I", 1, 1)]))
    with pytest.raises(BrokenInvariant, match="prepare_commit"):
        writer.compact_only()


def test_the_right_old_value_is_found_after_the_producer_was_switched_on(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, _SEQUENCED, sequence__field="s")
    filler = [("+I", key, 0, 0) for key in range(2, 1000)]
    bucket.commit([("+I", 1, 10, 5), *filler], full=True)
    for late in (1, 2, 3, 4):
        bucket.commit([("+I", 1, 11, late)])
    assert sorted(f.level for f in bucket.files) == [4, 5]
    assert bucket.content()[0] == (1, 10, 5)

    bucket.with_options(changelog_producer="lookup")

    assert _changes(bucket, [("+I", 1, 12, 6)]) == [("-U", 1, 10, 5), ("+U", 1, 12, 6)]


def test_old_values_come_in_the_current_schema(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)])
    old = bucket.ctx
    schema = apply_changes(old.schema, [AddColumn("w", parse_type("STRING"))], time_ms=1)
    bucket.ctx = replace(old, schema=schema, schemas={0: old.schema, schema.id: schema})

    assert _changes(bucket, [("+U", 1, 5, "new")]) == [("-U", 1, 1, None), ("+U", 1, 5, "new")]
    assert bucket.content() == [(1, 5, "new"), (2, 2, None)]
    assert [path.name.rpartition("-")[2] for path in lookup_dir.rglob("*.lookup")] == [f"{schema.id}.lookup"]


@pytest.mark.parametrize("key_type", ["INT", "STRING"])
def test_values_of_every_type_come_through_flush_compaction_and_lookup(lookup_dir: Path, key_type: str) -> None:
    key = {"INT": 7, "STRING": "seven"}[key_type]
    columns, values = zip(*_EVERY_TYPE, strict=True)
    typed = [("k", key_type), *((f"c{i}", t) for i, t in enumerate(columns))]
    bucket = _bucket(lookup_dir, typed, changelog_producer="lookup", changelog_producer__row_deduplicate="true")
    row, nulls = (key, *values), (key, *(None for _ in values))
    assert _changes(bucket, [("+I", *row)]) == [("+I", *row)]
    assert _changes(bucket, [("+U", *row)]) == []
    assert _changes(bucket, [("+U", *nulls)]) == [("-U", *row), ("+U", *nulls)]
    assert _changes(bucket, [("+U", *row)], full=True) == [("-U", *nulls), ("+U", *row)]
    assert bucket.content() == [row]


_EVERY_TYPE = [
    ("BOOLEAN", True),
    ("TINYINT", -1),
    ("SMALLINT", 300),
    ("INT", -5),
    ("BIGINT", 2**60),
    ("FLOAT", 0.5),
    ("DOUBLE", -1e300),
    ("DECIMAL(9, 2)", Decimal("1.50")),
    ("DECIMAL(18, 2)", Decimal("-1.50")),
    ("DECIMAL(38, 10)", Decimal("123456789012345678.1234567890")),
    ("CHAR(3)", "abc"),
    ("VARCHAR(5)", "é"),
    ("STRING", ""),
    ("BINARY(2)", b"ab"),
    ("BYTES", b"\xff"),
    ("DATE", date(2020, 2, 29)),
    ("TIME(3)", time(1, 2, 3, 4000)),
    ("TIMESTAMP(3)", datetime(2020, 1, 2, 3, 4, 5, 6000)),
    ("TIMESTAMP(6)", datetime(2020, 1, 2, 3, 4, 5, 6)),
    ("TIMESTAMP(9)", datetime(2020, 1, 2, 3, 4, 5, 6)),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", datetime(2020, 1, 2, 3, 4, 5, 6, UTC)),
    ("ARRAY<INT>", [1, None, 3]),
    ("ARRAY<STRING NOT NULL>", []),
    ("MAP<STRING, ARRAY<INT>>", [("a", [1]), ("b", None)]),
    ("MULTISET<STRING>", [("x", 2)]),
    ("ROW<a INT, b ROW<c STRING>>", {"a": 1, "b": {"c": "x"}}),
]


def test_files_of_a_partition_lie_in_its_directory_and_show_its_value(lookup_dir: Path) -> None:
    columns = [("k", "INT"), ("day", "DATE"), ("v", "INT")]
    ctx = context(columns, ["k", "day"], {"changelog-producer": "lookup"}, partition_keys=["day"])
    bucket = BucketHarness(ctx, lookup_dir)
    day = date(2020, 1, 2)
    bucket.bucket = BucketId(serialize_row([day], [parse_type("DATE")]), 0)
    bucket.commit([("+I", 1, day, 1)])
    assert _changes(bucket, [("+U", 1, day, 2)]) == [("-U", 1, day, 1), ("+U", 1, day, 2)]
    assert bucket.directory.endswith("/day=18263/bucket-0")
    assert bucket.content() == [(1, day, 2)]


# ---------------------------------------------------------------- point reads


def test_current_rows_are_found_over_all_levels(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    bucket.commit([("+I", key, key) for key in range(10)], full=True)
    bucket.commit([("+U", 1, 100), ("-D", 2, 0)])
    bucket.commit([("+U", 1, 101), ("+I", 20, 20)])
    keys = pa.table({"k": pa.array([20, 2, 1, 77, 5, 1], pa.int32())})
    writer = bucket.new_writer()
    hits = writer.find_rows(keys)
    assert dict(zip(hits.positions.tolist(), hits.rows.column("v").to_pylist(), strict=True)) in (
        {0: 20, 2: 101, 4: 5},
        {0: 20, 5: 101, 4: 5},
    )
    assert writer.lookup(keys).column("k").to_pylist() == [1, 5, 20]
    assert writer.lookup(keys.slice(0, 0)).num_rows == 0
    assert bucket.content()[:3] == [(0, 0), (1, 101), (3, 3)]
