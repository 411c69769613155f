"""Consumers hold what they have not read, also those that come late or whose file is just being written."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from paimon_table.errors import CorruptFile
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.expiry import plan_expiry
from paimon_table.history.removal import Finished, finish_interrupted
from paimon_table.history.retention import Limits
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.orphans import LEAST_AGE_MS, find_orphans
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.surroundings import now_ms, random_uuid
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.builders import committer, data_file, message, orders_schema

NEWEST = Limits(1, 1, 0, 100)


def table_of_six() -> Table:
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO())
    commit = committer(table, is_new_user=True, new_uuid=random_uuid)
    for number in range(6):
        commit.commit(number, [message(new_files=[data_file(f"f{number}")])], {})
    return table


def snapshots(table: Table) -> list[int]:
    return [number for number in range(1, 7) if table.io.exists(table.paths.snapshot_file(number))]


def test_a_consumer_that_comes_while_an_expiry_is_planned_keeps_what_it_reads_next() -> None:
    table = table_of_six()

    def new_uuid() -> str:
        ConsumerStore(table.io, table.paths).reset("late", 3)
        return random_uuid()

    done = expire(table.context, Surroundings(new_uuid=new_uuid), NEWEST)

    assert (done.snapshots, snapshots(table)) == ((1, 2), [3, 4, 5, 6])
    assert done.keeper is not None and "'late'" in done.keeper.text
    assert table.io.list_names(f"{table.paths.root}/tidemark/removals") == []


@pytest.mark.parametrize(
    ("gone", "left", "finished"),
    [
        ([], [1, 2, 3, 4, 5, 6], Finished(dropped=1)),
        ([1, 2], [3, 4, 5, 6], Finished(dropped=1)),
        ([1, 2, 3, 4, 5], [6], Finished(done=1)),
    ],
)
def test_so_does_one_that_comes_before_an_interrupted_expiry_is_finished(
    gone: list[int], left: list[int], finished: Finished
) -> None:
    table = table_of_six()
    record = f"{table.paths.root}/tidemark/removals/x.json"
    table.io.write(record, json.dumps(asdict(plan_expiry(table.context, NEWEST, now_ms()).removal)).encode())
    for number in gone:
        table.io.delete(table.paths.snapshot_file(number))
    ConsumerStore(table.io, table.paths).reset("late", 3)

    assert finish_interrupted(table.context) == finished

    assert snapshots(table) == left
    assert not table.io.exists(record)


def test_what_an_interrupted_expiry_leaves_then_is_found_by_remove_orphans() -> None:
    table = table_of_six()
    first = table.snapshots.read(1)
    record = f"{table.paths.root}/tidemark/removals/x.json"
    table.io.write(record, json.dumps(asdict(plan_expiry(table.context, NEWEST, now_ms()).removal)).encode())
    for number in (1, 2):
        table.io.delete(table.paths.snapshot_file(number))
    ConsumerStore(table.io, table.paths).reset("late", 3)

    done = expire(table.context, Surroundings(), NEWEST)

    assert (done.finished, done.dropped, done.snapshots) == (0, 1, ())
    found = find_orphans(table, Job(WriterEnvironment("/tmp")), -LEAST_AGE_MS)
    assert table.paths.manifest_file(first.base_manifest_list) in [orphan.path for orphan in found.files]


@pytest.mark.parametrize("content", [b"", b'{\n  "nextSna', b'{"nextSnapshot" : '])
def test_a_file_that_is_just_being_written_is_waited_for(content: bytes) -> None:
    table, waits = table_of_six(), list[float]()
    path = table.paths.consumer_file("c")

    def sleep_s(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 9:
            table.io.write(path, b'{"nextSnapshot" : 4}')

    store = ConsumerStore(table.io, table.paths, sleep_s)
    table.io.write(path, content)

    assert [(consumer.name, consumer.next_snapshot) for consumer in store.all()] == [("c", 4)]
    assert waits == [0.2] * 9


def test_a_file_that_stays_unreadable_is_told() -> None:
    table, waits = table_of_six(), list[float]()
    table.io.write(table.paths.consumer_file("c"), b"")

    with pytest.raises(CorruptFile, match="reset or delete it"):
        ConsumerStore(table.io, table.paths, waits.append).find("c")

    assert sum(waits) < 2
