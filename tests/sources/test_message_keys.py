"""Field names of message keys: the same with vectors and one by one, whatever the keys look like."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.debezium_json.message_keys import MessageKeys, fields_of_key

NAMES = ["id", "k2", 'q"x', "ä", "a b", "payload", "schema"]
VALUES = st.one_of(
    st.integers(-5, 10**20), st.text('ab",:{}\\ é', max_size=6), st.none(), st.booleans(),
    st.lists(st.text('a",', max_size=2), max_size=2),
    st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=2),
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)


def written(value: Any, style: int) -> bytes:
    wrapped = {"schema": {"type": "struct", "fields": sorted(value)}, "payload": value} if style == 2 else value
    separators = (", ", ": ") if style == 1 else (",", ":")
    return json.dumps(wrapped, ensure_ascii=False, separators=separators).encode()


KEYS = st.one_of(
    st.builds(written, OBJECTS, st.integers(0, 2)),
    st.none(),
    st.sampled_from(
        [b"", b"{", b"Struct{id=1}", b"7", b'"id"', b"null", b"[1]", b'{"id":1', b'{"id":1}{"k2":2}', b"\xff"]
    ),
)


def told(keys: list[bytes | None]) -> list[Any]:
    found = MessageKeys(pa.array(keys, pa.binary()))
    return [found.fields[code] for code in found.codes(np.arange(len(keys)))]


@given(st.lists(KEYS, max_size=30))
def test_vectors_tell_the_fields_that_an_exact_parse_tells(keys: list[bytes | None]) -> None:
    exact = [fields_of_key(key) for key in keys]

    for one, other in zip(told(keys), exact, strict=True):
        assert (one is None) == (other is None)
        assert set(one or ()) == set(other or ())


@given(st.lists(st.dictionaries(st.sampled_from(["id", "k2"]), VALUES, min_size=1), min_size=20, max_size=60))
def test_keys_of_one_source_table_are_told_apart_by_their_fields(values: list[dict[str, Any]]) -> None:
    assert [set(fields) for fields in told([written(value, 0) for value in values])] == [set(v) for v in values]


@pytest.mark.parametrize("style", [0, 1, 2])
def test_alike_keys_are_parsed_once(style: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes | None] = []
    monkeypatch.setattr(
        "sources.debezium_json.message_keys.fields_of_key", lambda key: parsed.append(key) or fields_of_key(key)
    )
    keys = [written({"id": n, "code": f"c-{n}, x: {{y}}"}, style) for n in range(1000)]

    assert set(told(keys)) == {("id", "code")}
    assert len(parsed) == 1


def test_positions_choose_keys() -> None:
    keys = MessageKeys(pa.array([b'{"id":1}', None, b'{"id":1,"k2":2}', b'{"id":3}']))

    assert [keys.fields[c] for c in keys.codes(np.array([3, 2, 1]))] == [("id",), ("id", "k2"), None]
