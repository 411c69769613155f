"""The places of events in the log of their source: which fields tell them, and how texts compare."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.changes import RECORD_SCHEMA, SourceTable
from sources.column_forms import ColumnForms
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import DecodeTarget
from sources.json_changes import goal_decoding
from sources.position_kinds import KINDS, POSITION, POSITION_TYPE, form_of
from sources.source_positions import columns_of, source_positions
from sources.upsert_json.decoder import UpsertJsonDecoder

TABLE = SourceTable("shop.public.items", "shop", "public", "items")
KIND = {kind.name: number for number, kind in enumerate(KINDS)}


def positions(sources: list[Any], snapshots: int = 0) -> list[tuple[str | None, str | None]]:
    is_snapshot = np.arange(len(sources)) < snapshots
    found = source_positions(columns_of(sources), is_snapshot, pa.array(range(len(sources)), pa.int64()))
    names = [None if kind < 0 else KINDS[kind].name for kind in found.kinds.tolist()]
    return list(zip(names, found.texts.to_pylist(), strict=True))


ORDERS: dict[str, list[Any]] = {
    "postgresql": [
        {"lsn": 5, "sequence": '["4","5"]'},
        {"lsn": 12},
        {"lsn": 20, "sequence": '[null,"20"]'},
        {"lsn": 18, "sequence": '["21","18"]'},
        {"lsn": 9, "sequence": '["100","9"]'},
        {"sequence": '["100","17446744073709551615"]'},
    ],
    "binlog": [
        {"file": "bin.9", "pos": 900, "row": 0},
        {"file": "bin.10", "pos": 4},
        {"file": "bin.10", "pos": 4, "row": 9},
        {"file": "bin.10", "pos": 4, "row": 10},
        {"file": "bin.10", "pos": "5", "row": 0},
    ],
    "sqlserver": [
        {"commit_lsn": "0000002a:000000ff:0003"},
        {"commit_lsn": "0000002A:000000FF:0003", "change_lsn": "0000002a:000000fe:0001", "event_serial_no": 1},
        {"commit_lsn": "0000002a:000000ff:0003", "change_lsn": "0000002a:000000fe:0001", "event_serial_no": 2},
        {"commit_lsn": "0000002a:00000100:0001", "change_lsn": "0000002a:00000001:0001", "event_serial_no": 1},
    ],
    "oracle": [
        {"scn": "99", "commit_scn": "100", "rs_id": " 0x0001.02 ", "ssn": 0},
        {"scn": "99", "commit_scn": "100", "rs_id": " 0x0001.02 ", "ssn": 1},
        {"scn": 101, "commit_scn": None},
        {"scn": "98", "commit_scn": "1000"},
    ],
    "mongodb": [{"ts_ms": 9000, "ord": 20}, {"ts_ms": 10000, "ord": 3}, {"ts_ms": 10000, "ord": 20}],
    "time": [{"ts_ms": 9, "ts_us": 9500}, {"ts_ms": 10}, {"ts_ms": 11, "ts_ns": 10_000_001}, {"ts_ms": 11}],
}


@pytest.mark.parametrize("kind", ORDERS)
def test_texts_are_in_the_order_of_the_log(kind: str) -> None:
    found = positions(ORDERS[kind])
    assert {name for name, _ in found} == {kind}
    texts = [text for _, text in found]
    assert texts == sorted(texts, key=lambda text: str(text).encode())
    assert len({*texts}) == len(texts)


def test_rows_of_a_snapshot_come_before_changes() -> None:
    """Of SQL Server and Oracle right before the transaction after which they were read."""
    first = [{"lsn": 500, "sequence": '[null,"500"]'}, {"lsn": 90, "sequence": '["80","90"]'}]
    server = [{"commit_lsn": "0000002a:000000ff:0003", "change_lsn": None}, ORDERS["sqlserver"][1]]
    oracle = [{"scn": "100", "commit_scn": None}, {"scn": "1", "commit_scn": "100"}]
    for sources in (first, server, oracle):
        (_, snapshot), (_, change) = positions(sources, snapshots=1)
        assert str(snapshot) < str(change)


@pytest.mark.parametrize(
    "source",
    [
        None,
        "x",
        {},
        {"lsn": -1},
        {"lsn": True},
        {"lsn": 1.5},
        {"file": "bin.1"},
        {"commit_lsn": "5"},
        {"ts_ms": "soon"},
    ],
)
def test_other_values_tell_no_place(source: Any) -> None:
    assert positions([source]) == [(None, None)]


# ------------------------------------------------------------ from records


def decoded(values: list[bytes], kind: str, decoder: Any) -> list[str | None]:
    rows = [
        {"topic": TABLE.topic, "partition": 0, "offset": i, "timestamp": 0, "key": b'{"id":1}', "value": value,
         "headers": None}
        for i, value in enumerate(values)
    ]  # fmt: skip
    forms = ColumnForms({POSITION: form_of(KIND[kind])})
    target = DecodeTarget((("id", parse_type("INT")),), ("id",), ordering=((POSITION, POSITION_TYPE),), forms=forms)
    done = decoder.decode(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA), {TABLE: target})
    assert done.counts.with_rows + done.counts.quarantined == len(values)
    assert all(("a record without a value" in bad.reason) == (bad.value is None) for bad in done.quarantine)
    found: dict[int, str] = {}
    for change in done.changes:
        found |= zip(change.rows.column("_OFFSET").to_pylist(), change.rows.column(POSITION).to_pylist(), strict=True)
    return [found.get(i) for i in range(len(values))]


def strange(r: random.Random, source: Mapping[str, Any]) -> dict[str, Any]:
    """The source with fields beside, some of which look like others."""
    extra: dict[str, Any] = {
        "txId": r.randrange(1000),
        "query": "UPDATE t SET \"lsn\":5, file = 'bin.7'",
        "nested": {"lsn": 7, "pos": 8, "ts_ms": 9},
        "naïve": "é",
        "note": "}{,",
    }
    names = r.sample([*extra], r.randrange(len(extra)))
    members = [*source.items(), *((name, extra[name]) for name in names)]
    r.shuffle(members)
    return {"db": "shop", "schema": "public", "table": "items", **dict(members)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("alike", [False, True], ids=["any", "alike"])
def test_many_records_at_once_have_the_places_that_each_one_tells(
    kind: str, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Split texts, texts parsed by Arrow, and texts parsed one by one; none of them is a fault."""
    monkeypatch.setattr(goal_decoding, "_halved", lambda parts: pytest.fail("decoding has failed"))
    for seed in range(6):
        r = random.Random(seed)
        chosen = [r.choice(ORDERS[kind]) for _ in range(60)]
        first = strange(r, {})
        sources = [{**first, **source} if alike else strange(r, source) for source in chosen]
        values = [
            json.dumps({"before": None, "after": {"id": 1}, "source": s, "op": "u", "ts_ms": r.randrange(10**6)},
                       separators=r.choice([(",", ":"), (", ", ": ")]) if seed % 2 else (",", ":")).encode()
            for s in sources
        ]  # fmt: skip
        together = decoded(values, kind, DebeziumJsonDecoder())
        one_by_one = source_positions(columns_of(sources), np.zeros(60, np.bool_), pa.array(range(60), pa.int64()))
        assert together == one_by_one.texts.to_pylist(), f"seed {seed}"


def test_flat_rows_tell_their_place_in_metadata_and_tombstones_tell_none() -> None:
    rows = [
        {"id": 1, "__op": "u", "__source_lsn": 7, "__source_sequence": '["4","7"]'},
        {"id": 1, "__op": "u", "__lsn": 8, "__deleted": "true"},
        {"id": 1, "__op": "u"},
    ]
    values: list[Any] = [*(json.dumps(row).encode() for row in rows), None]
    found = decoded(values, "postgresql", UpsertJsonDecoder())
    assert found == [f"{4:020}.{7:020}", f"{8:020}.{8:020}", None, None]
