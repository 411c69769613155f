"""Captured topics behind the transform ExtractNewRecordState, in each of its modes, give what their envelopes give."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.changes import RECORD_SCHEMA
from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.upsert_json.policies import UpsertPolicies
from tests.support.flattened import UNWRAPS, Unwrap, flattened
from tests.support.replay import CAPTURES, Replay, replay_batches, replay_capture

SHOP = {
    "customers": {"credit": parse_type("DECIMAL(12, 2)"), "created_at": parse_type("TIMESTAMP_LTZ(6)")},
    "orders": {
        "total": parse_type("DECIMAL(10, 2)"),
        "placed_at": parse_type("TIMESTAMP_LTZ(6)"),
        "updated_at": parse_type("TIMESTAMP_LTZ(6)"),
    },
    "order_items": {"unit_price": parse_type("DECIMAL(10, 2)")},
}


def replayed(capture: str, unwrap: Unwrap, rows: int = 10_000, policies: UpsertPolicies | None = None) -> Replay:
    records = [
        r for batch in record_batches_from_dump(str(CAPTURES / f"{capture}.jsonl.gz")) for r in batch.to_pylist()
    ]
    flat = list(flattened(records, unwrap))
    batches = [
        pa.RecordBatch.from_pylist(list(part), schema=RECORD_SCHEMA)
        for _, part in itertools.groupby(flat, key=lambda record: record["topic"])
    ]
    declared = SHOP if capture == "shop_plain" else None
    return replay_batches(batches, declared, rows, UpsertJsonDecoder(policies))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 97])
@pytest.mark.parametrize("schemas", [True, False])
@pytest.mark.parametrize("unwrap", UNWRAPS.values(), ids=UNWRAPS)
def test_flattened_rows_end_as_their_envelopes_do(unwrap: Unwrap, schemas: bool, rows: int) -> None:
    capture = "shop_schema" if schemas else "shop_plain"
    flat = replayed(capture, Unwrap(unwrap.mode, unwrap.add_fields, "__", unwrap.add_headers, schemas), rows)
    whole = replay_capture(capture, None if schemas else SHOP)

    assert_same(flat, whole)


@pytest.mark.slow
@pytest.mark.parametrize("unwrap", UNWRAPS.values(), ids=UNWRAPS)
@pytest.mark.parametrize("capture", ["types_schema", "types_plain"])
def test_flattened_values_of_all_types_end_as_their_envelopes_do(capture: str, unwrap: Unwrap) -> None:
    schemas = capture.endswith("schema")
    flat = replayed(capture, Unwrap(unwrap.mode, unwrap.add_fields, "__", unwrap.add_headers, schemas))

    names = ("table",) if {"table"} & {*unwrap.add_fields, *unwrap.add_headers} else ()
    assert_same(flat, replay_capture(capture), {} if names else {"Odd Name": "Odd_Name"})


def assert_same(flat: Replay, whole: Replay, renamed: dict[str, str] | None = None) -> None:
    assert [row for decoded in flat.decoded for row in decoded.quarantine] == []
    renamed = renamed or {}
    assert whole.tables
    for name, rows in whole.tables.items():
        assert repr(plain(flat.tables[renamed.get(name, name)])) == repr(plain(rows))
        assert flat.types(renamed.get(name, name)) == whole.types(name)


def plain(rows: dict[Any, Any]) -> list[Any]:
    """The rows in order; without the text of a point, whose numbers the transform here writes another way."""
    return sorted((repr(key), sorted((n, v) for n, v in row.items() if n != "pt")) for key, row in rows.items())
