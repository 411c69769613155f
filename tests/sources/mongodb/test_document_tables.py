"""What events of MongoDB do to a table."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sources.formats import FORMATS
from tests.support.feed_records import Run
from tests.support.mongodb_events import (
    OID,
    RULE,
    Event,
    Json,
    change,
    insert,
    partial,
    records,
    text,
    with_schemas,
)

WHOLE: Json = {
    "_id": OID,
    "i": {"$numberInt": "1"},
    "l": {"$numberLong": "9007199254740993"},
    "d": {"$numberDouble": "5.0"},
    "odd": {"$numberDouble": "NaN"},
    "m": {"$numberDecimal": "12.50"},
    "t": {"$date": {"$numberLong": "1735689600123"}},
    "far": {"$date": {"$numberLong": "-62135596800000"}},
    "b": {"$binary": {"base64": "AQI=", "subType": "00"}},
    "u": {"$binary": {"base64": "EjRWeBI0VngSNFZ4EjRWeA==", "subType": "04"}},
    "f": True,
    "s": 'a "b" ü',
    "none": None,
    "list": [{"$numberInt": "1"}, {"$numberInt": "2"}],
    "docs": [{"x": {"$numberInt": "1"}}],
    "doc": {"n": {"$numberInt": "1"}, "at": {"$date": {"$numberLong": "0"}}, "deep": {"city": "Bern"}},
    "re": {"$regularExpression": {"pattern": "a", "options": ""}},
}
ROW: Json = {
    "_id": "64a0000000000000000000aa",
    "i": 1,
    "l": 9007199254740993,
    "d": 5.0,
    "odd": "nan",
    "m": "12.50",
    "t": datetime(2025, 1, 1, 0, 0, 0, 123000, UTC),
    "far": datetime(1, 1, 1, tzinfo=UTC),
    "b": b"\x01\x02",
    "u": "12345678-1234-5678-1234-567812345678",
    "f": True,
    "s": 'a "b" ü',
    "list": [1, 2],
    "docs": ['{"x":1}'],
    "doc": '{"n":1,"at":{"$date":"1970-01-01T00:00:00Z"},"deep":{"city":"Bern"}}',
    "re": '{"$regularExpression":{"pattern":"a","options":""}}',
}
TYPES = {
    "_id": "STRING NOT NULL", "i": "BIGINT", "l": "BIGINT", "d": "DOUBLE", "odd": "DOUBLE", "m": "STRING",
    "t": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "far": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "b": "BYTES", "u": "STRING",
    "f": "BOOLEAN", "s": "STRING", "list": "ARRAY<BIGINT>", "docs": "ARRAY<STRING>", "doc": "STRING", "re": "STRING",
}  # fmt: skip


def run(directory: Path, *events: Event, size: int = 1000, decoding: Any = None, **rule: Any) -> Run:
    batches = [records(*events[at : at + size], first_offset=at) for at in range(0, len(events), size)]
    return Run(directory, "debezium-json", batches, {**RULE, **rule}, options=decoding)


def rows_of(found: Run) -> list[Json]:
    rows = found.rows("lake.cust", "_id")
    return [{n: "nan" if isinstance(v, float) and v != v else v for n, v in row.items()} for row in rows]


@pytest.mark.parametrize("has_schemas", [False, True], ids=["bare", "schemas"])
@pytest.mark.parametrize("count", [1, 40])
def test_a_document_is_a_row_with_the_types_of_its_fields(tmp_path: Path, count: int, has_schemas: bool) -> None:
    events = [insert({**WHOLE, "_id": {"$oid": f"{n:024x}"}}) for n in range(count)]
    events = [with_schemas(event) for event in events] if has_schemas else events

    found = run(tmp_path, *events)

    assert found.reasons == {}
    assert found.types("lake.cust") == TYPES
    assert rows_of(found) == [{**ROW, "_id": f"{n:024x}"} for n in range(count)]


STRICT: Json = {
    **WHOLE, "i": 1, "d": 5.0, "t": {"$date": 1735689600123}, "far": {"$date": -62135596800000},
    "b": {"$binary": "AQI=", "$type": "00"}, "u": {"$uuid": "12345678-1234-5678-1234-567812345678"},
    "list": [1, 2], "docs": [{"x": 1}], "doc": {"n": 1, "at": {"$date": 0}, "deep": {"city": "Bern"}},
}  # fmt: skip
RELAXED: Json = {
    **STRICT, "l": 9007199254740993, "t": {"$date": "2025-01-01T00:00:00.123Z"},
    "b": WHOLE["b"], "doc": {"n": 1, "at": {"$date": "1970-01-01T00:00:00Z"}, "deep": {"city": "Bern"}},
}  # fmt: skip


@pytest.mark.parametrize("document", [STRICT, RELAXED], ids=["strict", "relaxed"])
def test_all_forms_of_extended_json_give_the_same_row(tmp_path: Path, document: Json) -> None:
    found = run(tmp_path, insert(document))

    assert (found.types("lake.cust"), rows_of(found)) == (TYPES, [ROW])


@pytest.mark.parametrize(
    ("document_id", "stored"),
    [
        (OID, "64a0000000000000000000aa"),
        ("order-7", "order-7"),
        ({"$numberInt": "7"}, 7),
        ({"$numberLong": "-9007199254740993"}, -9007199254740993),
        ({"$numberDouble": "7.0"}, 7),
        ({"$numberDouble": "7.5"}, 7.5),
        ({"$numberDecimal": "7.50"}, 7.5),
        ({"$numberDecimal": "1E+6000"}, "1E+6000"),
        ({"$binary": {"base64": "EjRWeBI0VngSNFZ4EjRWeA==", "subType": "04"}}, "12345678-1234-5678-1234-567812345678"),
        ({"$binary": {"base64": "AQI=", "subType": "00"}}, "AQI="),
        ({"$date": {"$numberLong": "1735689600123"}}, "2025-01-01T00:00:00.123Z"),
        ({"a": {"$numberInt": "1"}, "b": {"$numberLong": "2"}}, '{"a":1,"b":2}'),
        (True, "true"),
    ],
)
def test_every_form_of_id_is_a_key(tmp_path: Path, document_id: Any, stored: Any) -> None:
    first = insert({"_id": document_id, "n": {"$numberInt": "1"}})
    second = change("u", document_id, {"_id": document_id, "n": {"$numberInt": "2"}})
    gone = change("d", document_id)

    kept, deleted = run(tmp_path / "a", first, second), run(tmp_path / "b", first, gone, (gone[0], None))

    assert rows_of(kept) == [{"_id": stored, "n": 2}]
    assert rows_of(deleted) == []
    assert (kept.reasons, deleted.reasons) == ({}, {})


@pytest.mark.parametrize("size", [1, 2, 9])
def test_whole_numbers_and_fractions_are_keys_of_one_collection(tmp_path: Path, size: int) -> None:
    ids = [{"$numberDouble": "1.5"}, {"$numberInt": "7"}, {"$numberLong": "-8"}, {"$numberDecimal": "2.25"}]

    found = run(tmp_path, *(insert({"_id": i}) for i in ids), change("d", {"$numberInt": "7"}), size=size)

    assert sorted(row["_id"] for row in rows_of(found)) == [-8, 1.5, 2.25]
    assert (found.reasons, found.types("lake.cust")["_id"]) == ({}, "DOUBLE NOT NULL")


@pytest.mark.parametrize("other", [{"$numberLong": "9007199254740993"}, {"$numberDecimal": "0.1000000000000000000001"}])
def test_a_number_that_its_column_cannot_tell_from_others_is_quarantined(tmp_path: Path, other: Any) -> None:
    found = run(tmp_path, insert({"_id": 1.5}), insert({"_id": other}), size=1)

    assert [row["_id"] for row in rows_of(found)] == [1.5]
    assert (
        "is a number with more digits than column _id DOUBLE NOT NULL can hold; write the collection"
        in found.reasons[1]
    )


def test_an_extended_id_tells_types_apart(tmp_path: Path) -> None:
    ids = ["7", {"$numberInt": "7"}, OID, OID["$oid"], None]

    found = run(tmp_path, *(insert({"_id": i}) for i in ids), change("d", "7"), decoding={"id_format": "extended"})

    assert [row["_id"] for row in rows_of(found)] == ['"64a0000000000000000000aa"', "7", "null", text(OID)]


@pytest.mark.parametrize(
    ("first", "second"), [("7", {"$numberInt": "7"}), ({"$numberInt": "7"}, "7"), ("a", 1.5), (1.5, "1.5"), (7, 1.5)]
)
def test_two_documents_are_never_one_row(tmp_path: Path, first: Any, second: Any) -> None:
    found = run(tmp_path, insert({"_id": first}), insert({"_id": second}), change("d", second), size=1)

    assert len(rows_of(found)) == 1
    assert [*found.reasons] == [1, 2]
    assert all("id_format: extended" in reason for reason in found.reasons.values())


@pytest.mark.parametrize(
    ("document_id", "declared", "stored"),
    [
        ({"$numberInt": "7"}, "STRING", "7"),
        ("7", "INT", 7),
        ({"$numberDecimal": "7.50"}, "STRING", "7.5"),
        ({"$binary": {"base64": "EjRWeBI0VngSNFZ4EjRWeA==", "subType": "04"}}, "BYTES", b"\x124Vx" * 4),
        ({"$date": {"$numberLong": "1735689600123"}}, "TIMESTAMP_LTZ(3)", datetime(2025, 1, 1, 0, 0, 0, 123000, UTC)),
        ({"$numberDecimal": "7.50"}, "DECIMAL(10, 2)", Decimal("7.50")),
    ],
)
def test_an_id_has_its_declared_type(tmp_path: Path, document_id: Any, declared: str, stored: Any) -> None:
    events = [insert({"_id": document_id, "n": 1}), insert({"_id": document_id, "n": 2})]

    found = run(tmp_path, *events, columns={"types": {"_id": declared}})

    assert (rows_of(found), found.reasons) == ([{"_id": stored, "n": 2}], {})


def test_declared_types_are_read_from_every_form(tmp_path: Path) -> None:
    types = {
        "m": "DECIMAL(10, 2)", "doc": "ROW<n INT, at TIMESTAMP_LTZ(3), deep MAP<STRING, STRING>>", "i": "STRING",
        "d": "DECIMAL(5, 1)", "list": "STRING", "u": "BYTES", "t": "STRING", "docs": "ARRAY<MAP<STRING, INT>>",
    }  # fmt: skip

    found = run(tmp_path, insert(WHOLE), columns={"types": types})

    assert found.reasons == {}
    (row,) = rows_of(found)
    assert row["doc"] == {"n": 1, "at": datetime(1970, 1, 1, tzinfo=UTC), "deep": [("city", "Bern")]}
    assert {n: row[n] for n in ("m", "i", "d", "list", "u", "t", "docs")} == {
        "m": Decimal("12.50"), "i": "1", "d": Decimal("5.0"), "list": "[1,2]", "u": b"\x124Vx" * 4,
        "t": "2025-01-01T00:00:00.123Z", "docs": [[("x", 1)]],
    }  # fmt: skip


@pytest.mark.slow
def test_columns_are_filled_from_paths(tmp_path: Path) -> None:
    columns = {
        "types": {"city": "STRING", "at": "TIMESTAMP_LTZ(3)", "n": "INT"},
        "paths": {"city": "doc.deep.city", "at": "doc.at", "n": "doc.n.none"},
    }
    events = [insert({**WHOLE, "_id": n}) for n in range(2)] + [partial(1, {"doc": {"deep": {"city": "Ulm"}}})]

    found = run(tmp_path, *events, partial(0, {"s": "new"}), columns=columns)

    assert found.reasons == {}
    assert [(r["city"], r["at"], r["n"], r["s"]) for r in rows_of(found)] == [
        ("Bern", datetime(1970, 1, 1, tzinfo=UTC), None, "new"), ("Ulm", None, None, WHOLE["s"]),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_path_that_comes_later_fills_the_rows_from_then_on(tmp_path: Path) -> None:
    first, second = (insert({**WHOLE, "_id": n}) for n in (1, 2))
    run(tmp_path, first)

    columns = {"types": {"city": "STRING"}, "paths": {"city": "doc.deep.city"}}
    found = run(tmp_path, first, second, columns=columns, size=1)

    assert [(row["_id"], row["city"]) for row in rows_of(found)] == [(1, None), (2, "Bern")]


def test_events_of_other_databases_have_no_paths(tmp_path: Path) -> None:
    _, value = insert({"_id": 1})
    assert value is not None
    columns = {"types": {"c": "INT"}, "paths": {"c": "a.b"}}
    relational = ({"id": 1}, {**value, "after": {"id": 1}, "source": {"db": "inv", "table": "cust"}})

    found = run(tmp_path, relational, relational, columns=columns, size=1)

    assert "columns.paths of the rule reads documents of MongoDB" in found.reasons[1]


@pytest.mark.parametrize("form", ["relaxed", "canonical"])
def test_a_column_has_the_whole_document(tmp_path: Path, form: str) -> None:
    decoding = {"document_column": "whole", "document_format": form}
    other = {**RELAXED, "_id": {"$oid": "other"}}

    found = run(tmp_path, insert(WHOLE), insert(other), insert({"_id": "x", "whole": 1}), decoding=decoding)

    first, second = (json.loads(row["whole"]) for row in rows_of(found))
    if form == "canonical":
        assert first == WHOLE
        assert (second["i"], second["l"]) == ({"$numberInt": "1"}, {"$numberLong": "9007199254740993"})
    else:
        assert (first["i"], first["d"], first["odd"]) == (1, 5.0, {"$numberDouble": "NaN"})
        assert {**first, "_id": other["_id"]} == second
    assert "the document has a field whole itself" in found.reasons[2]


CHANGES = [
    insert({"_id": 1, "a": 1, "b": "x", "c": 1.5, "e": {"x": 1}}),
    partial(1, {"a": 2, "e": {"y": 2}}, ["b"]),
    partial(1, {"new": {"$date": {"$numberLong": "0"}}}),
    change("u", 1, None, {"_id": 1, "a": 2}, updateDescription={"updatedFields": text({"c": 2.5})}),
]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_an_update_without_the_document_changes_the_fields_that_it_tells(tmp_path: Path, size: int) -> None:
    found = run(tmp_path, *CHANGES, size=size)

    assert found.reasons == {}
    assert rows_of(found) == [
        {"_id": 1, "a": 2, "b": None, "c": 2.5, "e": '{"y":2}', "new": datetime(1970, 1, 1, tzinfo=UTC)}
    ]


UNREADABLE: list[tuple[Event, str]] = [
    (partial(1, {"a.b": 2}), "op u changes a.b inside of a field, without the document: let"),
    (partial(1, {}, ["a.b"]), "op u changes a.b inside of a field"),
    (partial(1, {"a": 1}, truncatedArrays=[{"field": "a", "newSize": 1}]), "op u shortens an array"),
    (change("u", 1), "capture.mode: change_streams_update_full"),
    (change("u", 1, patch='{"$set":{"a":1}}', filter="{}"), "capture.mode: change_streams_update_full"),
    (change("c", 1), "op c without a row in after"),
    (change("c", 1, "[1]"), "after holds no document of MongoDB"),
    (change("c", 1, '{"_id": 1'), "after holds no document of MongoDB: value is not JSON"),
    (change("u", 1, updateDescription={"removedFields": 1}), "removedFields of updateDescription is not a list"),
    (({"id": "{"}, change("d", 1)[1]), "the message key holds no _id of MongoDB"),
    ((None, insert({"_id": 1})[1]), "the record has no message key"),
    (change("x", 1, {"_id": 1}), "op is 'x'"),
    (insert({"_id": 1, "a": "text"}), 'column a BIGINT: string "text" does not fit BIGINT'),
]  # fmt: skip


@pytest.mark.parametrize("count", [1, 30])
def test_what_cannot_be_read_is_in_quarantine(tmp_path: Path, count: int) -> None:
    good = [insert({"_id": n, "a": 1}) for n in range(2, 2 + count)]

    found = run(tmp_path, *good, *(event for event, _ in UNREADABLE), size=count)

    assert found.reasons.keys() == {*range(count, count + len(UNREADABLE))}
    for offset, (_, reason) in enumerate(UNREADABLE, count):
        assert reason in found.reasons[offset]
    assert len(rows_of(found)) == count


def test_changed_fields_are_no_document(tmp_path: Path) -> None:
    found = run(tmp_path, insert({"_id": 1}), partial(1, {"a": 2}), decoding={"document_column": "doc"})

    assert "op u without the document for doc" in found.reasons[1]


def test_fields_that_a_document_lacks_are_not_called_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = run(tmp_path, insert({"_id": 1, "a": 1}), insert({"_id": 2}), size=1)

    assert [row["a"] for row in rows_of(found)] == [1, None]
    assert "any more" not in caplog.text


def test_old_documents_are_rows_before_a_change(tmp_path: Path) -> None:
    log: Json = {"mode": "append", "on_change": "log", "before": "full", "options": {"bucket": "-1"}}
    before, after = {"_id": 1, "a": 1}, {"_id": 1, "a": 2}

    events = [insert(before), change("u", 1, after, before), change("d", 1, None, after)]
    rows = run(tmp_path, *events, **log).table("lake.cust").to_arrow().to_pylist()

    assert [(r["event_kind"], r["a"]) for r in rows] == [("+I", 1), ("-U", 1), ("+U", 2), ("-D", 2)]


def test_the_decoder_travels_with_its_options() -> None:
    decoder = FORMATS["debezium-json"].decoder({"document_column": "doc"})

    copy = pickle.loads(pickle.dumps(decoder))

    assert copy.documents.document_column == "doc"


@pytest.mark.parametrize(
    ("t", "values"), [(None, ["7.5", str(2**53 + 1)]), ("DECIMAL(38, 1)", [Decimal("7.5"), Decimal(2**53 + 1)])]
)
def test_no_number_type_holds_fractions_and_large_whole_numbers(
    tmp_path: Path, t: str | None, values: list[Any]
) -> None:
    """The column is text, which loses no digit, unless the rule says which numbers it has."""
    events = [
        insert({"_id": 1, "n": {"$numberDouble": "7.5"}}),
        insert({"_id": 2, "n": {"$numberLong": str(2**53 + 1)}}),
    ]
    rule: dict[str, Any] = {} if t is None else {"columns": {"types": {"n": t}}}

    found = run(tmp_path, *events, **rule)

    assert found.reasons == {} and found.types("lake.cust")["n"] == (t or "STRING")
    assert [row["n"] for row in rows_of(found)] == values
