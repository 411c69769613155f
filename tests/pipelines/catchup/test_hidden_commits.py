"""A start after a kill, where others have expired all snapshots that could tell whether the batch is in its table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.errors import CommitOutcomeUnknown
from paimon_table.history.retention import Limits
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.table import Table
from sinks import faults
from tests.support.events import History, records_of
from tests.support.paused_pipeline import Killed, PausedPipeline
from tests.support.table_driver import TableDriver

RULE = {"match": {"table": "orders"}, "into": "lake.orders"}
IN_ITS_PLACE = {"match": {"table": "orders"}, "into": "lake.orders_anew", "backfill": True}


def _replaced_by_others(table: Table, lookup: Path) -> None:
    """Another writer writes two rows again and lets all snapshots but its last one expire."""
    rows = table.to_arrow().slice(0, 2)
    kinds = pa.array([RowKind.UPDATE_AFTER] * rows.num_rows, pa.int8())
    driver = TableDriver(table, lookup, "job", after=table.snapshots.latest_id() or 0)
    for _ in range(2):
        driver.commit_arrow(rows.append_column(VALUE_KIND, kinds))
    expire(table.context, Surroundings(), Limits(1, 1, 0, 100))


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after-write", "before-closing"])
def test_a_new_table_takes_the_place_of_one_whose_commits_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    orders = History("orders", seed=1, partitions=1, keys=9).extend(35)
    first = PausedPipeline(tmp_path, records_of(orders), [RULE])
    first.run(2)

    def reached(at: str, _batch_id: int) -> None:
        if at == point:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", reached)
        first.run(1)
    _replaced_by_others(first.table("lake.orders"), tmp_path / "lookup")

    second = PausedPipeline(tmp_path, records_of(orders), [RULE])
    second.run()
    assert "have expired" in second.behind["lake.orders"]
    for again in (second, PausedPipeline(tmp_path, records_of(orders), [RULE])):
        with pytest.raises(CommitOutcomeUnknown, match=r"a retry will not help.*another `into` with `backfill: true`"):
            again.caught_up()

    third = PausedPipeline(tmp_path, records_of(orders), [IN_ITS_PLACE])
    third.caught_up("lake.orders_anew")
    assert third.rows("lake.orders_anew") == orders.rows
