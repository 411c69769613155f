"""Field names of message keys: the same with vectors and one by one, whatever the keys look like."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.debezium_json.message_keys import MessageKeys, fields_of_key, which

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


def told(keys: Sequence[bytes | None]) -> list[Any]:
    found = MessageKeys(pa.array(keys, pa.binary()))
    return [found.fields[code] for code in found.codes(np.arange(len(keys)))]


@pytest.mark.slow
@given(st.lists(KEYS, max_size=30))
def test_vectors_tell_the_fields_that_an_exact_parse_tells(keys: list[bytes | None]) -> None:
    exact = [fields_of_key(key) for key in keys]

    for one, other in zip(told(keys), exact, strict=True):
        assert (one is None) == (other is None)
        assert set(one or ()) == set(other or ())


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.sampled_from(["id", "k2"]), VALUES, min_size=1), min_size=20, max_size=60))
def test_keys_of_one_source_table_are_told_apart_by_their_fields(values: list[dict[str, Any]]) -> None:
    assert [set(fields) for fields in told([written(value, 0) for value in values])] == [set(v) for v in values]


@pytest.mark.slow
@pytest.mark.parametrize("style", [0, 1, 2])
def test_alike_keys_are_parsed_once(style: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes | None] = []
    monkeypatch.setattr(
        "sources.debezium_json.message_keys.fields_of_key", lambda key: parsed.append(key) or fields_of_key(key)
    )
    keys = [written({"id": n, "code": f"c-{n}, x: {{y}}"}, style) for n in range(1000)]

    assert set(told(keys)) == {("id", "code")}
    assert len(parsed) == 1


PIECES = [
    '"id"', '"k2"', '":"', '","', '"sch\\u0065ma"', '"schema"', '"payload"', '"ä"', '""', "{", "}", "[", "]", ":", ",",
    " ", "1", "-0", "01", "1.5", "1e5", ".", "null", "true", "NaN", '"x"', '"a\\"b"', '"', "\\", "\n", "\x01", "\x7f",
    "é",
]  # fmt: skip


def drawn(rng: random.Random) -> bytes:
    """A message key: mostly right, sometimes cut, with a piece too many or with bytes of another encoding."""
    names = rng.sample(["id", "k2", ":", ",", "payload", "schema", 'q"', "ä", ""], rng.randint(0, 3))
    scalars = [1, -7, 1.5, "x", 'a":"b', "é\\", "", None, True, {}, {":": 1, "k2": 2}, [1, '"k2":']]
    value: Any = {name: rng.choice(scalars) for name in names}
    if rng.random() < 0.5:
        value = {"schema": rng.choice([None, 1, {"type": "struct", "fields": ["id"]}]), "payload": value}
    separators = rng.choice([(",", ":"), (", ", ": ")])
    text = json.dumps(value, ensure_ascii=rng.random() < 0.2, separators=separators)
    if rng.random() < 0.4:
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice([*PIECES, ""]) + text[at + rng.randint(0, 2) :]
    if rng.random() < 0.1:
        text = text[: rng.randint(0, len(text))]
    return text.encode("latin-1" if rng.random() < 0.1 else "utf-8", "replace")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_odd_key_passes_for_another_whatever_it_looks_like(seed: int) -> None:
    rng = random.Random(seed)
    odd = [drawn(rng) for _ in range(2000)] + ["".join(rng.choices(PIECES, k=6)).encode() for _ in range(500)]
    exact = {key: fields_of_key(key) for key in odd}
    good = [key for key in exact if exact[key]]
    for _ in range(30):
        keys: list[bytes | None] = [*rng.sample(good, 3), *rng.sample(odd, 300)]
        assert told(keys) == [exact[key] for key in keys if key is not None]
    assert told(odd) == [exact[key] for key in odd]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b'{"schema":null,"payload":{"id":1}}', b'{"schema":null,"payload":{"id":1,"k2":2}}'),
        (b'{"schema":null,"payload":{"id":1}}', b'{"schema":null,"payload":{}}'),
        (b'{"schema":{"fields":[]},"payload":{"id":1}}', b'{"schema":{"fields":[]},"payload":{"id":1,"k2":2}}'),
        (json.dumps(dict.fromkeys(map(str, range(500)), 1)).encode(), b'{"0": 1}'),
        (b'{"id":0}', b'{"id":1'), (b'{"id":0}', b'{"id":1,}'), (b'{"id":0}', b'{"id":"x"'),
        (b'{"id":0}', b'{"id":1,":":1.5}'), (b'{"id":0,"k2":1}', b'{"id":{":":1,"k2":2}}'),
        (b'{"id":0}', b'{"id":' + b"1" * 5000 + b"}"), (b'{"id":"a"}', b'{"id":"\xff"}'),
        (b'{"schema":{"schema":null,"payload":{"schema":1,"payload":2}}}', b'{"schema":1,"payload":2}'),
    ],
)  # fmt: skip
def test_a_key_of_other_fields_is_seen_behind_a_good_one(first: bytes, then: bytes) -> None:
    assert told([first, first, then, first]) == [fields_of_key(key) for key in (first, first, then, first)]
    assert fields_of_key(first) != fields_of_key(then)


@pytest.mark.slow
def test_distinct_forms_of_key_are_told_in_linear_time() -> None:
    def seconds(count: int) -> float:
        keys = [b'{"k%d":1}' % n for n in range(count)]
        started = time.process_time()
        found = MessageKeys(pa.array(keys, pa.binary()))
        assert len(np.unique(found.codes(np.arange(count)))) == count
        assert which(found, np.arange(count), lambda fields: fields == ("k7",)).sum() == 1
        return time.process_time() - started

    assert min(seconds(40_000) for _ in range(2)) < 20 * min(seconds(5_000) for _ in range(2))


def test_positions_choose_keys() -> None:
    keys = MessageKeys(pa.array([b'{"id":1}', None, b'{"id":1,"k2":2}', b'{"id":3}']))

    assert [keys.fields[c] for c in keys.codes(np.array([3, 2, 1]))] == [("id",), ("id", "k2"), None]
