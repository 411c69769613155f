"""Decimals in strings: what is text, what is base64, and who tells where a string may be both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paimon_table.types import parse_type
from sources.changes import SourceTable
from sources.column_forms import BASE64_DECIMALS, EITHER_DECIMALS, TEXT_DECIMALS, ColumnForms
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import DecodeTarget
from sources.values.decimal_kinds import MANY
from sources.values.value_forms import ValueForms
from tests.support.item_batches import TOPIC, event, records

SOURCE = SourceTable(TOPIC, "shop", "public", "items")
REMEDY = "declare decimal_format"


def goal(t: str = "DECIMAL(20, 2)", form: str | None = None, stated: str | None = None) -> DecodeTarget:
    columns = (("id", parse_type("INT")), ("n", parse_type(t)))
    forms = ColumnForms({} if form is None else {"n": form})
    return DecodeTarget(columns, ("id",), forms=forms, decimal_formats={} if stated is None else {"n": stated})


def amounts(values: list[Any], target: DecodeTarget, form: str = "auto", schema: Any = None) -> list[str]:
    """What becomes of each value: its text in the table, or `quarantine`, or `remedy` where the reason has one."""
    rows = [event("c", i, {"id": i, "n": value}) for i, value in enumerate(values)]
    if schema is not None:
        fields = [{"type": "int32", "field": "id"}, {**schema, "optional": True, "field": "n"}]
        after = {"type": "struct", "fields": fields, "field": "after"}
        whole = {"type": "struct", "fields": [{**after, "field": "before"}, after, {"type": "string", "field": "op"}]}
        rows = [(key, {"schema": whole, "payload": row}) for key, row in rows]
    decoded = DebeziumJsonDecoder(forms=ValueForms(decimal_format=form)).decode(records(*rows), {SOURCE: target})
    found = {int(q.offset): "remedy" if REMEDY in q.reason else "quarantine" for q in decoded.quarantine}
    for change in decoded.changes:
        found |= {row["id"]: str(row["n"]) for row in change.rows.to_pylist()}
    return [found[i] for i in range(len(values))]


AMBIGUOUS = ["1234", "0000", "12345678", "1E+2", "12e3", "+123", "0E+2", "1E+9999999999999"]
SPECIAL = ["NaN", "nan", "NAN", "sNaN", "Infinity", "-Infinity", "infinity", "+inf", "INF", "POSITIVE_INFINITY", "null"]


def test_a_number_that_is_no_base64_is_text() -> None:
    values = ["1.5E+3", "-1", "+1.5", "007", "12345", ".5", "5.", "1E-2", "-1e2", 7, 1.5]
    expected = ["1500.00", "-1.00", "1.50", "7.00", "12345.00", "0.50", "5.00", "0.01", "-100.00", "7.00", "1.50"]
    assert amounts(values, goal()) == expected


@pytest.mark.parametrize("neighbours", [[], ["12.50"], ["Nw=="], ["Nw==", "12.50"]], ids=str)
def test_what_may_be_both_goes_to_quarantine_whatever_its_neighbours_are(neighbours: list[str]) -> None:
    assert amounts([*AMBIGUOUS, *neighbours], goal())[: len(AMBIGUOUS)] == ["remedy"] * len(AMBIGUOUS)


WORDS = ["oops", "much", "muchmore", "eeee", "abcdefghijkl"]


def test_words_are_no_number_unless_something_says_base64() -> None:
    schema = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    sure = ["Nw==", "BOI="] * (MANY // 2)
    for neighbours in ([], ["Nw=="], ["12.50"], sure[1:]):
        assert amounts([*WORDS, *neighbours], goal())[: len(WORDS)] == ["remedy"] * len(WORDS)
        in_lists = amounts([[word] for word in WORDS], goal("ARRAY<DECIMAL(20, 2)>"))
        assert in_lists == ["remedy"] * len(WORDS)
    assert amounts(["12.5"] * MANY + WORDS, goal(form=TEXT_DECIMALS))[MANY:] == ["quarantine"] * len(WORDS)
    numbers = amounts(WORDS[:2], goal(stated="base64"))
    assert numbers == ["-61249.48", "-66255.03"]
    assert amounts(WORDS[:2], goal(), "base64") == amounts(WORDS[:2], goal(), schema=schema) == numbers
    assert amounts(WORDS[:2], goal(form=BASE64_DECIMALS)) == numbers


@pytest.mark.parametrize("form", ["auto", "text"])
def test_words_for_no_number_are_no_number(form: str) -> None:
    assert amounts([*SPECIAL, "", " ", " 1.5", "1,5"], goal(), form) == ["quarantine"] * (len(SPECIAL) + 4)


def test_arrays_follow_the_same_rules() -> None:
    values = [["1234"], ["12.5", "1E+2"], ["NaN"], ["12.5", None, "Nw=="]]
    found = amounts(values, goal("ARRAY<DECIMAL(20, 2)>"))
    assert found[:3] == ["remedy", "remedy", "quarantine"]
    assert found[3] == "[Decimal('12.50'), None, Decimal('0.55')]"


def test_an_embedded_schema_of_strings_means_text() -> None:
    text = {"type": "string"}
    assert amounts(["1234", "1E+2", "12.5", "Nw=="], goal(), "base64", text) == [
        "1234.00",
        "100.00",
        "12.50",
        "quarantine",
    ]
    many = {"type": "array", "items": {"type": "string"}}
    assert amounts([["1234"]], goal("ARRAY<DECIMAL(20, 2)>"), schema=many) == ["[Decimal('1234.00')]"]


def test_an_embedded_schema_of_decimals_means_base64() -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    assert amounts(["1234", "Nw==", "12.5"], goal(), "text", decimal) == ["-26588.24", "0.55", "quarantine"]


def test_a_stated_format_decides_and_that_of_the_column_first() -> None:
    assert amounts(["1234", "1E+2"], goal(), "text") == ["1234.00", "100.00"]
    assert amounts(["1234"], goal(), "base64") == ["-26588.24"]
    assert amounts(["1234"], goal(stated="text"), "base64") == ["1234.00"]
    assert amounts(["1234"], goal(form="decimal(2)", stated="text")) == ["1234.00"]
    assert amounts(["1234"], goal(form="several", stated="text")) == ["1234.00"]


def test_what_the_table_remembers_decides() -> None:
    assert amounts(["1234"], goal(form="text")) == ["1234.00"]
    assert amounts(["1234", "Nw=="], goal(form="decimal(3)")) == ["quarantine", "quarantine"]
    assert amounts(["Dzw="], goal("DECIMAL(20, 3)", "decimal(2)")) == ["39.000"]
    assert amounts(["1234", "12.5", "0x1F"], goal(form=TEXT_DECIMALS)) == ["1234.00", "12.50", "remedy"]
    assert amounts(["1234", "12.5"], goal(form=BASE64_DECIMALS)) == ["-26588.24", "12.50"]
    assert amounts(["1234", "12.5"], goal(form=EITHER_DECIMALS)) == ["remedy", "12.50"]
    assert amounts(["1234", "12.5"], goal(form="several")) == ["remedy", "remedy"]


@pytest.mark.parametrize("value, told", [("12.5", TEXT_DECIMALS), ("Nw==", BASE64_DECIMALS)])
def test_many_values_that_agree_are_told(value: str, told: str) -> None:
    def seen(count: int, *others: str, target: DecodeTarget | None = None) -> list[str | None]:
        rows = [event("c", i, {"id": i, "n": v}) for i, v in enumerate([*[value] * count, *others])]
        decoded = DebeziumJsonDecoder().decode(records(*rows), {SOURCE: target or goal()})
        return [column.form for o in decoded.observations for column in o.columns]

    assert seen(MANY, "1234") == [told]
    assert seen(MANY) == seen(MANY - 1, "1234") == seen(MANY, "1234", "12.5", "Nw==") == []
    assert seen(0, "1234", "0x1F", target=goal(form=TEXT_DECIMALS)) == []
    other = {TEXT_DECIMALS: "Nw==", BASE64_DECIMALS: "12.5"}[told]
    assert seen(1, "1234", other, target=goal(form=told)) == [EITHER_DECIMALS]


def test_absurd_exponents_and_scales_are_refused() -> None:
    scaled = [{"scale": scale, "value": "AQ=="} for scale in (-2_000_000_000, 2_000_000_000)]
    values = ["1.0E+999999999", "-1E-999999999", "0.0E+999999999", *scaled, "9" * 200_000 + ".5"]
    for t in ("DECIMAL(38, 2)", "STRING"):  # to work one of them out takes longer than a test lasts
        found = amounts(values, goal(t))
        assert found[3:5] == ["quarantine"] * 2
        assert t == "STRING" or {*found} <= {"quarantine", "0.00"}


def test_before_images_and_keys_follow_the_same_rules() -> None:
    target = replace(goal(), primary_key=("n",), emit_update_before=True)
    old, new = {"id": 1, "n": "1234"}, {"id": 1, "n": "12.5"}
    rows = [event("u", 1, new, old), event("d", 1, None, {"id": 1, "n": "1E+2"})]
    decoded = DebeziumJsonDecoder().decode(records(*rows), {SOURCE: target})
    assert [REMEDY in q.reason for q in decoded.quarantine] == [True, True]
