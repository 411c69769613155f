"""Values in all forms of Extended JSON against a small model of them."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.json_changes.exact_parse import parse_json
from sources.mongodb.extended_json import canonical, plain, relaxed, text_of
from tests.support.mongodb_events import text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SCALARS = st.one_of(
    st.tuples(st.just("int"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("decimal"), st.decimals(allow_nan=False, allow_infinity=False).map(str)),
    st.tuples(st.just("date"), st.integers(-62_135_596_800_000, 253_402_300_799_999)),
    st.tuples(st.just("binary"), st.binary(max_size=20)),
    st.tuples(st.just("uuid"), st.uuids()),
    st.tuples(st.just("oid"), st.binary(min_size=12, max_size=12).map(bytes.hex)),
    st.tuples(st.just("text"), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("null"), st.none()),
)
NAMES = st.text('abc.é"', min_size=1, max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(st.just("list"), st.lists(inner, max_size=3)),
        st.tuples(st.just("document"), st.dictionaries(NAMES, inner, max_size=3)),
    ),
    max_leaves=8,
)
FORMS = ("canonical", "relaxed", "strict")


def written(value: tuple[str, Any], form: str) -> Any:
    """What MongoDB's writers make of a value."""
    kind, content = value
    is_finite = kind != "double" or abs(content) != float("inf")
    match kind:
        case "list":
            return [written(item, form) for item in content]
        case "document":
            return {name: written(item, form) for name, item in content.items()}
        case "int" if form == "canonical":
            return {"$numberInt": str(content)}
        case "long" if form != "relaxed":
            return {"$numberLong": str(content)}
        case "double" if form == "canonical" or not is_finite:
            return {"$numberDouble": str(content) if is_finite else "Infinity" if content > 0 else "-Infinity"}
        case "decimal":
            return {"$numberDecimal": content}
        case "date":
            return {"$date": _date(content, form)}
        case "binary" | "uuid":
            data, subtype = (content.bytes, "04") if kind == "uuid" else (content, "00")
            encoded = base64.b64encode(data).decode()
            if form == "strict":
                return {"$binary": encoded, "$type": subtype}
            return {"$binary": {"base64": encoded, "subType": subtype}}
        case "oid":
            return {"$oid": content}
        case _:
            return content


def _date(ms: int, form: str) -> Any:
    if form == "strict":
        return ms
    return _iso(ms) if form == "relaxed" and ms >= 0 else {"$numberLong": str(ms)}


def _iso(ms: int) -> str:
    moment = EPOCH + timedelta(milliseconds=ms)
    fraction = f".{ms % 1000:03}" if ms % 1000 else ""
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def expected(value: tuple[str, Any]) -> Any:
    """The plain value, where the type of the column is not known."""
    kind, content = value
    match kind:
        case "list":
            return [expected(item) for item in content]
        case "document":
            return text(written(value, "relaxed"))
        case "double" if abs(content) == float("inf"):
            return "Infinity" if content > 0 else "-Infinity"
        case "date":
            return _iso(content)
        case "binary":
            return base64.b64encode(content).decode()
        case "uuid":
            return str(content)
        case _:
            return content


def parsed(value: Any) -> Any:
    """As the decoder parses it, with Decimal for fractions."""
    return parse_json(json.dumps(value).encode())


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_a_value_is_the_same_in_every_form(value: tuple[str, Any]) -> None:
    forms = {form: parsed(written(value, form)) for form in FORMS}

    assert [plain(forms[form]) for form in FORMS] == [expected(value)] * 3
    assert [text_of(relaxed(forms[form])) for form in FORMS] == [text(written(value, "relaxed"))] * 3
    assert text_of(canonical(forms["canonical"])) == text(written(value, "canonical"))
    assert text_of(relaxed(canonical(forms["relaxed"]))) == text(written(value, "relaxed"))


LOOK_ALIKES: list[Mapping[str, Any]] = [
    {"$oid": 5}, {"$numberInt": "x"}, {"$numberInt": "2147483648"}, {"$numberLong": True}, {"$date": "today"},
    {"$date": {"$numberLong": "x"}}, {"$binary": "???", "$type": "00"}, {"$binary": {"base64": "AQI="}}, {"$uuid": "x"},
    {"$oid": "a", "more": 1}, {"$numberDecimal": "many"}, {"$unknown": 1}, {"$date": None}, {"$binary": "AQI=", "x": 1},
    {"$timestamp": {"t": 1, "i": 2}}, {"$type": "00", "$binary": 5}, {"$numberInt": {}},
]  # fmt: skip


def test_an_object_that_only_looks_like_a_form_is_a_document() -> None:
    assert [plain(value) for value in LOOK_ALIKES] == [text(value) for value in LOOK_ALIKES]


def test_a_legacy_uuid_stays_bytes_as_its_order_is_not_known() -> None:
    data = uuid.UUID("12345678-1234-5678-1234-567812345678").bytes
    legacy = {"$binary": {"base64": base64.b64encode(data).decode(), "subType": "03"}}

    assert plain(legacy) == base64.b64encode(data).decode()
    assert relaxed(legacy) == legacy
