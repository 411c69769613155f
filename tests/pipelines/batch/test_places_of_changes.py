"""`$position`, `$transaction` and their orders in the tables of real records, and of records that tell none."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipelines.tables.tables import PipelineTables
from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_json.metadata import FlatRows, Metadata
from tests.support.feed_records import batch_of, canal
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.mongodb_events import OID, TOPIC, change, records
from tests.support.row_records import rows_of
from tests.support.source_content import open_table

CAPTURES = Path(__file__).parents[2] / "captures"
ADD = {"at": "$position", "tx": "$transaction", "nth": "$total_order", "nth_here": "$data_collection_order"}
AVRO = {"debezium-avro": {"registry": {"file": str(CAPTURES / "shop_avro.schemas.json")}}}


def told_by(capture: str) -> list[tuple[Any, ...]]:
    """What the records of the orders say, read as plain JSON."""
    found = []
    with gzip.open(CAPTURES / f"{capture}.jsonl.gz", "rt") as lines:
        for record in map(json.loads, lines):
            is_order = record["topic"].endswith("public.orders") and record["payload"] is not None
            value = json.loads(record["payload"]) if is_order else {}
            value = value.get("payload", value)
            if "op" in value:
                transaction = value["transaction"] or {}
                lsns = [lsn for lsn in json.loads(value["source"]["sequence"]) if lsn is not None]
                told = [transaction.get(name) for name in ("id", "total_order", "data_collection_order")]
                found.append((":".join(lsns), *told))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["shop_plain", "shop_schema"])
def test_each_change_has_its_place_in_the_log_of_the_source(tmp_path: Path, capture: str) -> None:
    assert stored(tmp_path, capture, "debezium-json") == told_by(capture)


@pytest.mark.slow
def test_avro_records_have_their_places_too(tmp_path: Path) -> None:
    rows = stored(tmp_path, "shop_avro.raw", AVRO)
    assert len(rows) == len(told_by("shop_plain"))
    assert all(re.fullmatch(r"\d+(:\d+)?", row[0]) and row[1:] == (None, None, None) for row in rows)


def stored(root: Path, capture: str, form: object) -> list[tuple[Any, ...]]:
    rule: dict[str, object] = {
        "match": {"table": "orders"}, "into": "lake.orders", "mode": "append", "on_change": "log",
        "columns": {"add": ADD},
    }  # fmt: skip
    source = {"files": {"path": str(root)}, "format": form}
    config = shop_config(root, [rule], {"bucket": "-1"}, source=source)
    tables = PipelineTables(config, "tidemark-shop-test")
    batches = [b for b in record_batches_from_dump(str(CAPTURES / f"{capture}.jsonl.gz")) if b.num_rows]
    processed(tables, batches, task_settings(root, decoder=config.decoder))
    rows = open_table(tables, "orders").to_arrow().sort_by("event_offset").to_pylist()
    return [tuple(row[name] for name in ADD) for row in rows]


def test_records_that_tell_no_place_have_null(tmp_path: Path) -> None:
    rows = {"upsert-json": rows_of(({"id": 1}, {"id": 1})), "canal-json": batch_of(canal("INSERT", {"id": "1"}))}
    for form, batch in rows.items():
        root = tmp_path / form
        rule: dict[str, object] = {
            "match": {"topic": ".*"}, "into": "lake.t", "primary_key": ["id"], "columns": {"add": ADD},
        }  # fmt: skip
        source = {"files": {"path": str(root)}, "format": form}
        config = shop_config(root, [rule], {"bucket": "1"}, source=source)
        tables = PipelineTables(config, "tidemark-shop-test")
        processed(tables, [batch], task_settings(root, decoder=config.decoder))
        (row,) = tables.sinks["lake.t"].table.to_arrow().to_pylist()
        assert {name: row[name] for name in ADD} == dict.fromkeys(ADD), form


def test_a_document_has_the_place_of_its_change(tmp_path: Path) -> None:
    rule: dict[str, object] = {"match": {"topic": TOPIC}, "into": "lake.cust", "columns": {"add": ADD}}
    config = shop_config(tmp_path, [rule], {"bucket": "1"})
    tables = PipelineTables(config, "tidemark-shop-test")
    told = {"id": "7", "total_order": 3, "data_collection_order": 2}
    batch = records(change("c", OID, {"_id": OID, "n": 1}, transaction=told))
    processed(tables, [batch], task_settings(tmp_path, decoder=config.decoder))
    (row,) = tables.sinks["lake.cust"].table.to_arrow().to_pylist()
    assert [row[name] for name in ADD] == ["1735689600000:1", "7", 3, 2]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"lsn": 5}, ("5", None, None, None)),
        ({"source_lsn": 5, "lsn": 6}, ("5", None, None, None)),
        ({"source_lsn": None, "lsn": 6}, ("6", None, None, None)),
        ({"file": "b.1", "pos": 4, "row": 0}, ("b.1:4:0", None, None, None)),
        ({"ts_ms": 1000, "ord": 2}, ("1000:2", None, None, None)),
        ({"id": "t", "total_order": 3, "data_collection_order": 2}, (None, "t", 3, 2)),
        ({"transaction_id": "t", "id": "u"}, (None, "t", None, None)),
    ],
)
def test_a_flat_row_tells_its_place_with_and_without_the_name_of_the_struct(
    fields: dict[str, Any], told: tuple[Any, ...]
) -> None:
    """`add.fields=lsn` and `add.fields=source.lsn` name one field."""
    row = {"id": 1, **{f"__{name}": value for name, value in fields.items()}}
    assert FlatRows(Metadata()).place(row) == told


def test_stated_fields_without_the_name_of_the_struct_tell_the_place() -> None:
    rows = FlatRows(Metadata("", "op,lsn:at,id:tx"))
    assert rows.place({"op": "c", "at": 5, "tx": "t"}) == ("5", "t", None, None)
