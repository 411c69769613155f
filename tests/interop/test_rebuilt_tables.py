"""What Java Paimon sees of a table while it is rebuilt, at the switch, and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.history.tags import TagStore
from pipelines.catchup.reading import Step
from tests.interop.java_paimon import JavaPaimon
from tests.support.quarantined import envelope, record, rows_of, run_batch, table
from tests.support.rebuilt_tables import FILE, KINDS, TAG, damage, finish, job, start
from tests.support.replayed_topic import FINAL


def rows(java: JavaPaimon, path: str, tag: str | None = None) -> dict[object, object]:
    return {row[1]: row[2] for row in java.read(path, {} if tag is None else {"scan.tag-name": tag})}


@pytest.mark.parametrize("kind", ["lookup", "deletion-vectors", "dynamic"])
def test_java_reads_the_old_rows_then_the_new_ones_and_goes_on_with_them(
    tmp_path: Path, java: JavaPaimon, kind: str
) -> None:
    topic = start(tmp_path, KINDS[kind])
    path = table(tmp_path).paths.root
    wrong = damage(tmp_path)
    one = job(topic, allows_missing=True)
    while one.step() is not Step.DONE:
        assert rows(java, path) == wrong

    assert rows(java, path) == FINAL
    assert rows(java, path, TAG) == wrong
    switch = table(tmp_path).snapshots.latest_id() or 0
    assert java.changes(path, switch) == []

    java.write(path, [["+I", 5, 500, 100], ["+I", 200, 2, 1]])
    assert rows(java, path) == rows_of(tmp_path) == {**FINAL, 5: 500, 200: 2}
    run_batch(tmp_path, tmp_path / FILE, 3, record(23, envelope(0, 600, v=101), key=0))
    assert rows(java, path) == rows_of(tmp_path) == {**FINAL, 5: 500, 200: 2, 0: 600}


def test_the_tag_holds_the_old_rows_when_java_expires_the_snapshots(tmp_path: Path, java: JavaPaimon) -> None:
    topic = start(tmp_path, KINDS["lookup"])
    path = table(tmp_path).paths.root
    wrong = damage(tmp_path)
    finish(job(topic, allows_missing=True))
    newest = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "0 ms"}

    assert java.expire(path, newest)[0] > 0

    assert rows(java, path) == rows_of(tmp_path) == FINAL
    assert rows(java, path, TAG) == wrong
    assert TagStore(table(tmp_path).io, table(tmp_path).paths).names() == [TAG]
    assert java.remove_orphans(path, older_than_ms=2**53) == []
