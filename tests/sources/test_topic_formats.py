"""Which format the records of a topic are told to have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.dumps.dump_records import record_batches_from_dump
from sources.topic_formats import topic_formats
from tests.stack.paths import PROJECT_DIR
from tests.support import feed_records as feeds
from tests.support.feed_records import batch_of

CAPTURES = PROJECT_DIR / "tests" / "captures"

RECORDS: list[tuple[list[Any], str | None, str]] = [
    ([feeds.canal("INSERT", {"id": 1})], "canal-json", "Canal JSON"),
    ([feeds.maxwell("insert", {"id": 1})], "maxwell-json", "Maxwell JSON"),
    ([feeds.golden_gate("I", None, {"ID": 1})], "ogg-json", "Oracle GoldenGate JSON"),
    ([feeds.dms("insert", {"id": 1})], "dms-json", "AWS DMS JSON"),
    ([{"op": "c", "after": {"id": 1}}], "debezium-json", "Debezium envelopes without embedded schemas"),
    ([{"id": 1, "__op": "c"}], "upsert-json", "rows without an envelope, without embedded schemas"),
    ([b"\0\0\0\0\1\2\2"], "auto", "Avro or Protocol Buffers with a schema registry"),
    ([b"\0\0\0\0\1\2\2"] * 6 + [None, {}], "auto", "Avro or Protocol Buffers with a schema registry"),
    ([b"<xml/>"], None, "texts that are neither JSON objects nor lines of CSV"),
    ([b"\x08\x05\x12\x03abc"], None, "binary values without a schema registry; if they are Protocol Buffers"),
    ([b"1,2", b"3,4,5"], None, "texts that are neither JSON objects"),
    ([b"hi, all", b"bye"], None, "texts that are neither JSON objects"),
    ([b"a,b", b"1,2"], "csv", "lines of CSV"),
    ([[1, 2]], None, "JSON values that are not objects"),
    ([{"specversion": "1.0", "id": "1", "type": "x"}], "json", "plain rows without embedded schemas"),
    ([{"id": 1}], "json", "plain rows"),
    ([{"op": "c", "after": {"id": 1}}, {"id": 1}], None, "1 record of debezium-json and 1 record of json"),
    ([{"status": "BEGIN", "id": "1", "event_count": None, "data_collections": None}], None, "control records"),
    ([None], None, "no records with a value"),
    ([None, b"junk", {"op": "c", "after": {"id": 1}}], "debezium-json", "Debezium envelopes without"),
]


@pytest.mark.parametrize(("values", "format_", "words"), RECORDS, ids=[words for _, _, words in RECORDS])
def test_the_format_is_told_by_what_records_look_like(values: list[Any], format_: str | None, words: str) -> None:
    (found,) = topic_formats([batch_of(*values)], ["shop"])
    assert found.format == format_
    assert found.words.startswith(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "format_", "has_schema"),
    [
        ("shop_plain.jsonl.gz", "debezium-json", False),
        ("shop_schema.jsonl.gz", "debezium-json", True),
        ("shop_unwrap.jsonl.gz", "upsert-json", False),
        ("shop_avro.raw.jsonl.gz", "auto", True),
    ],
)
def test_captured_topics_have_the_format_that_their_connector_wrote(
    capture: str, format_: str, has_schema: bool
) -> None:
    batches: list[pa.RecordBatch] = list(record_batches_from_dump(str(CAPTURES / capture)))
    topics = sorted({topic for batch in batches for topic in batch.column("topic").to_pylist()})
    found = [topic for topic in topic_formats(batches, topics) if topic.format is not None]
    assert {(topic.format, topic.has_schema) for topic in found} == {(format_, has_schema)}
    assert len(found) >= 3


def test_the_fields_of_the_message_key_are_told() -> None:
    value = {"op": "c", "after": {"id": 1}}
    wrapped = {"schema": {"type": "struct"}, "payload": {"id": 1}}
    keys: list[Any] = [{"id": 1}, wrapped, 7, None]
    found = [topic_formats([batch_of(value, keys=[key])], ["shop"])[0].key for key in keys]
    assert found == [("id",), ("id",), (), None]


def test_a_topic_without_records_is_told() -> None:
    assert topic_formats([], ["empty"])[0].words == "no records"


def test_dumps_of_feeds_are_known() -> None:
    directory = Path(feeds.DUMPS)
    for name in ("canal", "maxwell"):
        for path in sorted(directory.glob(f"{name}*.jsonl")):
            (batch,) = record_batches_from_dump(str(path))
            topics = sorted(set(batch.column("topic").to_pylist()))
            formats = {topic.format for topic in topic_formats([batch], topics)}
            assert formats <= {f"{name}-json", None}, (path.name, json.dumps(sorted(map(str, formats))))
