"""Expired snapshots and whoever commits after them."""

from __future__ import annotations

import pytest

from paimon_table.errors import CommitOutcomeUnknown
from paimon_table.history.retention import Limits
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from tests.support.builders import committer, data_file, message, orders_schema


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

    assert done.finished == 1
    assert table.snapshots.earliest_id() == 4
    assert table.io.exists("/w/t/bucket-0/f3")
    assert table.io.list_names("/w/t/tidemark/removals") == []
