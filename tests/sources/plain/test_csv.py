"""CSV: one line a record, against Python's own reader; types are those of the table."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.types import string
from sources.changes import SourceTable
from sources.decode_target import DecodeTarget
from sources.formats import FORMATS
from sources.plain.csv_options import CsvOptions
from sources.plain.csv_values import CsvValues, parsed_line
from tests.support.plain_pipeline import PlainPipeline, plain_batch

COLUMNS = ["id", "name", "total"]
TYPES = {"id": "INT", "total": "DECIMAL(10, 2)"}


def pipeline_of(directory: Path, rule: dict[str, object] | None = None, **options: Any) -> PlainPipeline:
    rule = {"mode": "append"} if rule is None else rule
    return PlainPipeline(directory, {"csv": {"columns": COLUMNS, **options}}, {"columns": {"types": TYPES}, **rule})


@pytest.mark.parametrize("copies", [1, 30])
def test_fields_are_columns_and_types_those_of_the_rule(tmp_path: Path, copies: int) -> None:
    pipeline = pipeline_of(tmp_path)
    lines = [
        b"\xef\xbb\xbfid,name,total",
        b"\xef\xbb\xbf1,a,12.50",
        b'2,"b, ""c""\nd",3\r\n',
        b"3,,",
        b'4,"",\n',
        b'"id","name","total"',
        b"5,\xc3\xa9,-0.01",
    ]

    pipeline.run(plain_batch([(None, line) for line in lines] * copies))

    assert pipeline.types == {"id": "INT", "name": "STRING", "total": "DECIMAL(10, 2)"}
    expected = [(1, "a", Decimal("12.50")), (2, 'b, "c"\nd', Decimal("3.00")), (3, None, None), (4, "", None),
                (5, "é", Decimal("-0.01"))]  # fmt: skip
    assert pipeline.rows("id", "name", "total") == sorted(expected * copies, key=repr)
    assert pipeline.skipped() == {"control records": 2 * copies}
    assert not Path(pipeline.quarantine.path).exists()


def test_lines_that_do_not_fit_go_to_quarantine_alone(tmp_path: Path) -> None:
    """A quote that does not end would otherwise swallow the records behind it."""
    pipeline = pipeline_of(tmp_path)
    bad = [
        b"1,a",
        b"1,a,2,3",
        b'1,"a,2',
        b'1,"a"b,2',
        b"1,a,2\n2,b,3",
        b"",
        b"\n",
        b"x,a,2",
        b"1,a,zwei",
        b"\xff,a,1",
        b'1,"a\n",2\n3,"b\n",4',
    ]
    lines = [line for one in bad for line in (one, b"7,good,1")]

    pipeline.run(plain_batch([(None, line) for line in lines]))

    assert pipeline.rows("id", "name") == [(7, "good")] * len(bad)
    assert [*pipeline.bad] == [2 * n for n in range(len(bad))]
    assert pipeline.bad[0] == "value has 2 fields, and `columns` of the format names 3"
    assert pipeline.bad[8] == (
        "value is not one line of CSV: field 3 has an unclosed quote, text after its closing quote, or a newline "
        "outside of quotes"
    )


def test_a_declared_key_replaces_rows_and_null_values_delete_them(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, {"primary_key": ["id"]}, delimiter=";", quote="none", null_text="\\N")

    pipeline.run(
        plain_batch([(b"1", b'1;"a;1'), (b"2", b"2;\\N;2"), (b"1", b"1;;\\N"), (b"3", b"3;c;3")]),
        plain_batch([(b"3", None)], first=4),
    )

    assert pipeline.rows("id", "name", "total") == [(1, "", None), (2, None, Decimal("2.00"))]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"columns": []}, "give at least one name"),
        ({"columns": ["a", "b", "a"]}, "column 'a' is given twice"),
        ({"columns": ["a"], "delimiter": "||"}, "'||' is not one character"),
        ({"columns": ["a"], "quote": ","}, "`quote` and `delimiter` are the same"),
        ({"columns": ["a"], "null_text": "a,b"}, "`null_text` cannot have the delimiter"),
        ({}, "Field required"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("|", r"\|")):
        PlainPipeline(tmp_path, {"csv": options})
    with pytest.raises(ValueError, match=r"format csv needs `columns`: write \{csv: \{columns: \[...\]\}\}"):
        PlainPipeline(tmp_path, "csv")


_TEXTS = st.text(st.sampled_from('ab,"\n é\t'), max_size=5)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(_TEXTS, min_size=1, max_size=4), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_pythons_writer_writes_is_read_as_it_was(fields: list[str], quoting: Any) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator="\n").writerow(fields)
    options = CsvOptions(tuple(f"c{n}" for n in range(len(fields))))

    found = parsed_line(out.getvalue(), options)

    if quoting == csv.QUOTE_ALL:
        assert [*found.values()] == fields
    else:
        assert [value or "" for value in found.values()] == fields


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(st.sampled_from('ab,"\n\r\\'), max_size=8), min_size=1, max_size=6))
def test_many_lines_at_once_are_read_as_each_alone(lines: list[str]) -> None:
    options = CsvOptions(("a", "b"))
    batch = plain_batch([(None, line.encode()) for line in lines])
    parse = CsvValues(batch, options).parse
    alone = [parse("value", position) for position in range(len(lines))]

    decoder = FORMATS["csv"].decoder({"columns": ("a", "b")})
    target = DecodeTarget((("a", string()), ("b", string())), (), on_change="fail")
    decoded = decoder.decode(batch, {SourceTable.of_topic("orders"): target})

    stored = {row["_OFFSET"]: {"a": row["a"], "b": row["b"]} for c in decoded.changes for row in c.rows.to_pylist()}
    bad = {int(row.offset): row.reason for row in decoded.quarantine}
    for position, expected in enumerate(alone):
        if isinstance(expected, dict):
            assert expected == stored.get(position, {"a": "a", "b": "b"})  # a header
        else:
            assert bad[position] == str(expected)


def test_a_column_of_the_key_that_lines_lack_comes_from_the_message_key(tmp_path: Path) -> None:
    form = {"csv": {"columns": ["v"]}}
    pipeline = PlainPipeline(tmp_path, form, {"primary_key": ["id"], "columns": {"types": {"id": "BIGINT"}}})

    pipeline.run(plain_batch([({"id": n}, b"a") for n in range(3)]), plain_batch([({"id": 1}, None)], first=3))

    assert pipeline.rows("id", "v") == [(0, "a"), (2, "a")]
