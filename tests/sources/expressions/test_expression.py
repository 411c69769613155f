"""Expressions over rows: what they may say, which type they give, and which rows they fail for."""

from __future__ import annotations

import datetime as dt
import hmac
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.types import arrow_type, parse_type
from sources.expressions import engine
from sources.expressions.computed import problem_of
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


MOMENT = dt.datetime(2024, 2, 29, 23, 5, 9, 120_000)


@pytest.mark.parametrize(
    ("text", "values", "wanted", "given_type"),
    [
        *((f"{part}(ts)", {"ts": [MOMENT]}, value, "BIGINT") for part, value in (
            ("year", 2024), ("month", 2), ("day", 29), ("hour", 23), ("minute", 5), ("second", 9),
        )),
        ("year(day)", {"day": [dt.date(1999, 12, 31)]}, 1999, "BIGINT"),
        ("hour(tz)", {"tz": [MOMENT.replace(tzinfo=dt.UTC)]}, 23, "BIGINT"),
        ("year(CAST(s AS TIMESTAMP))", {"s": ["2024-01-02 03:04:05"]}, 2024, "BIGINT"),
        ("year(epoch_ms(l))", {"l": [1_704_153_600_000]}, 2024, "BIGINT"),
        ("date_format(ts, 'yyyy-MM-dd" "''T''HH:mm:ss.SSS')", {"ts": [MOMENT]}, "2024-02-29T23:05:09.120", "STRING"),
        ("date_format(day, 'd.M.yy (EEE, MMM) 100%')", {"day": [MOMENT.date()]}, "29.2.24 (Thu, Feb) 100%", "STRING"),
        ("date_format(tz, 'HHmm')", {"tz": [MOMENT.replace(tzinfo=dt.UTC)]}, "2305", "STRING"),
        ("substring(s, 3)", {"s": ["abcdef"]}, "cdef", "STRING"),
        ("substring(s, 3, 3)", {"s": ["abcdef"]}, "cde", "STRING"),
        ("truncate(i, 10)", {"i": [-1]}, -10, "INT"), ("truncate(l, 100)", {"l": [1234]}, 1200, "BIGINT"),
        ("truncate(d, 50)", {"d": [Decimal("10.65")]}, Decimal("10.50"), "DECIMAL(10, 2)"),
        ("truncate(d, 250)", {"d": [Decimal("-0.01")]}, Decimal("-2.50"), "DECIMAL(10, 2)"),
        ("truncate(trim(s), 2)", {"s": [" äbc "]}, "äb", "STRING"),
        ("truncate(truncate(i, 10) + 7, 5)", {"i": [29]}, 25, "INT"),
        ("CAST(s AS INTEGER)", {"s": ["12"]}, 12, "INT"), ("CAST(l AS VARCHAR)", {"l": [12]}, "12", "STRING"),
        ("upper(s) || lower(s)", {"s": ["aB"]}, "ABab", "STRING"), ("trim(s)", {"s": [" a "]}, "a", "STRING"),
        ("d * 0.19 + i", {"d": [Decimal("10.05")], "i": [2]}, Decimal("3.9095"), "DECIMAL(15, 4)"),
        ("CASE WHEN i > 1 THEN 'many' ELSE 'one' END", {"i": [2]}, "many", "STRING"),
        ("coalesce(s, 'none')", {"s": [None]}, "none", "STRING"),
        ("concat(s, i)", {"s": [None], "i": [1]}, "1", "STRING"),
        ("concat_ws('-', s, i)", {"s": ["a"], "i": [1]}, "a-1", "STRING"),
        ("regexp_replace(s, '[0-9]+', '#', 'g')", {"s": ["a1b22"]}, "a#b#", "STRING"),
        ("regexp_extract(s, '([a-z]+)@', 1)", {"s": ["me@x.org"]}, "me", "STRING"),
        ("regexp_matches(s, '^a')", {"s": ["ab"]}, True, "BOOLEAN"),
        ("s ->> '$.a[1].b'", {"s": ['{"a": [1, {"b": "x"}]}']}, "x", "STRING"),
        ("CAST(s ->> '$.n' AS DECIMAL(20, 4))", {"s": ['{"n": 1.2345}']}, Decimal("1.2345"), "DECIMAL(20, 4)"),
    ],
)  # fmt: skip
def test_functions_that_users_of_paimon_know(
    text: str, values: dict[str, list[Any]], wanted: Any, given_type: str
) -> None:
    found = over(of(text), **values)
    assert found.values.to_pylist() == [wanted] and not found.problems
    assert str(result_type(bound(parsed(text), TYPES), TYPES)) == str(parse_type(given_type))


INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@pytest.mark.slow
@given(st.data())
def test_truncate_is_exact_and_fails_only_where_its_result_does_not_fit(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*INTEGERS, "DECIMAL(3, 2)", "DECIMAL(18, 0)", "DECIMAL(38, 5)"]))
    t = parse_type(name)
    if name in INTEGERS:
        least, most, unit = -(2 ** (INTEGERS[name] - 1)), 2 ** (INTEGERS[name] - 1) - 1, Decimal(1)
    else:
        most, unit = 10 ** (t.precision or 0) - 1, Decimal((0, (1,), -(t.scale or 0)))
        least = -most
    value, width = data.draw(st.integers(least, most)), data.draw(st.integers(1, most))
    expression = bound(parsed(f"truncate(x, {width})"), {"x": t})
    with localcontext(prec=50):
        stored = value if name in INTEGERS else value * unit
        rows = pa.table({column_name("x"): pa.array([stored, None], arrow_type(t))})
        (found,) = evaluated([Column.of(expression, t, t)], rows, {})
        wanted = value - value % width
        fits = wanted >= least
        assert str(result_type(expression, {"x": t})) == str(t)
        assert [*found.problems] == ([] if fits else [0])
        assert found.values.to_pylist() == [(wanted if name in INTEGERS else wanted * unit) if fits else None, None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("truncate(i, 2147483648)", "holds at most 2147483647; take a smaller width, or cast"),
        ("truncate(d, 10000000000)", "9999999999 is the most"), ("truncate(s, 2147483648)", "a text has at most"),
        ("truncate(i, 10) FILTER (WHERE i > 1)", "FILTER"), ("truncate(DISTINCT i, 10)", "DISTINCT"),
        ("i.truncate(10)", "before it, write truncate(i, ...)"), ("x.truncate(i, 10)", "x.truncate: a"),
        ("i.abs()", "write abs(i, ...)"), ("x.y.date_format(s, 'yyyy')", "x.y.date_format"),
        ("abs(i ORDER BY i)", "ORDER BY"), ("truncate(i, 10 ORDER BY i)", "ORDER BY"),
        ("NOT " * 900 + "true", "nested too deeply"),
        ("date_format(ts)", "takes a value and a pattern"), ("date_format(ts, s)", "takes a value and a pattern"),
        ("date_format(ts, 'yyyy-QQ')", "no letters 'QQ': use strftime"),
        ("date_format(ts, '" + "''x')", "has no end"),
        ("date_format(s, 'yyyy')", "add explicit type casts"), ("truncate(i, 0)", "a whole number above 0"),
        ("truncate(i, i)", "a whole number above 0"), ("truncate(f, 10)", "takes integers, decimals and texts"),
        ("truncate(upper(i), 1)", "No function matches"), ("truncate()", "a whole number above 0"),
        ("d / 3", "not exact"), ("3 / d", "not exact"), ("round(d // 3, 1)", "not exact"), ("NULL", "give it a type"),
        ("ts - ts", "date_diff"), ("CAST(l AS HUGEINT)", "DECIMAL(38, 0)"), ("upper(i)", "No function matches"),
        ("CASE", "syntax error"), ("cas", "no column 'cas'; did you mean"), ("CASE_", "no column 'CASE_'"),
        ("current_date", "$ingested_at"), ("today()", "$ingested_at"), ("uuid()", "different value each time"),
        ("nextval('x')", "different value each time"), ("count(*)", "aggregate"), ("*", "`*`"), ("COLUMNS('i')", "`*`"),
        ("i IN (SELECT 1)", "subqueries"), ("EXISTS (FROM x)", "subqueries"), ("lag(i) OVER ()", "window"),
        ("i; DROP TABLE x", "not an SQL expression"), ("i) FROM x --", "not an SQL"), ("i WHERE i > 1", "WHERE"),
        ("i ORDER BY 1", "ORDER BY"), ("i AS x", "names its result"), ("?", "there is no $1"), ("$ops", "$op?"),
        ("read_text('/etc/passwd')", "no function of one row"), ("getenv('HOME')", "no function getenv"),
    ],
)  # fmt: skip
def test_what_no_row_can_answer_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadExpression) as refusal:
        result_type(bound(parsed(text), TYPES), TYPES)
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CAST(x AS foo)", "there is no type foo; there are BIGINT"), ("x::int65", "did you mean INT"),
        ("TRY_CAST(x AS foo[])", "no type foo"), ("CAST(x AS STRUCT(y foo))", "no type foo"),
        ("list_transform(x, lambda y: CAST(y AS foo))", "no type foo"), ("CAST(x AS BYTES)", "did you mean BLOB?"),
        ("CAST(x AS DECIMAL(99, 2))", "between 1 and 38"), ("lower(x, y)", "lower(string VARCHAR)"),
        ("substring(x)", "substring takes other arguments"), ("regexp_matches(x, 5)", "regex VARCHAR"),
        ("list_filter(x, y -> y > 1)", "lambda arrow"),
        *((text, None) for text in (
            "date_trunc('day', x + y)", "epoch_ms(x) + 1", "date_diff('second', x, y)", "truncate(x, 10)", "x.y[1]",
            "list_reduce(x, lambda y, z: y + z)", "CAST(x AS timestamp(3))", "x ->> '$.y'", "x AT TIME ZONE 'UTC'",
            "lower($op) || upper(x)", "date_format(x, 'yyyy')", "CAST(x AS int4)", "coalesce(x, 1) / y", "-x",
        )),
    ],
)  # fmt: skip
def test_types_and_arguments_are_checked_before_the_types_of_columns_are_known(text: str, told: str | None) -> None:
    found = problem_of(text, columns={})
    assert found is None if told is None else found is not None and told in found


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


