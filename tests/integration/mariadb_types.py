"""A table of MariaDB with the types that differ from other databases, and what `SELECT` says of its rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from sources.values.iso_time import format_time
from tests.support.feed_records import Run

Row = dict[str, Any]

MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; SET time_zone = '-05:00';\n"
TABLE = """\
CREATE TABLE kinds (
  id INT PRIMARY KEY, big BIGINT UNSIGNED, bit1 BIT(1), bits BIT(12), y YEAR, t TIME(6), e ENUM('new', 'paid', 'it''s'),
  s SET('a', 'b', 'c'), d DATE, dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP(6) NULL, d_nn DATE NOT NULL,
  dt_nn DATETIME NOT NULL, j JSON, g GEOMETRY, p POINT, tiny TINYINT(1), v VARCHAR(20), b VARBINARY(10), u INT UNSIGNED,
  flag TINYINT(1)
) CHARACTER SET utf8mb4;
"""
ROWS = [
    "0, b'1', b'000000000001', 1901, '00:00:00', 'new', 'a', '2024-02-29', '2024-02-29 12:34:56',"
    " '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456', '2024-02-29', '2024-02-29 00:00:01', '{\"a\": 1}',"
    " ST_GeomFromText('LINESTRING(0 0, 1 1)'), ST_GeomFromText('POINT(1 2)'), 1, 'plain', x'00FF', 4294967295, 1",
    "18446744073709551615, b'0', b'100000000001', 2155, '-838:59:59.999999', 'it''s', 'a,c', '0000-00-00',"
    " '0000-00-00 00:00:00', '0000-00-00 00:00:00', NULL, '0000-00-00', '0000-00-00 00:00:00', '[]',"
    " ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))'), NULL, -128, 'ü😀', x'', 0, 0",
    "9223372036854775808, NULL, NULL, NULL, '838:59:59', NULL, '', '1000-01-01', '1000-01-01 00:00:00',"
    " '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', '9999-12-31', '9999-12-31 23:59:59', 'null', NULL, NULL,"
    " 127, NULL, NULL, NULL, NULL",
    # Such a time does not exist in Berlin, and the next one twice.
    "9223372036854775807, b'1', b'111111111111', 1970, '24:00:00', 'paid', 'a,b,c', '1582-10-10',"
    " '2024-03-31 02:30:00', '2024-10-27 02:30:00.5', '2024-03-30 20:30:00',"
    " '1970-01-01', '1969-12-31 23:59:59', '{\"k\": \"ü\"}', NULL,"
    " ST_GeomFromText('POINT(-0.5 1e10)'), 0, '', x'01', 1, 1",
]
"""Of all columns but ``id``."""


def inserts(first_id: int) -> str:
    values = ", ".join(f"({first_id + n}, {row})" for n, row in enumerate(ROWS))
    return f"{MODE}INSERT INTO kinds VALUES {values};\n"


CHANGES = f"""\
{MODE}
UPDATE kinds SET big = 18446744073709551614, t = '-00:00:01', s = 'b', d_nn = '0000-00-00', tiny = 0 WHERE id = 1;
UPDATE kinds SET e = 'paid', j = NULL, dt_nn = '2024-03-31 02:30:00', ts = '2024-10-27 00:30:00' WHERE id = 101;
DELETE FROM kinds WHERE id IN (3, 103);
"""
RECORDS = 2 * len(ROWS) + 2 + 4
"""Of the snapshot, of the inserts behind it, of the changes; a delete has a tombstone."""

_ZERO_OR = "IF({0} = 0, {1}, CAST({0} AS CHAR))"
SELECT: Mapping[str, str] = {
    "id": "id",
    "big": "CAST(big AS CHAR)",
    "bit1": "CAST(bit1 AS UNSIGNED)",
    "bits": "CAST(bits AS UNSIGNED)",
    "y": "y + 0",
    "t": "CAST(t AS CHAR)",
    "e": "CAST(e AS CHAR)",
    "s": "CAST(s AS CHAR)",
    "d": _ZERO_OR.format("d", "NULL"),
    "dt": _ZERO_OR.format("dt", "NULL"),
    "dt6": _ZERO_OR.format("dt6", "NULL"),
    "ts": "CAST(CONVERT_TZ(ts, @@time_zone, '+00:00') AS CHAR)",
    "d_nn": _ZERO_OR.format("d_nn", "'1970-01-01'"),
    "dt_nn": _ZERO_OR.format("dt_nn", "'1970-01-01 00:00:00'"),
    "j": "HEX(j)",
    "g": "HEX(ST_AsWKB(g))",
    "p": "HEX(ST_AsWKB(p))",
    "tiny": "tiny + 0",
    "v": "HEX(v)",
    "b": "HEX(b)",
    "u": "u",
    "flag": "flag + 0",
}
"""What stands in the database, and for zero dates what Debezium makes of them."""


def shown(row: Mapping[str, Any]) -> Row:
    """A row of the Paimon table as ``SELECT`` shows it."""
    return {name: _shown(name, value) for name, value in row.items()}


def _shown(name: str, value: Any) -> Any:
    match value:
        case None:
            return None
        case bool():
            return int(value)
        case bytes() if name == "bits":
            return int.from_bytes(value, "little")
        case bytes():
            return value.hex().upper()
        case dict():
            return value["wkb"].hex().upper()
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return _without_zeros(moment.isoformat(" ", "microseconds"))
        case date():
            return value.isoformat()
        case int() if name == "t":
            return format_time(value * 1000)
        case str() if name in ("g", "p"):
            return base64.b64decode(json.loads(value)["wkb"]).hex().upper()
        case str() if name in ("j", "v"):
            return value.encode().hex().upper()
    return str(value) if name == "big" else value


def selected(row: Row) -> Row:
    """A row of ``SELECT`` without the zeros that end its fractions."""
    return {name: _without_zeros(value) if isinstance(value, str) else value for name, value in row.items()}


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


DECLARED = {
    "bits": "BYTES", "t": "BIGINT", "d": "DATE", "dt": "TIMESTAMP(3)", "dt6": "TIMESTAMP(6)", "ts": "TIMESTAMP_LTZ(6)",
    "d_nn": "DATE", "dt_nn": "TIMESTAMP(3)", "b": "BYTES", "flag": "BOOLEAN",
}  # fmt: skip
"""What docs/MYSQL.md says to declare for records without schemas."""


def assert_table(directory: Path, name: str, batches: Iterable[pa.RecordBatch], source: Iterable[Row]) -> None:
    """The table that batches of a connector's topic make is what ``SELECT`` says of the source."""
    rule: dict[str, Any] = {"match": {"database": "kinds", "table": "kinds"}, "into": "lake.kinds"}
    if name == "my_long":
        rule["columns"] = {"types": DECLARED}

    run = Run(directory, "debezium-json", batches, rule)

    expected = [selected(row) for row in source]
    if name == "my_long":
        expected = [as_signed(row) for row in expected]
    assert run.reasons == {}
    assert [shown(row) for row in run.rows("lake.kinds")] == sorted(expected, key=lambda row: row["id"])
    unsigned, flag = run.types("lake.kinds")["big"], run.types("lake.kinds")["flag"]
    assert unsigned == ("BIGINT" if name == "my_long" else "DECIMAL(20, 0)")
    assert flag == ("SMALLINT" if name == "my_precise" else "BOOLEAN")


def as_signed(row: Row) -> Row:
    """What a signed number of 64 bits tells of ``big``, as docs/MYSQL.md says."""
    number = int(row["big"])
    return {**row, "big": str(number - (1 << 64) if number >= 1 << 63 else number)}
