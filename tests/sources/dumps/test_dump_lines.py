"""What a line of a dump may say, and how a line that is no record is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sources.dumps.dump_lines import DumpRecord, NoRecord, record_of_line
from sources.dumps.dump_records import records_of_text, without_malformed

PLACE: dict[str, Any] = {"topic": "t", "partition": 0, "offset": 5}


def record(**fields: object) -> DumpRecord:
    return record_of_line(json.dumps({**PLACE, **fields}).encode())


def test_headers_may_be_an_object_of_lists_as_kcat_prints_them_on_request() -> None:
    assert record(headers={"a": ["x", None]}).headers == (("a", b"x"), ("a", None))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"paylaod": "{}"}, "unknown field 'paylaod'; did you mean 'payload'?"),
        ({"zzz": 1}, "unknown field 'zzz'; known are topic, partition"),
        ({"value": {"op": "c"}}, "unknown field 'value'; write the value as text under `payload` (each line of a dump"),
        ({"timestamp": 1}, "unknown field 'timestamp'; write the milliseconds under `ts`"),
        ({"payload": {"op": "c"}}, "field 'payload' is an object, expected text: write the JSON"),
        ({"payload": "a", "payload_b64": "YQ=="}, "'payload' and 'payload_b64' are both given"),
        ({"payload_b64": "?"}, "field 'payload_b64' is not base64"),
        ({"payload": "\ud800"}, "half a surrogate pair"),
        ({"partition": "0"}, "field 'partition' is text, expected a whole number"),
        ({"partition": 2**31}, "expected a number from 0 to 2147483647"),
        ({"offset": -1}, "field 'offset' is -1"),
        ({"offset": None}, "field `offset` is null; give it (each line of a dump is a record as `kcat -J` prints it)"),
        ({"ts": 2**63}, "field 'ts' is 9223372036854775808"),
        ({"headers": ["a"]}, "a name without a value"),
        ({"headers": [1, "a"]}, "a name that is not text"),
        ({"key_error": "cannot decode"}, "unknown field 'key_error'"),
    ],
)
def test_a_line_that_is_no_record_says_which_field_and_what_to_do(fields: dict[str, object], message: str) -> None:
    with pytest.raises(NoRecord) as error:
        record(**fields)
    assert message in str(error.value)
    good = json.dumps({**PLACE, "payload": "{}"}).encode()
    text = b"\n".join([good, json.dumps({**PLACE, **fields}).encode(), good])
    records, refused = without_malformed(records_of_text(text, "f.jsonl", 100))
    assert records.num_rows == 2
    (row,) = refused
    assert row.reason.startswith(f"byte {100 + len(good) + 1} of f.jsonl: ")
    assert message in row.reason


def test_a_quarantined_line_is_mended_in_its_place() -> None:
    inner = json.dumps({**PLACE, "payload": "{}"})
    outer = {"topic": "malformed:f.jsonl", "partition": -1, "offset": 10, "reason": "r", "payload": inner}

    (found,) = records_of_text(json.dumps(outer).encode(), "mended.jsonl", 0).to_pylist()

    assert (found["topic"], found["offset"], found["value"]) == ("t", 5, b"{}")


def test_a_field_that_is_given_twice_is_refused() -> None:
    with pytest.raises(NoRecord, match="field 'payload' is given twice; leave one"):
        record_of_line(b'{"topic":"t","partition":0,"offset":5,"payload":"a","payload":"b"}')


def test_an_envelope_without_its_record_is_refused() -> None:
    line = b'{"before":null,"after":{"id":1},"source":{"db":"d","table":"t"},"op":"c"}'

    records, refused = without_malformed(records_of_text(line, "f.jsonl", 0))

    assert records.num_rows == 0
    assert "unknown field 'before'" in refused[0].reason


def test_a_large_dump_of_lines_that_are_read_one_by_one_keeps_their_order() -> None:
    alone = [json.dumps({**PLACE, "offset": n, "payload": str(n), "headers": {"a": ["x"]}}) for n in range(100)]
    plain = [json.dumps({**PLACE, "offset": n, "payload": str(n)}) for n in range(100, 200)]

    records = records_of_text("\n".join([*alone, "", *plain]).encode(), "f", 0)

    assert [int(value) for value in records.column("value").to_pylist()] == list(range(200))
