"""What tables contain after batches of rows without envelope: the capture of a flattening connector, as its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_json.decoder import UpsertJsonDecoder
from tests.support.changelog import replay_strictly
from tests.support.local_batches import dump_batches, pipeline_tables, reported_batches, shop_rules
from tests.support.replay import CAPTURES
from tests.support.source_content import assert_equals_source, open_table

CAPTURE = CAPTURES / "shop_unwrap.jsonl.gz"
KEYS = {"customers": ["id"], "orders": ["id"], "order_items": ["order_id", "line_no"]}
HEARTBEATS = 8


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
