"""A table is rolled back while a batch for it is under way: what its tasks were told of the table holds no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.history.rollback import plan_rollback, roll_back
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partitions import truncate
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from sinks import faults
from tests.support.item_batches import event, records
from tests.support.local_batches import ALL_TABLES, pipeline_tables, reported_batches

CHANGES = records(
    event("u", 1, {"id": 1, "v": 101}),
    event("d", 3, None, {"id": 3, "v": 3}),
    event("c", 9, {"id": 9, "v": 109}),
    first_offset=6,
)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after-decode", "before-append"])
@pytest.mark.parametrize(
    "options",
    [{"bucket": "1"}, {"bucket": "2", "changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}],
    ids=["plain", "lookup", "vectors"],
)
def test_its_changes_win_over_the_rows_that_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], point: str
) -> None:
    """Written for an emptied table, they would have sequence numbers below those of the rows."""
    tables = pipeline_tables(tmp_path, ALL_TABLES, **options)
    reported_batches(tables, [records(*(event("c", k, {"id": k, "v": k}) for k in range(6)))], tmp_path, 0)
    table = Table.open(f"{tmp_path}/warehouse/lake.db/items")
    full = table.snapshots.latest_id()
    assert full is not None
    truncate(table, Job(WriterEnvironment(str(tmp_path / "job"))))
    rolled_back: list[int] = []

    def reached(at: str, batch_id: int) -> None:
        if at == point and not rolled_back:
            rolled_back.append(batch_id)
            roll_back(table.context, plan_rollback(table.context, full))

    monkeypatch.setattr(faults, "reached", reached)
    reported_batches(tables, [CHANGES], tmp_path, 1)

    assert rolled_back == [1]
    rows = {row["id"]: row["v"] for row in table.refreshed().to_arrow().to_pylist()}
    assert rows == {0: 0, 1: 101, 2: 2, 4: 4, 5: 5, 9: 109}
