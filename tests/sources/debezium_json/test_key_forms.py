"""Primary keys whose values have several forms in JSON: one row per value, and changes of a key by what is stored."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from sources.decode_target import DecodeTarget
from tests.support.envelope_records import Json, decode, event, kinds_and, records, target

NUMBER = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
}
PLACE = {"type": "struct", "fields": [{"field": "x", "type": "int32"}, {"field": "y", "type": "string"}]}
TAGS = {"type": "array", "items": {"type": "string"}}


def number(unscaled: int, scale: int) -> Json:
    data = unscaled.to_bytes(4, "big", signed=True)
    return {"scale": scale, "value": base64.b64encode(data).decode()}


def with_schema(envelope: Json, id_schema: Json) -> Json:
    fields = [{**id_schema, "field": "id"}, {"type": "string", "optional": True, "field": "v"}]
    images = [{"field": side, "type": "struct", "fields": fields, "optional": True} for side in ("before", "after")]
    schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]}
    return {"schema": schema, "payload": envelope}


def kinds(goal: DecodeTarget, *events: Json, schema: Json | None = None, copies: int = 1) -> list[tuple[Any, ...]]:
    values = [event if schema is None else with_schema(event, schema) for event in events] * copies
    found = decode(records(values), goal)
    assert found.quarantine == ()
    return [row[:-1] for row in kinds_and(found, "id", "v")]


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("schema", [NUMBER, None])
@pytest.mark.parametrize(("id_type", "hundred", "half"), [("STRING", "100", "1.5"), ("DECIMAL(9, 2)", None, None)])
def test_a_number_of_variable_scale_is_one_key_in_all_its_forms(
    schema: Json | None, id_type: str, hundred: str | None, half: str | None, copies: int
) -> None:
    goal = target(id=id_type, v="STRING")
    events = [
        event("c", None, {"id": number(100, 0), "v": "a"}),
        event("u", {"id": number(100, 0), "v": "a"}, {"id": number(1, -2), "v": "b"}),
        event("c", None, {"id": number(150, 2), "v": "c"}),
        event("d", {"id": number(15, 1), "v": "c"}),
    ]

    found = kinds(goal, *events, schema=schema, copies=copies)

    assert [kind for kind, _, _ in found] == ["+I", "+U", "+I", "-D"] * copies
    assert {str(id) for _, id, _ in found} == ({hundred, half} if hundred and half else {"100.00", "1.50"})


@pytest.mark.parametrize("schema", [NUMBER, None])
def test_another_number_is_another_key(schema: Json | None) -> None:
    moved = event("u", {"id": number(1, 0), "v": "a"}, {"id": number(1, -1), "v": "b"})

    assert kinds(target(id="STRING", v="STRING"), moved, schema=schema) == [("-D", "1", "a"), ("+I", "10", "b")]


def test_zero_and_other_texts_stay_what_they_are() -> None:
    rows = [{"id": id} for id in (number(0, 3), number(-10, 1), "1.50", number(100, 2))]

    found = kinds(target(id="STRING", v="STRING"), *(event("c", None, row) for row in rows))

    assert [id for _, id, _ in found] == ["0", "-1", "1.50", "1"]


@pytest.mark.parametrize(
    ("schema", "old", "new"), [(PLACE, {"x": 1, "y": "a"}, {"x": 2, "y": "a"}), (TAGS, ["a"], ["a", "b"])]
)
@pytest.mark.parametrize("copies", [1, 20])
def test_nested_keys_are_compared(schema: Json, old: Any, new: Any, copies: int) -> None:
    goal = target(id="STRING", v="STRING")
    kept, moved = (event("u", {"id": old, "v": "a"}, {"id": id, "v": "b"}) for id in (old, new))

    found = kinds(goal, kept, moved, schema=schema, copies=copies)

    assert [kind for kind, _, _ in found] == ["+U", "-D", "+I"] * copies


def test_times_that_python_has_no_value_for_are_compared() -> None:
    goal = target(id="TIMESTAMP(9)", v="STRING")
    old, new = {"id": 253_402_300_800_000, "v": "a"}, {"id": 253_402_300_800_001, "v": "b"}

    found = decode(records([event("u", old, new)]), goal)

    assert [kind for kind, *_ in kinds_and(found)] == ["-D", "+I"]


@pytest.mark.parametrize("wants_old_rows", [False, True])
def test_a_nested_field_that_the_schema_lacks_takes_no_value_from_other_rows(wants_old_rows: bool) -> None:
    """It may be in the new rows of a batch alone, or in the old ones."""
    goal = replace(target("v", id="ROW<x INT, y STRING>", v="STRING"), emit_update_before=wants_old_rows)
    place = {"x": 1, "y": "here"}
    more = {**place, "z": None}
    plain = [event("u", {"id": place, "v": "a"}, {"id": place, "v": "b"}) for _ in range(18)]
    events = [event("d", {"id": more, "v": "a"}), event("c", None, {"id": more, "v": "a"}), *plain]

    found = decode(records([with_schema(event, PLACE) for event in events]), goal)

    assert found.quarantine == ()
    assert {str(row[1]) for row in kinds_and(found, "id")} == {str(place)}
