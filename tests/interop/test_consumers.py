"""A streaming reader of Java's with a consumer-id, while Tidemark expires all it may after each commit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.snapshot_names import all_names, changelog_names, names_of_log
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.tidying import tidy
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.java_paimon import JavaPaimon, SnapshotChanges
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("id", "INT"), ("v", "STRING"), ("p", "INT")]
COMMITS = 10
SHORT = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 s"}
LONGER = {"changelog.num-retained.min": "6", "changelog.num-retained.max": "8", "changelog.time-retained": "1 s"}


def opened(path: Path, options: Mapping[str, str]) -> TableDriver:
    return TableDriver(new_table(path, COLUMNS, ["p", "id"], ["p"], options), path.parent / "lookup")


def commit(driver: TableDriver, number: int) -> None:
    """Updates and deletes of a few keys of two partitions; now and then a full compaction."""
    rows = [["+U" if number else "+I", n, f"{number}-{n}", n % 2] for n in range(number % 5, number % 5 + 6)]
    rows += [["-D", (number + 3) % 11, f"{number}", (number + 3) % 11 % 2]] if number > 2 else []
    driver.commit(rows, full_compact=number % 7 == 6)


def tidy_later(table: Table, later_ms: int = 60_000) -> None:
    """What follows a commit, when all that is there is older than it is kept."""
    tidy(table, Surroundings(clock_ms=lambda: now_ms() + later_ms), Job(WriterEnvironment(f"{table.paths.root}-job")))


def not_needed(table: Table) -> set[str]:
    """Every file below the table that no snapshot and no long-lived changelog needs, but for hints and the like.

    What the snapshot of a changelog without changelog files deleted stays until that goes, as in Java's expiry.
    """
    reader = ManifestReader(table.io, table.paths)
    snapshots = list(table.snapshots.between(None, None))
    names = all_names(reader, snapshots)
    logs = [table.snapshots.find_changelog(number) for number in table.snapshots.changelog_ids()]
    for one in (*snapshots, *(log for log in logs if log is not None)):
        names |= changelog_names(reader, one)
    for log in logs:
        added = set() if log is None else names_of_log(reader, log, needs_added=True)
        names |= added
        if log is not None and log.delta_manifest_list in added:
            names |= {entry.file.file_name for entry in reader.delta_entries(log)}
    files = [p for p in Path(table.paths.root).rglob("*") if p.is_file()]
    return {p.name for p in files if p.parent.name not in {"schema", "snapshot", "changelog"}} - names


@pytest.mark.parametrize(("producer", "longer"), [("lookup", {}), ("none", LONGER)])
def test_each_change_reaches_a_slow_reader_once(
    producer: str, longer: Mapping[str, str], tmp_path: Path, java: JavaPaimon
) -> None:
    # given a table that keeps as little as it may, and the same history with nothing expired
    options = {"changelog-producer": producer, "bucket": "2"}
    driver, whole = opened(tmp_path / "t", {**options, **SHORT, **longer}), opened(tmp_path / "whole", options)
    table, path = driver.table, driver.table.paths.root
    consumers = ConsumerStore(table.io, table.paths)

    # when a reader takes a few snapshots now and then
    got: list[SnapshotChanges] = []
    for number in range(COMMITS):
        commit(driver, number)
        commit(whole, number)
        tidy_later(table)
        if number % 4 == 0:
            got += java.consume(path, "slow", 3 + number % 3)
            commit(driver, -1)
            commit(whole, -1)
            tidy_later(table)
            assert table.snapshots.earliest_id() == min(
                consumers.all()[0].next_snapshot, table.snapshots.latest_id() or 0
            )
    got += java.consume(path, "slow", 1000)

    # then it has got all of them in order, and when it is forgotten nothing is left but what the options keep
    assert got == java.changes(whole.table.paths.root)
    assert driver.content() == whole.content()
    consumers.delete("slow")
    tidy_later(table)
    assert table.snapshots.earliest_id() == table.snapshots.latest_id()
    assert not_needed(table) == set()


def test_who_keeps_snapshots_and_who_does_not(tmp_path: Path) -> None:
    driver = opened(tmp_path / "t", {**SHORT, "consumer.expiration-time": "1 h"})
    table = driver.table
    consumers = ConsumerStore(table.io, table.paths)
    commit(driver, 0)
    create_tag(TagStore(table.io, table.paths), "t", table.paths.snapshot_file(1), now=datetime.now, retained_ms=None)
    BranchStore(table.io, table.paths).create("b", TagStore(table.io, table.paths).read("t"))
    ConsumerStore(table.io, table.paths.branch("b")).reset("of-branch", 1)
    for number in range(1, 5):
        commit(driver, number)

    # a damaged consumer keeps everything, and is named with the way out
    table.io.write(table.paths.consumer_file("slow"), b"{")
    with pytest.raises(CorruptFile, match=r"consumer-slow is not readable .* 'tidemark table consumers'"):
        tidy_later(table)
    assert table.snapshots.earliest_id() == 1

    # a consumer keeps what it reads next; one of a branch keeps nothing of the table
    consumers.reset("slow", 3)
    tidy_later(table)
    assert table.snapshots.earliest_id() == 3

    # one that has not moved for so long is forgotten
    tidy_later(table, later_ms=2 * 3_600_000)
    assert consumers.names() == []
    assert table.snapshots.earliest_id() == table.snapshots.latest_id()
    assert ConsumerStore(table.io, table.paths.branch("b")).names() == ["of-branch"]
