"""Two writers that compact one bucket at once, where compactions look up what the levels above hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from tests.support.builders import committer
from tests.support.table_driver import TableDriver, new_table

BUCKET = BucketId(EMPTY_ROW, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, 3),
        ({"merge-engine": "partial-update", "fields.n.aggregate-function": "sum", "fields.s.sequence-group": "n"}, 3),
        ({"merge-engine": "deduplicate"}, 2),
        ({"merge-engine": "first-row"}, 1),
    ],
    ids=["aggregation", "partial-update", "deduplicate", "first-row"],
)
def test_a_compaction_that_did_not_see_new_upper_rows_is_not_published(
    tmp_path: Path, options: dict[str, str], expected: int
) -> None:
    """Both put key 1000 above level 0, on different levels: a row there stands for all below, so one would hide one."""
    columns = [("k", "INT"), ("n", "BIGINT"), ("s", "BIGINT")]
    table = new_table(tmp_path / "t", columns, ["k"], (), {"changelog-producer": "lookup", **options})
    it = TableDriver(table, tmp_path / "lookup")
    it.commit([["+I", k, 1, 1] for k in range(100)])
    slow = BucketWriter(
        table.context, BUCKET, it.state().live_files().of(BUCKET), WriterEnvironment(str(tmp_path / "lookup"))
    )
    slow.write(it.arrow([["+I", 1000, 2, 2]]))
    append, compact = slow.prepare_append(), slow.compact_only()
    assert [f.level for f in compact.compact_after] == [4]
    it.commit([["+I", 1000, 1, 1]])
    it.commit([["+I", k, 1, 1] for k in range(2000, 2100)])
    it.compact()
    committer(table, "slow").commit(1, [append], {})
    with pytest.raises(CommitConflict, match="during the lookup of rows"):
        committer(table, "slow").commit(2, [compact], {})
    assert [row[1] for row in it.content() if row[0] == 1000] == [expected]
