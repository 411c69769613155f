"""Rows in Avro under message keys: what becomes of values, keys, null values and values that were not sent."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.changes import RECORD_SCHEMA, Decoded
from sources.debezium_avro.options import AvroOptions
from sources.decode_target import DecodeTarget
from sources.upsert_avro.decoder import UpsertAvroDecoder
from sources.upsert_json.policies import UpsertPolicies
from tests.support.avro_topics import AvroTopics
from tests.support.envelope_records import target
from tests.support.row_records import SOURCE, TARGET, TOPIC, stored

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"], "default": None}],
}
MARKED = {
    **ROW,
    "name": "Marked",
    "fields": [*ROW["fields"], {"name": "__deleted", "type": ["null", "string"]}],
}
OTHER = {**ROW, "name": "Other", "fields": [*reversed(ROW["fields"]), {"name": "more", "type": "long"}]}


def decoded(
    directory: Path, topics: AvroTopics, *rows: tuple[bytes | None, bytes | None], goal: DecodeTarget = TARGET,
    policies: UpsertPolicies | None = None, **options: Any,
) -> Decoded:  # fmt: skip
    found = [
        {"topic": TOPIC, "partition": 2, "offset": offset, "key": key, "value": value, "headers": None}
        for offset, (key, value) in enumerate(rows, 100)
    ]
    decoder = UpsertAvroDecoder(policies or UpsertPolicies(), AvroOptions(topics.saved(directory), **options))
    batch = pa.RecordBatch.from_pylist(found, schema=RECORD_SCHEMA)
    return pickle.loads(pickle.dumps(decoder)).decode(batch, {SOURCE: goal})  # type: ignore[no-any-return]


def test_rows_of_several_schemas_come_in_the_order_of_the_topic(tmp_path: Path) -> None:
    topics = AvroTopics()
    key = topics.encoded(KEY, {"id": 1})
    found = decoded(
        tmp_path,
        topics,
        (key, topics.encoded(ROW, {"id": 1, "v": "a"})),
        (key, topics.encoded(OTHER, {"id": 1, "v": "b", "more": 5})),
        (key, topics.encoded(ROW, {"id": 1, "v": None})),
        (key, topics.encoded(MARKED, {"id": 1, "v": "c", "__deleted": "true"})),
        (key, topics.encoded(MARKED, {"id": 1, "v": "d", "__deleted": "maybe"})),
    )
    assert sorted(stored(found), key=lambda row: row[-1]) == [
        ("+I", 1, "a", 100), ("+I", 1, "b", 101), ("+I", 1, None, 102), ("-D", 1, "c", 103),
    ]  # fmt: skip
    assert [row.offset for row in found.quarantine] == [104]
    assert {column.name for one in found.observations for column in one.columns} >= {"more"}


@pytest.mark.parametrize(
    ("key_format", "kind"), [("auto", "avro"), ("avro", "avro"), ("auto", "json"), ("json", "json"), ("text", "text")]
)
def test_a_null_value_deletes_the_row_of_its_key(tmp_path: Path, key_format: str, kind: str) -> None:
    topics = AvroTopics()
    keys = {"avro": topics.encoded(KEY, {"id": 7}), "json": b'{"id": 7}', "text": b"7"}
    found = decoded(tmp_path, topics, (keys[kind], None), key_format=key_format)
    assert stored(found, "id") == [("-D", 7, 100)]
    assert found.quarantine == ()


def test_a_null_in_a_key_deletes_nothing(tmp_path: Path) -> None:
    topics, optional = AvroTopics(), ["null", "string"]
    found = decoded(
        tmp_path,
        topics,
        (topics.encoded(optional, None), None),
        (topics.encoded(optional, "null"), None),
        goal=target("id", id="STRING NOT NULL", v="STRING"),
    )
    assert stored(found, "id") == [("-D", "null", 101)]
    assert [(row.offset, "does not identify the row to delete" in row.reason) for row in found.quarantine] == [
        (100, True)
    ]


@pytest.mark.parametrize("names", [("__ts_ms", "__source_ts_ms"), ("__source_ts_ms", "__ts_ms")])
def test_the_time_of_the_source_counts_wherever_it_stands(tmp_path: Path, names: tuple[str, str]) -> None:
    topics = AvroTopics()
    schema = {**ROW, "name": "Timed", "fields": [*ROW["fields"], *({"name": n, "type": "long"} for n in names)]}
    row = {"id": 1, "v": "a", "__source_ts_ms": 5_000, "__ts_ms": 9_000}
    goal = replace(target("", id="INT", v="STRING"), on_change="log")

    found = decoded(tmp_path, topics, (topics.encoded(KEY, {"id": 1}), topics.encoded(schema, row)), goal=goal)

    (time,) = stored(found, "event_time")
    assert time[1].timestamp() == 5


def test_what_cannot_be_read_goes_to_quarantine_with_the_reason(tmp_path: Path) -> None:
    topics = AvroTopics()
    key, good = topics.encoded(KEY, {"id": 1}), topics.encoded(ROW, {"id": 1, "v": "a"})
    found = decoded(
        tmp_path,
        topics,
        (key, good),
        (key, good + b"\0"),
        (key, b"\0\0\0\0\x63" + good[5:]),
        (key, topics.encoded("string", "x")),
        (key, b'{"id": 1}'),
        (b"\0\0\0\0\x63\x02", None),
        (topics.encoded("long", 5)[:6], topics.encoded(ROW, {"id": 5, "v": "kept"})),
    )
    assert {row[-1] for row in stored(found)} <= {100, 106}
    reasons = {int(row.offset): row.reason for row in found.quarantine}
    assert "left after the value" in reasons[101]
    assert "99" in reasons[102]
    assert "is not a record, so it has no columns" in reasons[103]
    assert "use format upsert-json" in reasons[104]
    assert "the record does not identify the row to delete" in reasons[105]


def test_a_value_that_was_not_sent_keeps_the_earlier_one(tmp_path: Path) -> None:
    topics = AvroTopics()
    key = topics.encoded(KEY, {"id": 1})
    found = decoded(tmp_path, topics, (key, topics.encoded(ROW, {"id": 1, "v": "__debezium_unavailable_value"})))
    ((change,),) = [[c.rows.to_pylist() for c in found.changes]]
    assert [(row["id"], row["v"], row["_UNAVAILABLE"]) for row in change] == [(1, None, [1])]


@pytest.mark.parametrize(
    ("names", "policies"),
    [
        (("__op", "__deleted"), {}),
        (("_x_op", "__deleted"), {"add_fields_prefix": "_x_", "add_fields": "op"}),
        (("operation", "__deleted"), {"add_fields_prefix": "", "add_fields": "op:operation"}),
    ],
)
def test_metadata_may_have_other_names_and_truth_values(
    tmp_path: Path, names: tuple[str, str], policies: dict[str, str]
) -> None:
    op, mark = names
    types = [{"name": op, "type": ["null", "string"]}, {"name": mark, "type": "boolean"}]
    schema = {**ROW, "name": "Named", "fields": [*ROW["fields"], *types]}
    topics = AvroTopics()
    key = topics.encoded(KEY, {"id": 1})
    rows = [("c", "a", False), ("u", "b", False), ("d", "b", True), ("x", "c", False)]
    values = (topics.encoded(schema, {"id": 1, "v": v, op: kind, mark: gone}) for kind, v, gone in rows)

    found = decoded(tmp_path, topics, *((key, value) for value in values), policies=UpsertPolicies(**policies))

    assert stored(found) == [("+I", 1, "a", 100), ("+U", 1, "b", 101), ("-D", 1, "b", 102)]
    assert [(int(row.offset), "op is 'x'" in row.reason) for row in found.quarantine] == [(103, True)]
