"""Expressions over rows: what they may say, which type they give, and which rows they fail for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.types import arrow_type, parse_type
from sources.expressions import engine
from sources.expressions.evaluation import Column, Evaluation, evaluated
from sources.expressions.expression import BadExpression, bound, column_name, parsed, result_type

TYPES = {
    name: parse_type(t)
    for name, t in {
        "i": "INT", "l": "BIGINT", "d": "DECIMAL(10, 2)", "s": "STRING", "f": "DOUBLE", "b": "BYTES", "day": "DATE",
        "ts": "TIMESTAMP(3)", "tz": "TIMESTAMP_LTZ(6)", "ns": "TIMESTAMP_LTZ(9)", "a": "ARRAY<INT>",
        "m": "MAP<STRING, INT>", "r": "ROW<x INT, `y z` STRING>", "Case": "INT", "case": "STRING",
    }.items()
}  # fmt: skip


def of(text: str, wanted: str | None = None) -> Column:
    expression = bound(parsed(text), TYPES)
    given_type = result_type(expression, TYPES)
    return Column.of(expression, given_type, given_type if wanted is None else parse_type(wanted))


def over(column: Column, **values: list[Any]) -> Evaluation:
    rows = pa.table({column_name(name): pa.array(v, arrow_type(TYPES[name])) for name, v in values.items()})
    (found,) = evaluated([column], rows, {})
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("i + 1", "INT"), ("i * l", "BIGINT"), ("d * d", "DECIMAL(18, 4)"), ("d + 1", "DECIMAL(13, 2)"),
        ("i / 2", "DOUBLE"), ("CAST(d AS DOUBLE) / 3", "DOUBLE"), ("date_trunc('day', tz)", "TIMESTAMP_LTZ(6)"),
        ("CAST(ts AS DATE)", "DATE"), ("ts", "TIMESTAMP(3)"), ("tz", "TIMESTAMP_LTZ(6)"), ("ns", "TIMESTAMP_LTZ(9)"),
        ("ts + INTERVAL 1 DAY", "TIMESTAMP(6)"), ("year(ts)", "BIGINT"), ("strftime(ts, '%Y-%m')", "STRING"),
        ("a[1]", "INT"), ("m['k']", "INT"), ("r.x", "INT"), ('r."y z"', "STRING"), ("s ->> '$.a.b'", "STRING"),
        ("list_transform(a, lambda v: v + i)", "ARRAY<INT>"), ("regexp_replace(s, '[0-9]', '*', 'g')", "STRING"),
        ("CASE WHEN i > 1 THEN 'x' END", "STRING"), ("coalesce(s, 'none')", "STRING"), ("b", "BYTES"),
        ("CAST(i AS UTINYINT)", "SMALLINT"), ("CAST(l AS UBIGINT)", "DECIMAL(20, 0)"), ("i > 1", "BOOLEAN"),
        ("{'k': i, 'odd name': s}", "ROW<k INT, `odd name` STRING>"), ("$offset", "BIGINT"), ("$op = 'c'", "BOOLEAN"),
    ],
)  # fmt: skip
def test_the_type_of_an_expression_is_known_before_any_row(text: str, wanted: str) -> None:
    found = result_type(bound(parsed(text), TYPES), TYPES)
    assert str(found) == str(parse_type(wanted))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("d / 3", "not exact"), ("3 / d", "not exact"), ("round(d // 3, 1)", "not exact"), ("NULL", "give it a type"),
        ("ts - ts", "date_diff"), ("CAST(l AS HUGEINT)", "DECIMAL(38, 0)"), ("upper(i)", "No function matches"),
        ("CASE", "syntax error"), ("cas", "no column 'cas'; did you mean"), ("CASE_", "no column 'CASE_'"),
        ("current_date", "$ingested_at"), ("today()", "$ingested_at"), ("uuid()", "another value each time"),
        ("nextval('x')", "another value each time"), ("count(*)", "aggregate"), ("*", "`*`"), ("COLUMNS('i')", "`*`"),
        ("i IN (SELECT 1)", "subqueries"), ("EXISTS (FROM x)", "subqueries"), ("lag(i) OVER ()", "window"),
        ("i; DROP TABLE x", "no SQL expression"), ("i) FROM x --", "no SQL expression"), ("i WHERE i > 1", "WHERE"),
        ("i ORDER BY 1", "ORDER BY"), ("i AS x", "names its result"), ("?", "there is no $1"), ("$ops", "$op?"),
        ("read_text('/etc/passwd')", "no function of one row"), ("getenv('HOME')", "no function getenv"),
    ],
)  # fmt: skip
def test_what_no_row_can_answer_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadExpression) as refusal:
        result_type(bound(parsed(text), TYPES), TYPES)
    assert told in str(refusal.value)


def test_names_in_quotes_mean_columns_of_that_case() -> None:
    column = of('"Case" || "case"')
    assert over(column, Case=[1, 2], case=["a", "b"]).values.to_pylist() == ["1a", "2b"]
    assert column.inputs == ("Case", "case")


def test_each_row_fails_alone_and_keeps_its_reason() -> None:
    found = over(of("i * 2147483647"), i=[1, 2, None, 3, 0])
    assert found.values.to_pylist() == [2147483647, None, None, None, 0]
    assert {row: reason.split(" (")[0] for row, reason in found.problems.items()} == {
        1: "Overflow in multiplication of INT32",
        3: "Overflow in multiplication of INT32",
    }


def test_many_bad_rows_do_not_take_a_query_each(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    plain = engine.evaluate
    monkeypatch.setattr(engine, "evaluate", lambda *given: calls.append(1) or plain(*given))

    found = over(of("1 % i"), i=[0] * 5_000)

    assert len(found.problems) == 5_000 and len(calls) < 200


@pytest.mark.slow
@given(st.lists(st.integers(-3, 3) | st.none(), max_size=40))
def test_rows_are_evaluated_as_one_by_one(values: list[int | None]) -> None:
    found = over(of("12 // i"), i=values)
    for row, value in enumerate(values):
        assert (row in found.problems) == (value == 0)
        if value:
            assert found.values[row].as_py() == abs(12 // abs(value)) * (1 if value > 0 else -1)


@pytest.mark.parametrize(
    ("text", "wanted", "values", "kept"),
    [
        ("d", "DECIMAL(10, 1)", {"d": [Decimal("1.20"), Decimal("1.25")]}, [Decimal("1.2"), None]),
        ("d", "INT", {"d": [Decimal("2.00"), Decimal("2.50")]}, [2, None]),
        ("f", "DECIMAL(5, 2)", {"f": [0.1, 0.125]}, [Decimal("0.10"), None]),
        ("l", "INT", {"l": [7, 5_000_000_000]}, [7, None]),
        ("s", "DECIMAL(5, 2)", {"s": ["1.5", "x"]}, [Decimal("1.50"), None]),
        ("s", "VARCHAR(2)", {"s": ["ab", "abc"]}, ["ab", None]),
        ("l", "DOUBLE", {"l": [3, 9_007_199_254_740_993]}, [3.0, None]),
    ],
)
def test_a_value_becomes_the_stated_type_whole_or_not_at_all(
    text: str, wanted: str, values: dict[str, list[Any]], kept: list[Any]
) -> None:
    found = over(of(text, wanted), **values)
    good = [value for row, value in enumerate(found.values.to_pylist()) if row not in found.problems]
    assert good == kept[:1] and [*found.problems] == [1]


def test_the_engine_reaches_no_file_and_no_setting() -> None:
    rows = pa.table({"x": [1]})
    for query in ("(SELECT content FROM read_text('/etc/hostname'))", "(SELECT * FROM '/etc/hostname')"):
        with pytest.raises(engine.EngineError):
            engine.evaluate([query], rows)
    with pytest.raises(engine.EngineError, match="locked"):
        engine._connection().execute("SET threads = 4")