@pytest.mark.parametrize(
    "text",
    [
        "CAST(s AS INTEGER) + CAST(s AS INTEGER)", "truncate(CAST(s AS INTEGER), 1) * 2", "CAST(s AS INTEGER) * 2",
        "CASE WHEN s = 'x' THEN CAST(200 AS TINYINT) + CAST(200 AS TINYINT) ELSE CAST(s AS INTEGER) * 2 END",
    ],
)  # fmt: skip
def test_a_part_that_fails_is_the_trouble_of_its_row_however_often_it_is_said(text: str) -> None:
    found = over(of(text), s=["1", "x", "2"])
    assert found.values.to_pylist() == [2, None, 4] and [*found.problems] == [1]


def test_an_expression_that_fails_for_all_rows_at_once_has_a_reason_for_each() -> None:
    found = over(of("i + CAST(200 AS TINYINT) + CAST(200 AS TINYINT)"), i=[1, 2])
    assert found.values.to_pylist() == [None, None] and {*found.problems} == {0, 1}


def test_an_error_that_the_engine_does_not_try_is_the_trouble_of_its_row() -> None:
    zones = ["Europe/Berlin", "Nowhere", None, "Europe/Berlin", "Nowhere"]
    found = over(of("TIMESTAMP '2020-01-01' AT TIME ZONE s"), s=zones)
    assert {row: reason.split(" '")[0] for row, reason in found.problems.items()} == dict.fromkeys(
        (1, 4), "Unknown TimeZone"
    )
    assert [value is None for value in found.values.to_pylist()] == [False, True, True, False, True]
    assert not over(of("hour(TIMESTAMP '2020-01-01' AT TIME ZONE s)"), s=[]).problems


@pytest.mark.slow
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


def test_a_number_that_cannot_be_cast_to_a_date_is_told_with_the_remedy() -> None:
    found = over(of("CAST(l AS DATE)"), l=[5])
    assert found.problems == {
        0: "Unimplemented type for cast (BIGINT -> DATE); if it is a column of the source, declare it as DATE under "
        "columns.types"
    }


def test_equal_numbers_have_equal_hashes_whatever_their_type() -> None:
    """A source may widen a column, and records without a schema show another type in each batch."""
    numbers = [Decimal(n) for n in ("12", "0", "-300", "12.5", "-0.25", "1000.1")]
    kinds = ("DECIMAL(9, 2)", "DECIMAL(20, 0)", "DECIMAL(38, 10)", "DOUBLE", "FLOAT", "INT", "BIGINT", "STRING")
    for name in kinds:
        t = parse_type(name)
        given = [n for n in numbers if n == int(n) or name not in ("INT", "BIGINT", "DECIMAL(20, 0)")]
        values = [str(n) for n in given] if name == "STRING" else given
        rows = pa.table({column_name("n"): pa.array(values).cast(arrow_type(t), safe=False)})
        (found,) = evaluated([Column.hashed("n", t, parse_type("STRING"), "key")], rows, {"key": b"k"})
        digests = [hmac.new(b"k", f"{n:f}".encode(), "sha256").hexdigest() for n in given]
        assert (name, found.values.to_pylist()) == (name, digests)
    negative = pa.table({column_name("n"): pa.array([-0.0])})
    (found,) = evaluated(
        [Column.hashed("n", parse_type("DOUBLE"), parse_type("STRING"), "key")], negative, {"key": b"k"}
    )
    assert found.values.to_pylist() == [hmac.new(b"k", b"0", "sha256").hexdigest()]
