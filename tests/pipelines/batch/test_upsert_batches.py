"""What tables contain after batches of rows without envelope: the capture of a flattening connector, as its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.upsert_json.policies import UpsertPolicies
from tests.support.changelog import replay_strictly
from tests.support.local_batches import dump_batches, pipeline_tables, reported_batches, shop_rules
from tests.support.replay import CAPTURES
from tests.support.row_records import rows_of
from tests.support.source_content import assert_equals_source, open_table

CAPTURE = CAPTURES / "shop_unwrap.jsonl.gz"
KEYS = {"customers": ["id"], "orders": ["id"], "order_items": ["order_id", "line_no"]}
HEARTBEATS = 8


@pytest.mark.slow
@pytest.mark.parametrize("records", [10_000, 150])
def test_captured_shop_equals_its_source(tmp_path: Path, records: int) -> None:
    tables = pipeline_tables(tmp_path, shop_rules(), **{"changelog-producer": "lookup"})

    batches = dump_batches(CAPTURE, records)
    quarantine, reports = reported_batches(tables, batches, tmp_path, decoder=UpsertJsonDecoder())

    for name, key in KEYS.items():
        table = open_table(tables, name)
        assert_equals_source(table, "shop", name, key, set())
        changes = replay_strictly((rows for _, rows in table.changes()), key)
        assert len(changes) == len(table.to_arrow())
        assert [f.name for f in table.schema.fields if f.name.startswith("__")] == []
    assert not Path(quarantine.path).exists()
    counts = [report.counts for report in reports]
    assert sum(count.control for count in counts) == HEARTBEATS
    read = sum(batch.num_rows for batch in record_batches_from_dump(str(CAPTURE)))
    assert sum(count.with_rows for count in counts) == read - HEARTBEATS


def test_a_kept_position_decides_between_rows_of_one_key(tmp_path: Path) -> None:
    """As where a topic is written once more: what is older by its position, does not undo what is newer."""
    rule: dict[str, object] = {"match": {"table": "orders"}, "into": "lake.orders"}
    tables = pipeline_tables(tmp_path, [{**rule, "options": {"sequence.field": "__lsn"}}])
    key = {"id": 1}
    newer, older = ({"id": 1, "v": v, "__lsn": lsn, "__deleted": "false"} for v, lsn in (("new", 7), ("old", 5)))
    batches = [rows_of((key, newer)), rows_of((key, older), first=101)]
    decoder = UpsertJsonDecoder(UpsertPolicies(metadata="keep"))

    reported_batches(tables, batches, tmp_path, decoder=decoder)
    assert open_table(tables, "orders").to_arrow().to_pylist() == [{"id": 1, "v": "new", "__lsn": 7}]

    reported_batches(tables, [rows_of((key, None), first=102)], tmp_path, 2, decoder)
    assert open_table(tables, "orders").to_arrow().num_rows == 0
