"""Tables with dynamic buckets through the engine: where keys lie, and that they stay there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.bucket_assignment.dynamic_lanes import assigner_numbers
from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.commit.commit import TableCommit
from paimon_table.commit.delta import Commit, Delta
from paimon_table.errors import CommitConflict
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.hash_index import KeyHashes, assigners_of, read_hashes
from paimon_table.metadata.index_file import HASH
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ADD, DELETE
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.rows.hashes import murmur_hash_columns
from paimon_table.validation.schema_evolution import SetOption
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("pt", "INT"), ("k", "INT"), ("v", "STRING")]


@pytest.fixture(autouse=True)
def _nothing_held() -> None:
    """As in a process that has just started."""
    held_hashes.cache_clear()


def driver(path: Path, **options: str) -> TableDriver:
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    table = new_table(path / "t", COLUMNS, ["pt", "k"], ["pt"], {"bucket": "-1", **given})
    return TableDriver(table, path / "lookup")


def rows(keys: Iterable[int], value: str = "a", pt: int = 1, kind: str = "+I") -> list[list[object]]:
    return [[kind, pt, key, value] for key in keys]


def hashes(of: TableDriver) -> Mapping[int, KeyHashes]:
    """What the index says of the only partition."""
    table = of.table
    found = {e.bucket.bucket: read_hashes(table.io, table.paths, e.file) for e in of.state().index}
    assert sum(map(len, found.values())) == len(np.unique(np.concatenate([*found.values(), np.empty(0, np.int32)])))
    return found


def stored_buckets(of: TableDriver) -> dict[int, set[int]]:
    """The buckets whose files hold each key."""
    found: dict[int, set[int]] = {}
    for bucket, files in of.state().files.items():
        for file in files:
            path = of.table.context.data_file(bucket, file)
            for key in pa.parquet.read_table(path).column("k").to_pylist():
                found.setdefault(key, set()).add(bucket.bucket)
    return found


def check(of: TableDriver) -> None:
    """No key in two buckets, every key in the index of its bucket, no file that promises too much."""
    keys = stored_buckets(of)
    assert all(len(buckets) == 1 for buckets in keys.values())
    index = hashes(of)
    numbers = list(keys)
    key_hashes = murmur_hash_columns([pa.array(numbers, pa.int32())], [of.table.schema.field("k").type])
    for key, value in zip(numbers, key_hashes, strict=True):
        assert value in index[next(iter(keys[key]))]
    for entry in of.state().index:
        count = assigners_of(entry.file)
        if count is not None:
            assert set(assigner_numbers(index[entry.bucket.bucket], count).tolist()) <= {entry.bucket.bucket % count}


def publish_index(of: TableDriver, change: Callable[[Sequence[IndexEntry]], Iterable[IndexEntry]]) -> None:
    """Change the index as nobody else would, in a snapshot of its own."""
    commit = of.table.new_commit("other")
    delta = Delta(CommitKind.APPEND, (), (), tuple(change(commit.refresh().index)))
    commit._commit_part(Commit(identifier=1), CommitKind.APPEND, lambda _: delta)


def rename_index(of: TableDriver) -> None:
    """Give all index files names that do not say who wrote them, as those of others are."""

    def renamed(entries: Sequence[IndexEntry]) -> Iterator[IndexEntry]:
        for number, entry in enumerate(entries):
            name = f"index-foreign-{number}"
            io, paths = of.table.io, of.table.paths
            io.write(paths.index_file(name), io.read(paths.index_file(entry.file.file_name)))
            yield replace(entry, kind=DELETE)
            yield IndexEntry(ADD, entry.bucket, replace(entry.file, file_name=name))

    publish_index(of, renamed)


@pytest.mark.slow
def test_keys_stay_in_their_buckets(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="10", dynamic_bucket__initial_buckets="2")
    of.commit(rows(range(50)))
    before = stored_buckets(of)
    held_hashes.cache_clear()
    of.commit(rows(range(20, 120), "b"))
    check(of)
    after = stored_buckets(of)
    assert {key: after[key] for key in before} == before
    assert sorted(of.content()) == [[1, key, "a" if key < 20 else "b"] for key in range(120)]
    assert all(len(found) <= 10 for found in hashes(of).values())
    assert set(of.state().total_buckets.values()) == {-1}


def test_deletes_of_unknown_keys_take_a_place(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__initial_buckets="1")
    of.commit(rows([1, 2], kind="-D"))
    of.commit(rows([2]))
    assert sorted(of.content()) == [[1, 2, "a"]]
    assert [len(found) for found in hashes(of).values()] == [2]


def test_a_batch_without_new_keys_writes_no_index(tmp_path: Path) -> None:
    of = driver(tmp_path)
    of.commit(rows(range(9)))
    before = of.state().index
    of.commit(rows(range(9), "b"))
    assert of.state().index == before


def test_partitions_have_buckets_of_their_own(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="3", dynamic_bucket__initial_buckets="1")
    of.commit([*rows(range(4)), *rows(range(4), pt=2)])
    assert sorted((b.partition[-4:], b.bucket) for b in of.state().files) == sorted(
        (b.partition[-4:], b.bucket) for b in of.state().live_files().hash_files
    )
    assert len(of.state().files) == 4
    of.commit(rows(range(4), "b", pt=2))
    assert len(of.content()) == 8


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "promised"), [("3", "2", 1), ("4", "2", 2), ("2", "4", 2), ("6", "4", 2)])
def test_another_number_of_assigners_keeps_keys_where_they_are(
    tmp_path: Path, before: str, after: str, promised: int
) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="10", dynamic_bucket__assigner_parallelism=before)
    of.commit(rows(range(60)))
    held = stored_buckets(of)
    of.evolve([SetOption("dynamic-bucket.assigner-parallelism", after)])
    of.commit(rows(range(30, 150), "b"))
    check(of)
    assert held.items() <= stored_buckets(of).items()
    assert len(of.content()) == 150
    assert min(assigners_of(e.file) or 0 for e in of.state().index) == promised


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "promised"), [("3", "2", {None, 1}), ("4", "4", {4}), ("8", "4", {4}), ("2", "4", {2})]
)
def test_index_files_of_others_are_looked_at_once(
    tmp_path: Path, before: str, after: str, promised: set[int | None]
) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="10", dynamic_bucket__assigner_parallelism=before)
    of.commit(rows(range(60)))
    held = stored_buckets(of)
    rename_index(of)
    of.evolve([SetOption("dynamic-bucket.assigner-parallelism", after)])
    of.commit(rows([3, 200], "b"))
    check(of)
    assert {assigners_of(e.file) for e in of.state().index} == promised
    of.commit(rows(range(30, 150), "b"))
    check(of)
    assert held.items() <= stored_buckets(of).items()
    assert len(of.content()) == 151


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "half", "one bit", "no entry"])
def test_a_lost_index_is_made_again_from_the_keys(tmp_path: Path, damage: str) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="10", dynamic_bucket__initial_buckets="2")
    of.commit(rows(range(40)))
    of.commit(rows(range(5), kind="-D"))
    held = stored_buckets(of)
    lost = of.state().index[0]
    path = Path(of.table.paths.index_file(lost.file.file_name))
    if damage == "no entry":
        publish_index(of, lambda entries: [replace(entries[0], kind=DELETE)])
    elif damage == "missing":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-4] if damage == "half" else bytes([data[0] ^ 1]) + data[1:])
    held_hashes.cache_clear()
    of.commit(rows(range(60), "b"))
    check(of)
    assert held.items() <= stored_buckets(of).items()
    assert sorted(of.content()) == [[1, key, "b"] for key in range(60)]
    assert lost.file.file_name not in {e.file.file_name for e in of.state().index}


@pytest.mark.slow
def test_many_full_buckets_are_searched_as_one(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="18", dynamic_bucket__initial_buckets="2")
    for start in range(0, 270, 90):
        of.commit(rows([*range(start, start + 90), *range(0, start, 7)]))
    merged = list((tmp_path / "lookup" / "key-hashes").rglob("merged-*"))
    assert merged
    held_hashes.cache_clear()
    before = stored_buckets(of)
    of.commit(rows(range(300), "c"))
    check(of)
    assert before.items() <= stored_buckets(of).items()
    for path in merged:
        path.unlink(missing_ok=True)
    of.commit(rows(range(310), "d"))
    check(of)
    assert len(of.content()) == 310


@pytest.mark.slow
def test_contents_are_held_of_newest_index_files_that_are_not_merged(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="18", dynamic_bucket__initial_buckets="1")
    for start in range(0, 200, 50):
        of.commit(rows(range(start, start + 50)))
    files = {e.bucket.bucket: of.table.paths.index_file(e.file.file_name) for e in of.state().index}
    assert set(files) == set(range(12))

    of.commit(rows(range(200, 203)))

    grown = {e.bucket.bucket: of.table.paths.index_file(e.file.file_name) for e in of.state().index}
    is_held = {path: held_hashes().get(path) is not None for path in (*files.values(), *grown.values())}
    assert is_held == dict.fromkeys(files.values(), False) | {grown[11]: True}
    check(of)


@pytest.mark.slow
def test_a_merged_bucket_that_grows_while_its_index_file_is_lost_is_noted_once(tmp_path: Path) -> None:
    limits = {"dynamic_bucket__target_row_num": "10", "dynamic_bucket__max_buckets": "7"}
    of = driver(tmp_path, dynamic_bucket__initial_buckets="1", **limits)
    of.commit(rows(range(60)))
    of.commit(rows(range(5), "b"))
    assert list((tmp_path / "lookup" / "key-hashes").rglob("merged-*"))
    lost = next(e.file.file_name for e in of.state().index if e.bucket.bucket == 0)
    Path(of.table.paths.index_file(lost)).unlink()
    held_hashes.cache_clear()
    before = stored_buckets(of)

    of.commit(rows(range(80), "c"))

    assert [e.bucket.bucket for e in of.state().index] == list(range(7))
    assert before.items() <= stored_buckets(of).items()
    check(of)


def test_what_was_not_committed_is_forgotten(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="5", dynamic_bucket__initial_buckets="1")
    of.commit(rows(range(3)))
    _, messages = prepared(of, rows(range(100, 110)))
    assert {message.bucket.bucket for message in messages} == {0, 1, 2}
    of.commit(rows(range(200, 202)))
    check(of)
    assert [len(found) for found in hashes(of).values()] == [5]


def prepared(of: TableDriver, given: list[list[object]]) -> tuple[TableCommit, list[CommitMessage]]:
    """What a job has written and not committed yet."""
    commit, environment = of.table.new_commit("late"), of._environment
    live = commit.refresh().live_files()
    late = of.table.assign(of.arrow(given), live, environment)
    messages = []
    for bucket, part in late.buckets.items():
        writer = of.table.bucket_writer(bucket, live.of(bucket), environment)
        writer.write(part)
        messages.append(late.noted(writer.prepare_commit()))
    return commit, messages


def test_a_second_job_on_a_partition_is_refused(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="5")
    of.commit(rows(range(3)))
    other = TableDriver(of.table, tmp_path / "lookup", commit_user="other")
    commit, messages = prepared(of, rows(range(50, 60)))
    other.commit(rows(range(55, 65), "b"))
    with pytest.raises(CommitConflict, match="another job writes this partition"):
        commit.commit(1, messages, {})
    of.commit(rows(range(50, 60), "c"))
    check(of)


def test_another_partition_may_be_written_by_another_job(tmp_path: Path) -> None:
    of = driver(tmp_path)
    of.commit([*rows(range(3)), *rows(range(3), pt=2)])
    commit, messages = prepared(of, rows(range(5, 9)))
    TableDriver(of.table, tmp_path / "lookup", commit_user="other").commit(rows(range(3, 7), pt=2))
    commit.commit(1, messages, {})
    assert len(of.content()) == 14


def test_overwrite_starts_with_an_empty_index(tmp_path: Path) -> None:
    of = driver(tmp_path, dynamic_bucket__target_row_num="5", dynamic_bucket__initial_buckets="1")
    of.commit([*rows(range(30)), *rows(range(3), pt=2)])
    of.overwrite(rows(range(25, 32), "b"), {"pt": 1})
    assert sum(len(found) for found in hashes_of(of, 1).values()) == 7
    assert sum(len(found) for found in hashes_of(of, 2).values()) == 3
    of.commit(rows(range(25, 40), "c"))
    assert sorted(of.content()) == [[1, k, "c"] for k in range(25, 40)] + [[2, k, "a"] for k in range(3)]


def hashes_of(of: TableDriver, pt: int) -> Mapping[int, KeyHashes]:
    context = of.table.context
    return {
        e.bucket.bucket: read_hashes(context.io, context.paths, e.file)
        for e in of.state().index
        if context.partition_values(e.bucket.partition) == (pt,)
    }


@pytest.mark.slow
def test_compaction_and_deletion_vectors_leave_the_index_alone(tmp_path: Path) -> None:
    of = driver(tmp_path, deletion_vectors__enabled="true", changelog_producer="lookup")
    of.commit(rows(range(40)))
    of.commit(rows(range(0, 40, 2), "b"))
    before = [e for e in of.state().index if e.file.index_type == HASH]
    of.compact()
    assert [e for e in of.state().index if e.file.index_type == HASH] == before
    assert sorted(of.content()) == [[1, key, "b" if key % 2 == 0 else "a"] for key in range(40)]
