"""Words of messages that name many things."""

from __future__ import annotations

import pytest

from pipelines.batch.decode_report import kind_of_reason
from sources.changes import SKIPS
from sources.wording import BadReason, bad_reason, counted, first_of, position_words, sentences, skip_words


def test_names_that_are_left_out_are_counted() -> None:
    names = [f"t{number}" for number in range(5)]
    assert first_of(names, 5) == names
    assert first_of(names, 3) == ["t0", "t1", "t2", "and 2 more"]
    assert first_of(names, 4, "tables")[-1] == "and 1 more table"
    assert first_of(names, 3, "tables")[-1] == "and 2 more tables"
    assert first_of([], 3) == []


def test_one_thing_has_no_plural() -> None:
    assert (counted(1, "file"), counted(1200, "file")) == ("1 file", "1,200 files")


@pytest.mark.parametrize(
    ("text", "told"), [("no", "no. On"), ("No.", "No. On"), ("no ...", "no ... On"), ("a?", "a? On")]
)
def test_a_text_with_its_own_full_stop_gets_no_second_one(text: str, told: str) -> None:
    assert sentences(text, "On") == told


def test_a_single_record_that_was_skipped_is_called_by_what_one_is() -> None:
    assert skip_words({"tombstones": 1, "of skipped tables": 1, "updates and deletes": 1200}) == [
        "1 tombstone",
        "1 of skipped tables",
        "1,200 updates and deletes",
    ]
    ones = skip_words(dict.fromkeys(SKIPS.values(), 1))
    assert not [words for words in ones if words.split()[1].endswith("s")]
    assert skip_words({}) == []


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("value is not JSON: Expecting value at character 1", BadReason.NOT_JSON),
        ("value is not usable JSON: RecursionError", BadReason.NOT_JSON),
        ("value is nested deeper than 100 levels", BadReason.NOT_JSON),
        ("value has half of a surrogate pair in a string", BadReason.NOT_JSON),
        ("value is empty: let the producer write null for a tombstone, or skip the record", BadReason.NOT_JSON),
        ("value is Avro or Protobuf with schema 7 of a schema registry", BadReason.NOT_JSON),
        ("value is not a Debezium envelope: op is 'x'", BadReason.NOT_AN_EVENT),
        ("op u without a row in after", BadReason.NOT_AN_EVENT),
        ("op u without the old row: b of the primary key is not in the message key", BadReason.KEY),
        ("op d: neither before nor the message key has the key (id)", BadReason.KEY),
        ("the record has no message key, but table lake.t has the key of its first records (id)", BadReason.KEY),
        ("the message key is not a JSON object with fields", BadReason.KEY),
        ("a.b: its messages have no key, so table lake.t has no primary key", BadReason.KEY),
        ("a.b: table lake.t is not created: ID of the message key (ID) is in no row", BadReason.NO_TABLE),
        ("embedded schema is not a Kafka Connect struct", BadReason.SCHEMA),
        ("column id BIGINT: NULL in a column that is NOT NULL", BadReason.NULL),
        ('column a\nb INT: string "x" does not fit INT', BadReason.VALUE),
        ("table lake.t does not exist yet, and no event so far shows its columns", BadReason.NO_TABLE),
        ("into: 'lake.{table}' for topic t: table 'a/b' has a slash", BadReason.NO_TABLE),
        ("byte 12 of f.jsonl: it is not JSON", BadReason.NOT_A_RECORD),
        ("value cannot be read as Avro of schema 7: 3 bytes are left after the value", BadReason.NOT_JSON),
        ("value names no schema: neither a header nor its first byte does", BadReason.NOT_JSON),
        ("value is JSON, not Avro: use format debezium-json", BadReason.NOT_JSON),
        ("schema 9 does not exist in registry http://a", BadReason.SCHEMA),
        ("the headers of the record name no usable schema of the value", BadReason.SCHEMA),
        ("the message key has no usable schema: schema 9 does not exist in registry http://a", BadReason.KEY),
        ("value cannot be read as the message shop.Order", BadReason.NOT_JSON),
        ("value has 2 fields, and `columns` of the format names 3", BadReason.NOT_JSON),
        ("the schema has no message with the indexes [7]", BadReason.SCHEMA),
        ("written by hand", BadReason.OTHER),
    ],
)
def test_a_reason_has_one_word_of_a_few_with_its_values_or_without(reason: str, word: BadReason) -> None:
    assert bad_reason(reason) is word
    assert bad_reason(kind_of_reason(reason)) is word


def test_positions_say_where_the_next_record_is() -> None:
    assert position_words(None) == "the first record"
    assert position_words('{"shop.orders":{"0":1200,"1":7}}') == "shop.orders-0: 1,200, shop.orders-1: 7"
    assert position_words('{"t":{"0":1,"1":2,"2":3}}', 2) == "t-0: 1, t-1: 2, and 1 more"
    assert (
        position_words('{"files": {"a.jsonl": {"bytes": 7, "records": 1, "size_at_end": null}}}') == "a.jsonl: 1 record"
    )
    assert position_words("{}") == "the first record"
    assert position_words('{"at": 5}') == '{"at": 5}'
