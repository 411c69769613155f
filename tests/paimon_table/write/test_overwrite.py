"""INSERT OVERWRITE: which partitions are replaced, by what, and that it happens as a whole or not at all."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from paimon_table.commit.commit import TableCommit
from paimon_table.commit.overwrite import replaced_partitions
from paimon_table.errors import BrokenInvariant, CommitConflict, ConfigError
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.metadata.table_state import BucketState
from paimon_table.options.option_parsing import options_of
from paimon_table.rows.binary_row import serialize_row
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.overwrite_writer import OverwriteWriter
from tests.support.builders import committer, data_file, message
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "INT"), ("dt", "STRING"), ("h", "INT")]


def partitioned(tmp_path: Path, **options: str) -> TableDriver:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    table = new_table(tmp_path / "t", COLUMNS, ["k", "dt", "h"], ["dt", "h"], given)
    writer = TableDriver(table, tmp_path / "lookup")
    writer.commit([["+I", 1, 1, "a", 1], ["+I", 2, 1, "a", 2], ["+I", 3, 1, "b", 1]])
    return writer


def plain(tmp_path: Path, options: dict[str, str] | None = None) -> TableDriver:
    table = new_table(tmp_path / "t", [("k", "INT"), ("v", "INT")], ["k"], options=options)
    return TableDriver(table, tmp_path / "lookup")


def rows(*keys: int, value: int = 1) -> list[list[Plain]]:
    return [["+I", key, value] for key in keys]


def flushing_at_once(tmp_path: Path) -> WriterEnvironment:
    return WriterEnvironment(str(tmp_path / "lookup"), clock_ms=lambda: 1, write_buffer_bytes=1)


def levels(of: TableDriver) -> list[int]:
    return [file.level for files in of.state().files.values() for file in files]


# ---------------------------------------------------------------- what is replaced


def test_dynamic_overwrite_replaces_the_partitions_of_the_rows(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    result = table.overwrite([["+I", 9, 9, "a", 2]])
    assert result.overwrite is not None
    assert result.overwrite.commit_kind is CommitKind.OVERWRITE
    assert table.content() == [[1, 1, "a", 1], [3, 1, "b", 1], [9, 9, "a", 2]]
    assert (result.overwrite.total_record_count, result.overwrite.delta_record_count) == (3, 0)


def test_dynamic_overwrite_without_rows_commits_nothing(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    assert table.overwrite([], {"dt": "a"}).overwrite is None
    assert (len(table.content()), table.table.snapshots.latest_id()) == (3, 1)


@pytest.mark.parametrize(
    ("partition", "left"),
    [
        ({}, []),
        ({"dt": "a"}, [[3, 1, "b", 1]]),
        ({"h": 1}, [[2, 1, "a", 2]]),
        ({"h": 2, "dt": "a"}, [[1, 1, "a", 1], [3, 1, "b", 1]]),
        ({"dt": None}, [[1, 1, "a", 1], [2, 1, "a", 2], [3, 1, "b", 1]]),
    ],
    ids=str,
)
def test_static_overwrite_empties_what_its_partition_names(
    tmp_path: Path, partition: dict[str, Plain], left: list[list[Plain]]
) -> None:
    table = partitioned(tmp_path, dynamic_partition_overwrite="false")
    table.overwrite([], partition)
    assert table.content() == left


@pytest.mark.parametrize("dynamic", ["true", "false"])
def test_rows_outside_of_the_static_partition_are_refused(tmp_path: Path, dynamic: str) -> None:
    table = partitioned(tmp_path, dynamic_partition_overwrite=dynamic)
    with pytest.raises(ConfigError, match="are outside of the partition"):
        table.overwrite([["+I", 1, 2, "a", 1], ["+I", 1, 2, "b", 1]], {"dt": "a"})
    assert table.table.snapshots.latest_id() == 1


def test_single_partitions_are_not_overwritten_where_a_key_has_one_row_in_all_of_them(tmp_path: Path) -> None:
    columns = [("k", "INT"), ("v", "INT"), ("dt", "STRING")]
    table = TableDriver(new_table(tmp_path / "t", columns, ["k"], ["dt"], {"bucket": "-1"}), tmp_path / "lookup")
    table.commit([["+I", 1, 1, "a"], ["+I", 2, 1, "b"]])
    with pytest.raises(ConfigError, match=r"could duplicate rows, because partition \['a'\] stays"):
        table.overwrite([["+I", 1, 2, "b"]])
    assert table.content() == [[1, 1, "a"], [2, 1, "b"]]
    table.overwrite([["+I", 1, 2, "b"], ["+I", 3, 2, "a"]])
    assert table.content() == [[1, 2, "b"], [3, 2, "a"]]


@pytest.mark.parametrize("name", ["k", "zzz"])
def test_only_partition_columns_name_a_partition(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a partition column"):
        partitioned(tmp_path).overwrite([], {name: 1})


def test_table_without_partitions_is_replaced_as_a_whole(tmp_path: Path) -> None:
    table = plain(tmp_path, {"bucket": "3"})
    table.commit(rows(*range(20)))
    table.overwrite(rows(7, value=2))
    assert table.content() == [[7, 2]]
    table.overwrite([])
    assert (table.content(), table.state().files) == ([], {})


def test_deletes_alone_replace_their_partition(tmp_path: Path) -> None:
    table = partitioned(tmp_path, changelog_producer="lookup")
    table.overwrite([["-D", 1, 1, "a", 1]])
    assert table.content() == [[2, 1, "a", 2], [3, 1, "b", 1]]


def test_ignored_rows_replace_nothing(tmp_path: Path) -> None:
    table = partitioned(tmp_path, ignore_delete="true")
    assert table.overwrite([["-D", 1, 1, "a", 1]]).overwrite is None


def _schema() -> TableSchema:
    typed = [(name, parse_type(text)) for name, text in [("d", "DATE"), ("k", "INT")]]
    return create_schema(typed, ["d", "k"], ["d"], {"bucket": "1", "dynamic-partition-overwrite": "false"})


def test_partition_values_compare_as_values() -> None:
    schema = _schema()
    day = serialize_row([19_000], [parse_type("DATE")])
    covers = replaced_partitions(schema, options_of(schema), [], {"d": 19_000})
    assert covers(day)
    assert not covers(serialize_row([19_001], [parse_type("DATE")]))


# ---------------------------------------------------------------- what comes


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"changelog-producer": "input"},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"merge-engine": "first-row"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"},
    ],
    ids=lambda options: " ".join(options.values()) or "plain",
)
def test_new_rows_are_merged_as_if_nothing_had_been_there(tmp_path: Path, options: dict[str, str]) -> None:
    table = plain(tmp_path, options)
    for value in (1, 2):
        table.commit(rows(1, 2, 3, value=value))
    at = (table.table.snapshots.latest_id() or 0) + 1
    snapshot = table.overwrite(rows(3, 4, value=10)).overwrite
    assert snapshot is not None
    assert (snapshot.id, snapshot.changelog_manifest_list, snapshot.index_manifest) == (at, None, None)
    assert table.content() == [[3, 10], [4, 10]]
    assert table.changes(at) == []
    assert set(levels(table)) == {5}
    table.commit(rows(4, 5, value=1))
    after = {"aggregation": 11, "first-row": 10}.get(options.get("merge-engine", ""), 1)
    table.compact()
    assert table.content() == [[3, 10], [4, after], [5, 1]]


def test_files_that_the_compaction_of_the_new_rows_replaced_are_gone(tmp_path: Path) -> None:
    table = plain(tmp_path, {"changelog-producer": "lookup"})
    writer = OverwriteWriter(table.table.context, BucketId(EMPTY_ROW, 0), flushing_at_once(tmp_path))
    for value in (1, 2):
        writer.write(table.arrow(rows(1, 2, value=value)))
    made = writer.prepare()
    assert made is not None
    assert [file.row_count for file in made.new_files] == [2]
    assert made.new_files[0].level > 0
    assert [path.name for path in (tmp_path / "t" / "bucket-0").iterdir()] == [made.new_files[0].file_name]


def test_next_changes_of_a_changelog_are_about_the_new_rows(tmp_path: Path) -> None:
    table = plain(tmp_path, {"changelog-producer": "lookup"})
    table.commit(rows(1, 2))
    table.overwrite(rows(1, value=5))
    first = (table.table.snapshots.latest_id() or 0) + 1
    table.commit(rows(1, 2, value=6))
    (changes,) = table.changes(first)
    assert changes.rows == [["-U", 1, 5], ["+U", 1, 6], ["+I", 2, 6]]


def test_deletion_vectors_of_replaced_partitions_go(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "bucket": "1"}
    table = TableDriver(new_table(tmp_path / "t", COLUMNS[:3], ["k", "dt"], ["dt"], options), tmp_path / "lookup")
    table.commit([["+I", key, 1, dt] for key in range(50) for dt in "ab"])
    table.commit([["+I", 7, 2, "a"], ["+I", 7, 2, "b"]])
    assert len(table.state().deletion_files()) == 2
    table.overwrite([["+I", 1, 3, "a"]])
    (bucket,) = table.state().deletion_files()
    assert bucket.partition == serialize_row(["b"], [parse_type("STRING")])
    assert [row for row in table.content() if row[2] == "a"] == [[1, 3, "a"]]
    assert len(table.content()) == 51


def test_files_with_deletes_and_files_that_overlap_stay_on_level_0(tmp_path: Path) -> None:
    table = plain(tmp_path, {"write-only": "true"})
    table.overwrite([*rows(1), ["-D", 2, 1]])
    assert levels(table) == [0]
    table.overwrite(rows(1))
    assert levels(table) == [5]
    writer = OverwriteWriter(table.table.context, BucketId(EMPTY_ROW, 0), flushing_at_once(tmp_path))
    for value in (1, 2):
        writer.write(table.arrow(rows(1, value=value)))
    made = writer.prepare()
    assert made is not None
    assert [file.level for file in made.new_files] == [0, 0]


def test_overwrite_upgrade_can_be_switched_off(tmp_path: Path) -> None:
    table = plain(tmp_path, {"write-only": "true", "overwrite-upgrade": "false"})
    table.overwrite(rows(1))
    assert (levels(table), table.content()) == ([0], [[1, 1]])


def test_overwrite_gets_its_place_in_the_order_of_snapshots(tmp_path: Path) -> None:
    table = plain(tmp_path, {"write-only": "true", "sequence.snapshot-ordering": "true"})
    table.commit(rows(1))
    table.overwrite([["+I", 1, value] for value in range(30)])
    table.commit(rows(1, value=7))
    assert table.content() == [[1, 7]]
    found = sorted(f.max_sequence_number for files in table.state().files.values() for f in files)
    assert found == [2, 3]


# ---------------------------------------------------------------- number of buckets


def test_other_number_of_buckets_takes_effect_by_overwrite(tmp_path: Path) -> None:
    options = {"bucket": "2"}
    table = TableDriver(new_table(tmp_path / "t", COLUMNS[:3], ["k", "dt"], ["dt"], options), tmp_path / "lookup")
    table.commit([["+I", key, 1, dt] for key in range(20) for dt in "ab"])
    table.evolve([SetOption("bucket", "4")])
    for key in range(20, 30):
        with pytest.raises(ConfigError, match=r"partition dt=a .*bucket num 4, .*bucket num is 2. .*OVERWRITE"):
            table.commit([["+I", key, 1, "a"]])
    table.overwrite([["+I", key, 2, "a"] for key in range(20)])
    assert {b.bucket for b in table.state().files if b.partition.startswith(b"\x00\x00\x00\x01\x00")} == {0, 1, 2, 3}
    table.commit([["+I", 3, 3, "a"], ["+I", 3, 3, "new"]])
    with pytest.raises(ConfigError, match="dt=b"):
        table.commit([["+I", 3, 3, "b"]])
    content = table.content()
    assert (len(content), [row for row in content if row[0] == 3]) == (41, [[3, 1, "b"], [3, 3, "a"], [3, 3, "new"]])


def test_refused_rows_leave_no_file(tmp_path: Path) -> None:
    table = plain(tmp_path, {"bucket": "1"})
    table.commit(rows(1))
    table.evolve([SetOption("bucket", "64")])
    before = sorted(Path(table.table.paths.root).rglob("*"))
    with pytest.raises(ConfigError, match="INSERT OVERWRITE"):
        table.commit(rows(*range(2, 50)))
    assert sorted(Path(table.table.paths.root).rglob("*")) == before


def test_writer_refuses_rows_for_another_number_of_buckets(tmp_path: Path) -> None:
    table = plain(tmp_path, {"bucket": "4"})
    environment = flushing_at_once(tmp_path)
    writer = table.table.bucket_writer(BucketId(EMPTY_ROW, 3), BucketState(partition_buckets=2), environment)
    with pytest.raises(ConfigError, match=r"bucket num 4, .*bucket num is 2"):
        writer.write(table.arrow(rows(1)))
    assert not (tmp_path / "t" / "bucket-3").exists()


def test_partition_of_another_number_of_buckets_can_be_compacted(tmp_path: Path) -> None:
    table = plain(tmp_path, {"bucket": "2"})
    for value in (1, 2):
        table.commit(rows(*range(9), value=value))
    table.evolve([SetOption("bucket", "4")])
    table.compact()
    assert set(table.state().total_buckets.values()) == {2}
    assert (set(levels(table)), len(table.content())) == ({5}, 9)


# ---------------------------------------------------------------- exactly once


def test_replayed_overwrite_is_committed_once(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.overwrite(rows(1))
    again = TableDriver(table.table, tmp_path / "lookup").overwrite(rows(2))
    assert (again.replayed, again.overwrite) == (True, None)
    assert table.content() == [[1, 1]]


def test_what_others_commit_until_the_snapshot_is_replaced_too() -> None:
    disk = MemoryDisk()
    table = _memory_table(MemoryFileIO(disk))
    theirs, ours = data_file("theirs"), data_file("ours")

    def race(_: str) -> None:
        committer(table, "other").commit(1, [message(new_files=[theirs])], {})

    committer(table).commit(1, [message(new_files=[data_file("old")])], {})
    mine = committer(table, on_step=race)
    mine.overwrite(2, [message(new_files=[ours])], {})
    assert [f.file_name for files in mine.state.files.values() for f in files] == ["ours"]
    assert committer(table).refresh().files == mine.state.files
    assert {path for path in disk.files if "/manifest/" in path} == _named_manifests(table)


def _named_manifests(table: Table) -> set[str]:
    """The manifest files that any snapshot needs."""
    reader = ManifestReader(table.io, table.paths)
    names = set()
    for number in range(1, (table.snapshots.latest_id() or 0) + 1):
        snapshot = table.snapshots.read(number)
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        names |= {manifest.file_name for manifest in reader.all_manifests(snapshot)}
    return {table.paths.manifest_file(name) for name in names}


def test_compaction_of_replaced_files_is_refused() -> None:
    table = _memory_table()
    old = data_file("old")
    committer(table).commit(1, [message(new_files=[old])], {})
    committer(table).overwrite(2, [message(new_files=[data_file("new")])], {})
    with pytest.raises(CommitConflict, match="no longer live"):
        committer(table, "other").commit(1, [message(compact_before=[old], compact_after=[old.at_level(5)])], {})


def test_messages_of_other_writers_are_refused() -> None:
    a = data_file("a")
    for wrong in (message(new_files=[a], changelog_files=[data_file("c")]), message(compact_before=[a])):
        with pytest.raises(BrokenInvariant, match="not written by an OverwriteWriter"):
            committer(_memory_table()).overwrite(1, [wrong], {})


def _memory_table(io: MemoryFileIO | None = None) -> Table:
    return new_table("/w/t", [("k", "INT"), ("v", "INT")], ["k"], options={"bucket": "4"}, io=io or MemoryFileIO())


def _overwrite(io: MemoryFileIO, old: CommitMessage, new: CommitMessage) -> None:
    table = _memory_table(io)
    commit: TableCommit = committer(table, new_uuid=lambda: str(uuid.uuid4()))
    commit.commit(1, [old], {})
    commit.overwrite(2, [new], {"offset": "2"})


def _live(disk: MemoryDisk) -> list[str]:
    table = Table.open_if_exists("/w/t", io=MemoryFileIO(disk))
    state = None if table is None else committer(table).refresh()
    return [] if state is None else [f.file_name for files in state.files.values() for f in files]


def test_power_cut_after_any_operation_leaves_the_old_or_the_new_rows() -> None:
    old, new = message(new_files=[data_file("old")]), message(1, new_files=[data_file("new")])
    undisturbed = MemoryFileIO()
    _overwrite(undisturbed, old, new)
    for crash_after in undisturbed.changes:
        io = MemoryFileIO(crash_after=crash_after)
        try:
            _overwrite(io, old, new)
        except SimulatedCrash:
            disk = io.disk.after_power_cut()
            assert _live(disk) in ([], ["old"], ["new"])
            _overwrite(MemoryFileIO(disk), old, new)
            assert _live(disk) == ["new"]
