"""Flattened topics in Avro make the tables that the same topics in JSON make: state, history, order, quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.storage.file_io import LocalFileIO
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from sources.dumps.dump_records import record_batches_from_dump
from tests.support.avro_topics import AvroTopics
from tests.support.flattened import Unwrap, flattened
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.replay import CAPTURES, plain_rows

FIELDS = ("op", "db", "schema", "table", "lsn", "source.ts_ms")
REWRITE = Unwrap("rewrite-with-tombstone", FIELDS, schemas=True)
TOMBSTONES = Unwrap("tombstone", FIELDS, schemas=True)
PIECE = 150
SKIPS: dict[str, object] = {"on_tombstone": "skip"}
RULES: Mapping[str, tuple[Unwrap, dict[str, object], dict[str, object]]] = {
    "newest rows": (REWRITE, {}, {}),
    "deletes by null values": (TOMBSTONES, {}, {}),
    "every version": (REWRITE, SKIPS, {"history": "scd2"}),
    "deleted rows stay": (REWRITE, {}, {"history": "soft_delete"}),
    "by position": (REWRITE, {}, {"order_by": "source_position"}),
    "metadata": (REWRITE, {}, {"columns": {"add": {"last_op": "$op", "lsn": "$position"}}}),
}
"""How the connector flattens, options of the format, and what the rule says."""


def topics_of(capture: str, unwrap: Unwrap) -> Iterator[pa.RecordBatch]:
    """The records of one topic after the other, in pieces."""
    whole = [r for batch in record_batches_from_dump(str(CAPTURES / f"{capture}.jsonl.gz")) for r in batch.to_pylist()]
    for _, rows in groupby(flattened(whole, unwrap), key=lambda record: record["topic"]):
        numbered = [{**row, "offset": offset} for offset, row in enumerate(rows)]
        for start in range(0, len(numbered), PIECE):
            yield pa.RecordBatch.from_pylist(numbered[start : start + PIECE], schema=RECORD_SCHEMA)


def tables_of(
    root: Path, form: dict[str, object], rule: Mapping[str, object], batches: list[pa.RecordBatch]
) -> tuple[dict[str, list[str]], Counter[str]]:
    """Rows of every table, and the reasons of bad records."""
    full = {
        "match": {"schema": "public", "table": "(.*)"}, "into": "lake.{table}", "max_bad_records": None,
        "schema_changes": {"truncate": "skip"}, **rule,
    }  # fmt: skip
    config = shop_config(root, [full], {"bucket": "2"}, source={"files": {"path": str(root)}, "format": form})
    tables = PipelineTables(config, "tidemark-shop-test")
    quarantine = Quarantine(LocalFileIO(), str(root / "quarantine"))
    reports = processed(tables, batches, task_settings(root, quarantine, config.decoder))
    found = {name: sorted(map(str, plain_rows(sink.table.to_arrow()))) for name, sink in tables.sinks.items()}
    return found, sum((Counter(report.quarantined_reasons) for report in reports), Counter[str]())


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_flat_topic_in_avro_makes_the_table_of_the_same_topic_in_json(tmp_path: Path, name: str) -> None:
    unwrap, options, rule = RULES[name]
    json = [*topics_of("shop_schema", unwrap)]
    topics = AvroTopics()
    avro = [topics.batch(batch) for batch in json]
    registry = {"registry": {"file": topics.saved(tmp_path).file}}

    of_json = tables_of(tmp_path / "json", {"upsert-json": options}, rule, json)
    of_avro = tables_of(tmp_path / "avro", {"upsert-avro": {**options, **registry}}, rule, avro)

    assert of_avro == of_json
    assert sum(map(len, of_json[0].values())) > 100
