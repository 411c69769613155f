"""Emptied tables: what Tidemark leaves is what Java leaves, for all readers, and both go on writing it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partitions import truncate
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.histories import Readers, create_by_java, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import Scenario, Step

COLUMNS = tuple((name, parse_type(text)) for name, text in (("dt", "STRING"), ("id", "INT"), ("v", "STRING")))


def scenario(name: str, keys: str, partitions: str, **options: str) -> Scenario:
    given = {option.replace("__", ".").replace("_", "-"): value for option, value in options.items()}
    return Scenario(name, COLUMNS, tuple(keys.split()), (), tuple(partitions.split()), given)


KINDS = (
    scenario("fixed", "dt id", "dt", bucket="2"),
    scenario("without-partitions", "id", "", bucket="2", changelog_producer="lookup"),
    scenario("dynamic", "dt id", "dt", bucket="-1", dynamic_bucket__target_row_num="3"),
    scenario("moving-rows", "id", "dt", bucket="-1"),
    scenario("postponed", "dt id", "dt", bucket="-2"),
    scenario("append", "", "dt", bucket="-1"),
    scenario("append-in-buckets", "", "", bucket="2", bucket_key="id"),
    scenario("deletion-vectors", "id", "", bucket="2", deletion_vectors__enabled="true"),
)

FIRST = [
    Step(tuple(["+I", "ab"[key % 2], key, "one"] for key in range(12)), compact=True),
    Step(tuple(["+I", "ab"[key % 2], key, "two"] for key in range(6))),
]
LATER = [
    Step(tuple(["+I", "ba"[key % 2], key, "three"] for key in range(4, 9))),
    Step(tuple(["+I", "ba"[key % 2], key, "four"] for key in range(7, 11))),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_table_that_tidemark_empties_is_as_one_that_java_does(
    kind: Scenario, tmp_path: Path, java: JavaPaimon, python_readers: PythonReaders
) -> None:
    readers = Readers(java, python_readers)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    create_by_java(java, kind, ours)
    write_by_tidemark(ours, FIRST[:1])
    write_by_java(java, ours, FIRST[1:])
    content = readers.assert_equal(ours, kind)
    shutil.copytree(ours, theirs)
    last = Table.open(str(ours)).snapshots.latest_id()

    truncate(Table.open(str(ours)), Job(WriterEnvironment(str(tmp_path / "job"))))
    java.truncate(str(theirs))

    for path in (ours, theirs):
        assert readers.assert_equal(path, kind) == []
        assert readers.assert_equal(path, kind, last) == content
    assert _told(ours) == _told(theirs)
    for path in (ours, theirs):
        write_by_java(java, path, LATER[:1], "java-again")
        write_by_tidemark(path, LATER[1:], "tidemark-again")
    rows = readers.assert_equal(ours, kind)
    assert rows == readers.assert_equal(theirs, kind)
    assert bool(rows) is (kind.name != "postponed")


def _told(path: Path) -> tuple[object, ...]:
    """What the newest snapshot says of itself."""
    table = Table.open(str(path))
    newest = table.snapshots.latest()
    assert newest is not None
    counts = (newest.total_record_count, newest.delta_record_count, newest.changelog_record_count)
    state = table.state()
    return newest.id, newest.commit_kind, *counts, newest.changelog_manifest_list, state.index, dict(state.files)
