"""Records of a real broker once more: bad ones are retried and a range is replayed beside a pipeline that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table import Table
from sinks.faults import CRASH_VARIABLE
from tests.integration.orders_pipeline import events, row, running, written
from tests.stack.topics import Topics
from tests.support.command import Done, tidemark_process
from tests.support.pipeline_run import rows_so_far, wait_until
from tests.support.waiting import seconds

pytestmark = pytest.mark.stack

TOPIC = "again.public.orders"


def test_bad_records_are_retried_and_a_lost_partition_is_replayed(tmp_path: Path, kafka: Topics) -> None:
    kafka.create(TOPIC, 2)
    file, log = written(tmp_path, kafka.bootstrap_servers, TOPIC), tmp_path / "log"
    kafka.produce(TOPIC, events([*map(row, range(2000)), row(3000, "many")]))
    expected = {key: key for key in range(2000)}

    def rows() -> dict[int, int]:
        return {r["id"]: r["n"] for r in rows_so_far(f"{tmp_path}/warehouse/lake.db/orders")}

    def command(*words: str, code: int = 0) -> Done:
        done = tidemark_process(*words)
        assert done.returncode == code, done.stdout + done.stderr + log.read_text()
        return done

    with running(file, log, **{CRASH_VARIABLE: "slice-done@2"}) as process:
        wait_until(lambda: rows() == expected, 120, "the first rows")
        shown = command("quarantine", "show", str(file), "--format", "json").stdout
        (tmp_path / "edited.jsonl").write_text(shown.replace('\\"many\\"', "3000"))
        retried = command("quarantine", "retry", str(file), "--file", str(tmp_path / "edited.jsonl"))
        assert retried.stdout == "retried 1 record: 1 is in its table\n"
        expected[3000] = 3000
        assert rows() == expected

        command("table", "drop-partition", f"{tmp_path}/warehouse/lake.db/orders", "--partition", "day=1", "--yes")
        assert len(rows()) < 1600
        replay = ("replay", str(file), "--table", "lake.orders", "--from", "earliest", "--into-place")
        done = command(*replay)
        assert "the process that ran pipeline again has ended; this command continues the work itself" in done.stderr
        assert done.stdout.startswith("replayed 2,0"), done.stdout
        assert process.wait(seconds(30)) < 0
    assert rows() == expected

    kafka.produce(TOPIC, events(map(row, range(2000, 2400))))
    expected |= {key: key for key in range(2000, 2400)}
    with running(file, log):
        wait_until(lambda: rows() == expected, 120, "the rows behind the crash")
        command("table", "drop-partition", f"{tmp_path}/warehouse/lake.db/orders", "--partition", "day=3", "--yes")
        done = command(*("2020-01-01T00:00:00Z" if word == "earliest" else word for word in replay))
        assert done.stdout.startswith("replayed 2,4"), done.stdout
        wait_until(lambda: rows() == expected, 60, "all rows")
    _check_commits(Table.open(f"{tmp_path}/warehouse/lake.db/orders"))


def _check_commits(table: Table) -> None:
    """No slice was committed twice, and only the pipeline's commits say how far it is."""
    commits = [s for s in table.snapshots.newest_first() if s.commit_user.startswith(("replay-", "retry-"))]
    replayed = "tidemark.replayed"  # a slice that runs again after a kill may be longer than before
    names = [(s.commit_user, s.commit_identifier, s.commit_kind, s.properties.get(replayed)) for s in commits]
    assert len(names) == len(set(names))
    assert {number for user, number, *_ in names if user.startswith("replay-")} >= {0, 1, 2, 3}
    assert all("tidemark.offsets" not in (s.properties or {}) for s in commits)
