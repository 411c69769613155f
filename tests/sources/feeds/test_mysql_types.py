"""What the names of MySQL's types mean, and how the texts of values are read under them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.feeds.feed_options import FeedOptions
from sources.feeds.mysql_types import MysqlType, fitted, mysql_type
from sources.feeds.mysql_values import Rewriting

TYPES = """
tinyint(1): TINYINT
tinyint(1) unsigned: SMALLINT
TINYINT(2) unsigned zerofill: SMALLINT
smallint(6): SMALLINT
smallint unsigned: INT
mediumint(8) unsigned: INT
int: INT
int(0): INT
int(10) unsigned: BIGINT
bigint(0): BIGINT
bigint(0) unsigned: DECIMAL(20, 0)
bigint unsigned: DECIMAL(20, 0)
SERIAL: DECIMAL(20, 0)
bit(1): BOOLEAN
bit(8): BIGINT
bit(64): DECIMAL(20, 0)
bool: BOOLEAN
float: FLOAT
float(7,4) unsigned: FLOAT
DOUBLE PRECISION(10,7) unsigned zerofill: DOUBLE
decimal(10,2): DECIMAL(10, 2)
DECIMAL(8, 0) unsigned: DECIMAL(8, 0)
numeric(38,30): DECIMAL(38, 30)
FIXED(40,3): STRING
date: DATE
datetime: TIMESTAMP(0)
datetime(6): TIMESTAMP(6)
timestamp(3): TIMESTAMP(3)
time(6): STRING
year(4): INT
char(10): STRING
varchar(20): STRING
longtext: STRING
json: STRING
enum('a','b'): STRING
enum: INT
set: DECIMAL(20, 0)
varbinary(16): BYTES
binary(10): BYTES
longblob: BYTES
geometry: BYTES
vector(3): STRING
something new: STRING
"""


@pytest.mark.parametrize("line", TYPES.strip().splitlines())
def test_a_type_of_mysql_is_one_of_paimon(line: str) -> None:
    name, expected = line.split(": ")
    assert str(mysql_type(name).type) == expected


def test_words_of_an_enum_may_hold_quotes_commas_and_brackets() -> None:
    assert mysql_type(r"enum('a','b,c','it''s','(x)','','back\\slash','a\'b')").words == (
        "a", "b,c", "it's", "(x)", "", r"back\slash", "a'b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "texts", "expected"),
    [
        ("decimal", ["1.500", None, "22.000"], "DECIMAL(38, 3)"),
        ("decimal", ["1"], "DECIMAL(38, 0)"),
        ("decimal", ["0." + "1" * 39], "STRING"),
        ("datetime", ["2024-05-01 10:00:00.123000", None], "TIMESTAMP(6)"),
        ("datetime", [None], "TIMESTAMP(0)"),
        ("datetime(3)", ["2024-05-01 10:00:00.123456"], "TIMESTAMP(3)"),
    ],
)
def test_values_tell_a_width_that_the_type_does_not_name(name: str, texts: list[str | None], expected: str) -> None:
    assert str(fitted(mysql_type(name), texts)) == expected


SHANGHAI = {"time_zone": "Asia/Shanghai"}
QUARANTINE = {"zero_dates": "quarantine"}
REWRITTEN: list[tuple[str, str, dict[str, str], Any, Any]] = [
    ("enum('a','b')", "STRING", {}, "2", "b"),
    ("enum('a','b')", "STRING", {}, "0", ""),
    ("enum('a','b')", "STRING", {}, "b", "b"),
    ("enum('a','b')", "STRING", {}, "3", "3"),
    ("set('a','b','c')", "STRING", {}, "5", "a,c"),
    ("set('a','b','c')", "STRING", {}, "0", ""),
    ("set('a','b','c')", "STRING", {}, "a,b", "a,b"),
    ("bit(1)", "BOOLEAN", {}, "1", "true"),
    ("tinyint(1)", "BOOLEAN", {}, "0", "false"),
    ("tinyint(1)", "TINYINT", {}, "1", "1"),
    ("date", "DATE", {}, "0000-00-00", None),
    ("date", "DATE", {}, "2024-00-10", None),
    ("date", "DATE", {}, "2024-05-01", "2024-05-01"),
    ("date", "DATE", QUARANTINE, "0000-00-00", "0000-00-00"),
    ("datetime(3)", "TIMESTAMP(3)", {}, "0000-00-00 00:00:00.000", None),
    ("timestamp", "TIMESTAMP(0)", SHANGHAI, "2024-05-01 10:00:00", "2024-05-01 10:00:00"),
    ("timestamp", "TIMESTAMP_LTZ(0)", {}, "2024-05-01 10:00:00", "2024-05-01 10:00:00"),
    ("timestamp(6)", "TIMESTAMP_LTZ(6)", {}, "2021-05-17 07:22:42 +00:00", "2021-05-17 07:22:42+00:00"),
    ("timestamp", "TIMESTAMP_LTZ(0)", SHANGHAI, "2024-02-30 10:00:00", "2024-02-30 10:00:00"),
    ("timestamp(9)", "TIMESTAMP_LTZ(9)", SHANGHAI, "2024-05-01 10:00:00.123456789", "2024-05-01 02:00:00.123456789Z"),
    ("datetime", "TIMESTAMP(0)", {}, "soon", "soon"),
]


@pytest.mark.parametrize(("name", "target", "options", "text", "expected"), REWRITTEN)
def test_the_text_of_a_value_is_rewritten(
    name: str, target: str, options: dict[str, str], text: str, expected: str | None
) -> None:
    rule = Rewriting(mysql_type(name), parse_type(target), FeedOptions(**options))

    assert rule.of_value(text) == expected
    assert pa.array(rule.of_values(pa.array([text, None]))).to_pylist() == [expected, None]


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "+08:00"])
def test_an_instant_is_moved_to_utc_from_the_zone_of_the_tool(zone: str) -> None:
    rule = Rewriting(mysql_type("timestamp(6)"), parse_type("TIMESTAMP_LTZ(6)"), FeedOptions(time_zone=zone))
    texts = ["2016-10-15 02:15:15.5", "1969-12-31 23:00:00"]

    moved = rule.of_values(pa.array([*texts, None]))

    expected = ["2016-10-14 18:15:15.500000Z", "1969-12-31 15:00:00.000000Z", None]
    assert pa.array(moved).to_pylist() == expected
    assert [rule.of_value(text) for text in texts] == ["2016-10-14 18:15:15.5Z", "1969-12-31 15:00:00Z"]


def test_a_type_without_words_or_width_changes_no_text() -> None:
    assert Rewriting(MysqlType(parse_type("STRING")), parse_type("STRING"), FeedOptions()).is_idle
