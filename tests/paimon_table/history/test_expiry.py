"""Expired snapshots and whoever commits after them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from paimon_table.errors import CommitOutcomeUnknown, CorruptFile
from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.retention import Limits
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.table_state import advance_state, load_state
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.former_rows import former_rows
from tests.support.builders import committer, data_file, message, orders_schema
from tests.support.s3_server import s3_server
from tests.support.table_driver import TableDriver, new_table


def expired_table() -> Table:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    for number in range(4):
        committer(table, "old").commit(number, [message(new_files=[data_file(f"f{number}")])], {})
    expire(table.context, Surroundings(), Limits(1, 1, 0, 100))
    assert table.snapshots.earliest_id() == 4
    return table


def test_a_user_that_is_new_need_not_find_itself_among_expired_snapshots() -> None:
    table = expired_table()
    new = [message(new_files=[data_file("new")])]

    with pytest.raises(CommitOutcomeUnknown):
        committer(table, "new").commit(1, new, {})
    known = committer(table, "new", is_new_user=True)

    assert known.commit(1, new, {}).append is not None
    assert known.commit(1, new, {}).replayed
    assert table.snapshots.latest_id() == 5


def test_a_file_that_moves_to_another_level_stays() -> None:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    low, high = data_file("moves", 0), data_file("moves", 5)
    table.io.write("/w/t/bucket-0/moves", b"x")
    committer(table).commit(1, [message(new_files=[low])], {})
    committer(table).commit(2, [message(compact_before=[low], compact_after=[high])], {})

    expire(table.context, Surroundings(), Limits(1, 1, 0, 100))

    assert table.snapshots.earliest_id() == 2
    assert table.io.exists("/w/t/bucket-0/moves")


def test_a_removal_that_was_left_is_dropped_when_the_table_was_rolled_back_behind_it() -> None:
    """The ids of its snapshots belong to others by now."""
    table = expired_table()
    record = '{"snapshots": [4], "earliest": 5, "witness": "a-list-that-is-gone", "files": ["bucket-0/f3"]}'
    table.io.write("/w/t/tidemark/removals/r.json", record.encode())
    table.io.write("/w/t/bucket-0/f3", b"x")
    committer(table, "old").commit(9, [message(new_files=[data_file("f9")])], {})

    done = expire(table.context, Surroundings())

    assert (done.finished, done.dropped) == (0, 1)
    assert table.snapshots.earliest_id() == 4
    assert table.io.exists("/w/t/bucket-0/f3")
    assert table.io.list_names("/w/t/tidemark/removals") == []


@pytest.mark.parametrize(
    "record",
    [
        '{"files": [1, 2]}',
        '{"files": "bucket-0/f3"}',
        '{"snapshots": ["4"]}',
        '{"tags": [null]}',
        '{"earliest": 1e999}',
    ],
)
def test_a_record_of_a_removal_that_is_damaged_is_told_and_removes_nothing(record: str) -> None:
    table = expired_table()
    table.io.write("/w/t/tidemark/removals/r.json", record.encode())
    before = table.snapshots.earliest_id()

    with pytest.raises(CorruptFile, match=r"/w/t/tidemark/removals/r.json is not readable"):
        expire(table.context, Surroundings())
    assert table.snapshots.earliest_id() == before


@pytest.mark.slow
@pytest.mark.parametrize("number", ["9" * 30, "1e999", "NaN", '"2"', "true", "2.5"])
def test_a_consumer_whose_snapshot_is_no_number_is_told(number: str) -> None:
    table = expired_table()
    table.io.write("/w/t/consumer/consumer-c", f'{{"nextSnapshot": {number}}}'.encode())

    with pytest.raises(CorruptFile, match=r"/w/t/consumer/consumer-c is not readable as a consumer"):
        ConsumerStore(table.io, table.paths).all()


class ExpiringIO(MemoryFileIO):
    """Somebody else expires all but the newest snapshot right after this process has read a certain one."""

    expires_at: str | None = None

    @property
    def has_expired(self) -> bool:
        return self.expires_at is None

    def read(self, path: str) -> bytes:
        data = super().read(path)
        if self.expires_at is not None and path.endswith(self.expires_at):
            self.expires_at = None
            expire(Table.open("/w/t", io=MemoryFileIO(self.disk)).context, Surroundings(), Limits(1, 1, 0, 100))
        return data


def history(tmp_path: Path, io: MemoryFileIO) -> TableDriver:
    driver = TableDriver(new_table("/w/t", [("k", "INT"), ("v", "INT")], ["k"], io=io), tmp_path / "lookup")
    for number in range(6):
        driver.commit([["+I", number, number], ["-D", number - 1, None]], full_compact=number == 4)
    return driver


def test_a_state_that_is_moved_forward_survives_that_its_way_expires(tmp_path: Path) -> None:
    io = ExpiringIO()
    driver = history(tmp_path, io)
    table = driver.table
    behind = load_state(io, table.paths, table.snapshots.read(1))
    io.expires_at = "snapshot-2"

    state = advance_state(io, table.paths, behind, table.snapshots.latest())

    assert io.has_expired
    assert state.files == driver.state().files


def test_former_rows_that_expire_while_they_are_looked_for_are_not_there(tmp_path: Path) -> None:
    io = ExpiringIO()
    driver = history(tmp_path, io)
    table, bucket = driver.table, BucketId(EMPTY_ROW, 0)
    keys = driver.arrow([["+I", 1, None]]).select(["k"])
    environment = WriterEnvironment(str(tmp_path / "former"))
    before = former_rows(table.context, bucket, keys, environment, driver.state().files_of(bucket))
    assert before.column("v").to_pylist() == [1]
    io.expires_at = f"snapshot-{(table.snapshots.latest_id() or 0) - 2}"

    after = former_rows(table.context, bucket, keys, environment, driver.state().files_of(bucket))

    assert io.has_expired
    assert after.num_rows == 0


@pytest.mark.slow
def test_many_batches_leave_a_bounded_number_of_files() -> None:
    io = MemoryFileIO()
    table = Table.create("/w/t", orders_schema(), io=io)
    commit, newest, counts = committer(table, is_new_user=True), data_file("f0", 5), []
    io.write("/w/t/bucket-0/f0", b"x")
    commit.commit(0, [message(new_files=[newest])], {})
    for number in range(1, 301):
        name = f"f{number}"
        after = data_file(name, 5)
        for file in (f"{name}-0", name, f"c{number}"):
            io.write(f"/w/t/bucket-0/{file}", b"x")
        appended = data_file(f"{name}-0", 0)
        done = message(
            new_files=[appended],
            compact_before=[newest, appended],
            compact_after=[after],
            compact_changelog=[data_file(f"c{number}")],
        )
        commit.commit(number, [done], {})
        newest = after
        expire(table.context, Surroundings(), Limits(5, 10, 0, 50))
        counts.append(len(io.disk.files))

    assert table.snapshots.latest_id() == 601
    assert max(counts) < 80
    assert max(counts[200:]) <= max(counts[20:200])


@pytest.mark.slow
def test_tables_in_an_object_store_expire_too() -> None:
    with s3_server() as server:
        settings = {
            "s3.endpoint": server.endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.path.style.access": "true",
        }
        table = Table.create("s3://warehouse/t", orders_schema({"snapshot.clean-empty-directories": "true"}), settings)
        commit, old = committer(table, is_new_user=True), data_file("f0", 5)
        table.io.write("s3://warehouse/t/bucket-0/f0", b"x")
        commit.commit(0, [message(new_files=[old])], {})
        for number in range(1, 6):
            new = data_file(f"f{number}", 5)
            table.io.write(f"s3://warehouse/t/bucket-0/f{number}", b"x")
            commit.commit(number, [message(compact_before=[old], compact_after=[new])], {})
            old = new

        done = expire(table.context, Surroundings(), Limits(1, 1, 0, 100))

        assert done.snapshots == (1, 2, 3, 4, 5)
        assert table.io.list_names("s3://warehouse/t/bucket-0") == ["f5"]
        assert table.io.list_names("s3://warehouse/t/snapshot") == ["EARLIEST", "LATEST", "snapshot-6"]
        assert table.io.list_names("s3://warehouse/t/tidemark/removals") == []
        assert len(table.state().files) == 1


def _tagged(table: Table, name: str) -> None:
    create_tag(
        TagStore(table.io, table.paths),
        name,
        table.paths.snapshot_file(table.snapshots.latest_id() or 0),
        now=datetime.now,
        retained_ms=None,
    )


def test_what_a_tag_and_a_branch_need_is_read_once_while_snapshots_go_by() -> None:
    io = CountingFileIO(MemoryFileIO())
    table = Table.create("/w/t", orders_schema(), io=io)
    commit = committer(table, is_new_user=True)
    commit.commit(0, [message(new_files=[data_file("old")])], {})
    held = table.snapshots.read(1)
    manifests = {m.file_name for m in ManifestReader(io, table.paths).all_manifests(held)}
    _tagged(table, "kept")
    BranchStore(io, table.paths).create("line", TagStore(io, table.paths).read("kept"))
    surroundings, reads = Surroundings(), list[int]()

    for number in range(1, 5):
        commit.commit(number, [message(new_files=[data_file(f"f{number}")])], {})
        io.requests.clear()
        assert expire(table.context, surroundings, Limits(1, 1, 0, 100)).snapshots == (number,)
        reads.append(sum(kind == "read" and path.rpartition("/")[2] in manifests for kind, path in io.requests))

    assert reads[0] > 0 and reads[1:] == [0, 0, 0]


def test_a_tag_that_is_made_anew_keeps_what_it_needs_now() -> None:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    commit, surroundings, newest = committer(table, is_new_user=True), Surroundings(), Limits(1, 1, 0, 100)
    first, second = data_file("first", 0), data_file("second", 0)
    for file in (first, second):
        table.io.write(f"/w/t/bucket-0/{file.file_name}", b"x")
    commit.commit(0, [message(new_files=[first])], {})
    _tagged(table, "kept")
    commit.commit(1, [message(new_files=[second])], {})
    expire(table.context, surroundings, newest)
    table.io.delete(table.paths.tag_file("kept"))
    _tagged(table, "kept")

    merged = [message(compact_before=[first, second], compact_after=[data_file("both", 5)])]
    commit.commit(2, merged, {})
    commit.commit(3, [message(new_files=[data_file("last", 0)])], {})
    assert expire(table.context, surroundings, newest).snapshots == (2, 3)

    assert table.io.exists("/w/t/bucket-0/first") and table.io.exists("/w/t/bucket-0/second")
