"""What a record that cannot be read looks like, without its values."""

from __future__ import annotations

import json

import pytest

from sources.record_look import record_look


@pytest.mark.parametrize(
    ("value", "look"),
    [
        (None, "no value"),
        (b"{broken secret", "not JSON"),
        (b"\x00\x00\x00\x00\x01abc", "framed as for a schema registry"),
        (b'["secret"]', "a JSON list, not an object"),
        (b"12", "a JSON number"),
        ({"id": 1, "name": "secret"}, "fields id, name, which look like rows without an envelope"),
        ({"payload": {"id": 1}, "schema": {}}, "fields id, which look like rows without an envelope"),
        ({"data": [], "isDdl": False, "sqlType": {}, "type": "INSERT"}, "Canal JSON"),
        ({"database": "d", "table": "t", "type": "INSERT", "ts": 1, "data": [], "isDdl": False}, "Canal JSON"),
        ({"database": "d", "table": "t", "type": "INSERT", "ts": 1, "data": [], "mysqlType": {}}, "Canal JSON"),
        ({"database": "d", "table": "t", "type": "insert", "ts": 1, "xid": 2, "data": {}}, "Maxwell JSON"),
        ({f"c{n}": n for n in range(12)}, "c7 and 4 more"),
        ({}, "fields none"),
    ],
)
def test_it_tells_the_format_and_no_value(value: object, look: str) -> None:
    words = record_look(value if value is None or isinstance(value, bytes) else json.dumps(value).encode())
    assert look in words and "secret" not in words


def test_an_envelope_of_debezium_is_no_other_format() -> None:
    assert record_look(b'{"op": "c", "after": {}}') == "JSON with the fields op, after"
