"""What a pipeline says that ends at a record it cannot decode."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.ids import Offset
from pipelines.batch.batch_checks import stop_on_refusals
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.plan import TaskSettings
from sources.changes import QuarantineRow
from sources.debezium_json.decoder import DebeziumJsonDecoder
from tests.support.local_batches import ALL_TABLES, pipeline_tables


@pytest.mark.parametrize(
    ("topic", "partition", "reason", "told"),
    [
        ("malformed:/d/bad.jsonl", -1, "byte 50 of /d/bad.jsonl: no JSON", "byte 50 of /d/bad.jsonl: no JSON; fix"),
        ("shop", 2, "no JSON", "shop partition 2 offset 50: no JSON; fix"),
    ],
)
def test_a_record_is_told_with_its_place_and_a_line_that_is_none_with_its_byte(
    tmp_path: Path, topic: str, partition: int, reason: str, told: str
) -> None:
    bad = QuarantineRow(topic, partition, Offset(50), None, reason, None, b"x")
    settings = TaskSettings(DebeziumJsonDecoder(), 1, "lookup", None)

    tables = pipeline_tables(tmp_path, ALL_TABLES)

    with pytest.raises(MalformedRecord) as ended:
        stop_on_refusals([DecodeReport(first_quarantined=bad)], settings, tables)

    assert str(ended.value).startswith(told)
