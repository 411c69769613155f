"""``source.format: auto``: each topic by what its first records show, chosen once and kept in the checkpoint."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from paimon_table.table import Table
from pipelines.batch.batch_report import BatchReport
from pipelines.config.config import PipelineConfig
from pipelines.prepared import own_tables
from pipelines.tables.tables import PipelineTables
from sources.auto.looks import look_of
from sources.changes import RECORD_SCHEMA
from tests.support.envelope_records import event
from tests.support.feed_records import dump
from tests.support.local_batches import reported_batches
from tests.support.plain_pipeline import raw
from tests.support.protobuf_messages import class_of, files_with, framed, order, serialized

SCHEMA = {"type": "struct", "fields": [{"field": "id", "type": "int32"}, {"field": "v", "type": "string"}]}
ROW = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
ENVELOPE = {"type": "record", "name": "E", "fields": [
    {"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "R"]},
    {"name": "op", "type": "string"},
]}  # fmt: skip


def config_of(directory: Path, form: object = "auto") -> PipelineConfig:
    return PipelineConfig.model_validate({
        "version": 1, "name": "shop", "source": {"files": {"path": str(directory)}, "format": form},
        "checkpoint": str(directory / "checkpoint"), "catalog": {"warehouse": str(directory / "warehouse")},
        "tables": [
            {"match": {"topic": "plain.*"}, "into": "lake.{table}", "mode": "append"},
            {"match": {"topic": ".*"}, "into": "lake.{table}"},
        ],
    })  # fmt: skip


def with_rule(config: PipelineConfig, **of_rule: object) -> PipelineConfig:
    rule = {"match": {"topic": ".*"}, "into": "lake.{table}", **of_rule}
    return PipelineConfig.model_validate({**config.model_dump(exclude_unset=True, by_alias=True), "tables": [rule]})


def records(topic: str, *rows: tuple[Any, Any], first: int = 0) -> pa.RecordBatch:
    found = [
        {"topic": topic, "partition": 0, "offset": offset, "key": raw(key), "value": raw(value)}
        for offset, (key, value) in enumerate(rows, first)
    ]
    return pa.RecordBatch.from_pylist(found, schema=RECORD_SCHEMA)


def run(
    config: PipelineConfig, *batches: pa.RecordBatch, first: int = 0
) -> tuple[PipelineTables, list[BatchReport], Path]:
    """A process of its own: it knows what the checkpoint has."""
    tables = PipelineTables(config, "tidemark-shop-test", own_tables(config))
    directory = Path(config.checkpoint).parent
    quarantine, reports = reported_batches(tables, batches, directory, first, config.source.format.decoder)
    return tables, reports, Path(quarantine.path)


def rows(tables: PipelineTables, table: str) -> list[dict[str, Any]]:
    return sorted(Table.open(tables.sinks[table].table.paths.root).to_arrow().to_pylist(), key=str)


def avro(schema: Any, value: Any, number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, number) + out.getvalue()


WITH_KEY = {"id": 1}
EXAMPLES: dict[str, tuple[str, list[tuple[Any, Any]]]] = {
    "envelopes": ("debezium-json", [(WITH_KEY, event("c", None, {"id": 1, "v": "a"}))]),
    "envelopes with schemas": (
        "debezium-json", [(None, {"schema": SCHEMA, "payload": event("c", None, {"id": 1, "v": "a"})})],
    ),
    "flattened rows": ("upsert-json", [(None, {"id": 1, "v": "a", "__op": "c", "__deleted": "false"})]),
    "rows under keys": ("upsert-json", [(WITH_KEY, {"id": 1, "v": "a"}), (WITH_KEY, None)]),
    "rows with schemas": (
        "upsert-json", [({"schema": SCHEMA, "payload": WITH_KEY}, {"schema": SCHEMA, "payload": {"id": 1, "v": "a"}})],
    ),
    "rows": ("json", [(None, {"id": 1}), (None, {"x": [1]}), (None, b"{"), (None, None)]),
    "heartbeats first": (
        "debezium-json", [({"serverName": "s"}, {"ts_ms": 1}), (WITH_KEY, event("c", None, WITH_KEY))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_format_of_a_topic_is_that_of_its_first_records(tmp_path: Path, name: str) -> None:
    expected, values = EXAMPLES[name]
    topic = "plain" if expected == "json" else "shop.public.orders"

    tables, (report,), _ = run(config_of(tmp_path), records(topic, *values))

    assert dict(tables.formats) == {topic: expected}
    assert report.counts.accounted == len(values)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["canal", "ticdc", "maxwell", "ogg", "dms"])
def test_the_json_of_replication_tools_is_known(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    batch = dump(name)

    tables, (report,), _ = run(config_of(tmp_path), batch)

    expected = {"ticdc": "canal"}.get(name, name) + "-json"
    assert {*tables.formats.values()} == {expected}
    told = [record.getMessage() for record in caplog.records if ": its first records are " in record.getMessage()]
    assert sorted(told) == [
        f"topic {t}: its first records are {expected}; the checkpoint records this format"
        for t in sorted(tables.formats)
    ]
    assert report.counts.accounted == batch.num_rows


def test_topics_of_one_pipeline_have_formats_of_their_own(tmp_path: Path) -> None:
    batches = [
        records("s.public.a", (WITH_KEY, event("c", None, {"id": 1, "v": "a"}, table="a"))),
        records("b", (WITH_KEY, {"id": 1, "v": "b"})),
        records("plain", (None, {"v": "c"}), (None, {"v": "c"})),
    ]
    both = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

    tables, (report,), _ = run(config_of(tmp_path), both)

    assert dict(tables.formats) == {"s.public.a": "debezium-json", "b": "upsert-json", "plain": "json"}
    assert (rows(tables, "lake.a"), rows(tables, "lake.b")) == ([{"id": 1, "v": "a"}], [{"id": 1, "v": "b"}])
    assert (rows(tables, "lake.plain"), report.counts.accounted) == ([{"v": "c"}] * 2, 4)


def test_a_later_process_decodes_as_the_first_one_did(tmp_path: Path) -> None:
    """Its first records would show another format; they go to quarantine."""
    config = config_of(tmp_path)
    run(config, records("orders", (WITH_KEY, {"id": 1, "v": "a"})))
    later = records(
        "orders", (WITH_KEY, event("c", None, {"id": 1, "v": "b"})), (WITH_KEY, {"id": 1, "v": "c"}), first=1
    )

    tables, (report,), quarantine = run(config, later, first=1)

    assert dict(tables.formats) == {"orders": "upsert-json"}
    assert rows(tables, "lake.orders") == [{"id": 1, "v": "c"}]
    assert (report.counts.quarantined, quarantine.exists()) == (1, True)


def test_a_topic_that_shows_nothing_yet_is_chosen_later(tmp_path: Path) -> None:
    config = config_of(tmp_path)

    tables, (report,), _ = run(config, records("orders", (WITH_KEY, None), ({"serverName": "s"}, {"ts_ms": 1})))
    assert (dict(tables.formats), report.counts.skipped) == ({}, {"tombstones": 1, "control records": 1})

    tables, _, _ = run(config, records("orders", (None, {"id": 1, "__op": "c"}), first=2), first=1)
    assert dict(tables.formats) == {"orders": "upsert-json"}


def test_a_null_value_deletes_also_where_the_checkpoint_with_the_format_is_lost(tmp_path: Path) -> None:
    """The table remembers the format, so that nulls before any row are no tombstones."""
    config = config_of(tmp_path)
    run(config, records("orders", (WITH_KEY, {"id": 1, "v": "a"}), ({"id": 2}, {"id": 2, "v": "b"})))
    shutil.rmtree(tmp_path / "checkpoint")

    tables = PipelineTables(config, "tidemark-shop-later", own_tables(config))
    nulls = records("orders", (WITH_KEY, None), first=2)
    reports = reported_batches(tables, [nulls], tmp_path, 0, config.decoder)[1]

    assert rows(tables, "lake.orders") == [{"id": 2, "v": "b"}]
    assert (dict(tables.formats), reports[0].counts.with_rows) == ({}, 1)


def test_a_topic_that_feeds_a_table_later_is_remembered_too(tmp_path: Path) -> None:
    config = with_rule(config_of(tmp_path), merge_sources="disjoint_keys")
    run(config, records("a.shop.orders", (WITH_KEY, {"id": 1, "v": "a"})))
    run(config, records("b.shop.orders", ({"id": 2}, {"id": 2, "v": "b"})), first=1)
    shutil.rmtree(tmp_path / "checkpoint")

    assert own_tables(config).earlier_formats == {"a.shop.orders": "upsert-json", "b.shop.orders": "upsert-json"}


def test_first_records_count_more_than_what_a_table_remembers(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    run(config, records("orders", (WITH_KEY, {"id": 1, "v": "a"})))
    shutil.rmtree(tmp_path / "checkpoint")

    tables = PipelineTables(config, "tidemark-shop-later", own_tables(config))
    event_ = records("orders", (WITH_KEY, event("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"})), first=1)
    reported_batches(tables, [event_], tmp_path, 0, config.decoder)

    assert (dict(tables.formats), rows(tables, "lake.orders")) == ({"orders": "debezium-json"}, [{"id": 1, "v": "b"}])


def test_rules_with_expressions_find_formats_too(tmp_path: Path) -> None:
    config = with_rule(config_of(tmp_path), where="id < 2")
    tables = PipelineTables(config, "tidemark-shop-test", own_tables(config))

    batch = records("orders", (WITH_KEY, {"id": 1, "v": "a"}), ({"id": 2}, {"id": 2, "v": "b"}))
    reported_batches(tables, [batch], tmp_path, 0, config.decoder)

    assert rows(tables, "lake.orders") == [{"id": 1, "v": "a"}]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([(b"k", {"id": 1})], "JSON rows whose message keys are not among their columns: if the message key"),
        ([(WITH_KEY, {"id": 1}), (None, {"id": 2})], "JSON rows whose message keys are not among their columns"),
        ([(None, b"1,a,2"), (None, b"2,b")], "values that are not JSON: set the format, such as csv"),
        ([(None, b"[1]")], "JSON values that are not objects"),
        ([(None, b"\0\0\0\0\1\2")], "binary values, which may be Avro or Protocol Buffers: set debezium-avro"),
        (
            [(None, event("c", None, WITH_KEY)), (None, {"id": 1, "__op": "c"})],
            "1 record of debezium-json and 1 record of upsert-json: set the format of the pipeline",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_told_apart_is_named_with_the_remedy(tmp_path: Path, values: Any, told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        run(config_of(tmp_path), records("orders", *values))

    assert str(refusal.value).startswith("source.format: auto cannot tell the format of topic orders: it")
    assert told in str(refusal.value)


@pytest.mark.slow
def test_a_registry_tells_binary_formats(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    flat = {**ROW, "fields": [*ROW["fields"], {"name": "__deleted", "type": "string"}]}
    beat = {**ROW, "name": "io.debezium.connector.common.Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]}
    file.write_text(json.dumps({"schemas": {"1": ROW, "2": ENVELOPE, "3": flat, "4": beat}}))
    config = config_of(tmp_path, {"auto": {"registry": {"file": str(file)}}})
    rows_ = records("plain", (None, avro(ROW, {"id": 1}, 1)))
    events = records("orders", (WITH_KEY, avro(ENVELOPE, {"before": None, "after": {"id": 2}, "op": "c"}, 2)))

    marks = ((WITH_KEY, avro(flat, {"id": 1, "__deleted": "false"}, 3)), ({"id": 3}, None))
    flats = records("flats", *marks)

    beats = records("__debezium-heartbeat.shop", ({"serverName": "shop"}, avro(beat, {"ts_ms": 5}, 4)))

    tables, _, _ = run(config, rows_, events, flats, beats)

    assert dict(tables.formats) == {
        "plain": "avro",
        "orders": "debezium-avro",
        "flats": "upsert-avro",
        "__debezium-heartbeat.shop": "debezium-avro",
    }
    assert len(tables.sinks) == 3
    found = [rows(tables, f"lake.{name}") for name in ("plain", "orders", "flats")]
    assert found == [[{"id": 1}], [{"id": 2}], [{"id": 1}]]


@pytest.mark.parametrize("is_in_header", [False, True])
def test_a_registry_tells_messages_of_protocol_buffers(tmp_path: Path, is_in_header: bool) -> None:
    files = files_with(order())
    message = class_of(files, "shop.Order")(id=5, note="n")
    file = tmp_path / "schemas.json"
    file.write_text(json.dumps({"schemas": {"1": {"schema": serialized(order())}}}))
    config = config_of(tmp_path, {"auto": {"registry": {"file": str(file)}}})
    headers = [{"key": "__value_schema_id", "value": b"\0\0\0\0\1\0"}] if is_in_header else None
    value = message.SerializeToString() if is_in_header else framed(message, 1)
    row = {"topic": "plain", "partition": 0, "offset": 0, "value": value, "headers": headers}

    tables, _, _ = run(config, pa.RecordBatch.from_pylist([row], schema=RECORD_SCHEMA))

    assert dict(tables.formats) == {"plain": "protobuf"}
    assert [(one["id"], one["note"]) for one in rows(tables, "lake.plain")] == [(5, "n")]


def test_the_decoder_travels(tmp_path: Path) -> None:
    decoder = config_of(tmp_path).source.format.decoder

    (look,) = pickle.loads(pickle.dumps(decoder)).decode(records("t", (None, {"id": 1})), {}).looks

    assert (look.topic, look.seen) == ("t", {"json": 1})


@pytest.mark.parametrize("value", [{"op": "m", "message": "hi", "user": 1}, {"id": 1, "op": "d", "source": "web"}])
def test_rows_with_a_field_of_envelopes_are_rows(value: dict[str, Any]) -> None:
    assert look_of(None, json.dumps(value).encode(), "t") == "json"
