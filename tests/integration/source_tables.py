"""Source tables of the end-to-end test: between them every common PostgreSQL column type, and a random value of each.

Columns have no DEFAULT, because Debezium's JSON converter writes the default where the row has NULL. Times are whole
milliseconds, which is what Paimon's TIME keeps.
"""

import json
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

NULL_SHARE = 0.15
EDGE_SHARE = 0.1
ALPHABET = "abcdefghij KLMNOP'\"\\{}[],;%äößñçłшж東京🎁\t\n"
LARGE_TEXT_LENGTH = 6_000
FIRST_DAY = date(1, 1, 1)
LAST_DAY = date(9999, 12, 31)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column: its PostgreSQL type, the Paimon type it becomes, and a maker of random values (never NULL)."""

    name: str
    sql_type: str
    paimon_type: str
    make: Callable[[Random], Any]
    is_toasted: bool = False


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table with its key columns first; `full_identity` is REPLICA IDENTITY FULL."""

    name: str
    key: tuple[SourceColumn, ...]
    values: tuple[SourceColumn, ...]
    full_identity: bool = False

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        return self.key + self.values

    @property
    def paimon_types(self) -> dict[str, str]:
        """Return what `columns.types` of a table rule has to say when the topic carries no schema."""
        return {column.name: column.paimon_type for column in self.columns}

    def ddl(self) -> list[str]:
        """Return the statements that make the table."""
        columns = [f"{column.name} {column.sql_type}" for column in self.columns]
        names = ", ".join(column.name for column in self.key)
        statements = [f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({names}))"]
        for column in self.values:
            if column.is_toasted:
                statements.append(f"ALTER TABLE {self.name} ALTER COLUMN {column.name} SET STORAGE EXTERNAL")
        if self.full_identity:
            statements.append(f"ALTER TABLE {self.name} REPLICA IDENTITY FULL")
        return statements


def _text(random: Random, longest: int = 30) -> str:
    return "".join(random.choice(ALPHABET) for _ in range(random.randrange(longest + 1)))


def _integer(bits: int) -> Callable[[Random], int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def make(random: Random) -> int:
        return random.choice((low, high, 0, -1)) if random.random() < EDGE_SHARE else random.randrange(low, high + 1)

    return make


def _decimal(precision: int, scale: int) -> Callable[[Random], Decimal]:
    def make(random: Random) -> Decimal:
        digits = precision if random.random() < EDGE_SHARE else random.randrange(1, precision + 1)
        unscaled = random.randrange(10**digits) * random.choice((1, -1))
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    return make


def _real(random: Random) -> float:
    if random.random() < EDGE_SHARE:
        return random.choice((0.0, 1.0, -2.5, math.nan, math.inf, -math.inf))
    return round(random.uniform(-1e4, 1e4), 2)


def _double(random: Random) -> float:
    if random.random() < EDGE_SHARE:
        return random.choice((0.1, 1.7976931348623157e308, 5e-300, math.nan, math.inf, -math.inf))
    return random.uniform(-1e9, 1e9)


def _day(random: Random) -> date:
    if random.random() < EDGE_SHARE:
        return random.choice((FIRST_DAY, LAST_DAY, date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)))
    return date(1950, 1, 1) + timedelta(days=random.randrange(30_000))


def _time_ms(random: Random) -> time:
    milliseconds = random.choice((0, 86_399_999)) if random.random() < EDGE_SHARE else random.randrange(86_400_000)
    return (datetime.min + timedelta(milliseconds=milliseconds)).time()


def _moment_us(random: Random) -> datetime:
    return datetime.combine(_day(random), time()) + timedelta(microseconds=random.randrange(86_400_000_000))


def _moment_ms(random: Random) -> datetime:
    return datetime.combine(_day(random), _time_ms(random))


def _moment_utc(random: Random) -> datetime:
    return _moment_us(random).replace(tzinfo=UTC)


def _json_text(random: Random) -> str:
    value = {"n": random.randrange(100), "s": _text(random, 8).replace("\t", ""), "a": [1, None, 2.5], "o": {"k": True}}
    return json.dumps(random.choice((value, [], {}, None, "text", 1.50)), ensure_ascii=False)


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def _array(make: Callable[[Random], Any]) -> Callable[[Random], list[Any]]:
    return lambda random: [None if random.random() < 0.2 else make(random) for _ in range(random.randrange(4))]


def _large_text(random: Random) -> str:
    """Return a text that PostgreSQL stores outside the row in two of three cases."""
    piece = _text(random, 40) or "x"
    return piece if random.random() < 1 / 3 else (piece * LARGE_TEXT_LENGTH)[:LARGE_TEXT_LENGTH]


def _new_number(random: Random) -> int:
    return random.randrange(1, 2**40)


EVERY_TYPE = SourceTable(
    "every_type",
    (SourceColumn("id", "bigint", "BIGINT", _new_number),),
    (
        SourceColumn("c_smallint", "smallint", "SMALLINT", _integer(16)),
        SourceColumn("c_integer", "integer", "INT", _integer(32)),
        SourceColumn("c_bigint", "bigint", "BIGINT", _integer(64)),
        SourceColumn("c_money", "numeric(10,2)", "DECIMAL(10, 2)", _decimal(10, 2)),
        SourceColumn("c_wide", "numeric(38,10)", "DECIMAL(38, 10)", _decimal(38, 10)),
        SourceColumn("c_real", "real", "FLOAT", _real),
        SourceColumn("c_double", "double precision", "DOUBLE", _double),
        SourceColumn("c_boolean", "boolean", "BOOLEAN", lambda random: random.random() < 0.5),
        SourceColumn("c_text", "text", "STRING", _text),
        SourceColumn("c_varchar", "varchar(40)", "STRING", _text),
        SourceColumn("c_char", "char(5)", "STRING", lambda random: random.choice(("", "ab", "abcde"))),
        SourceColumn("c_bytea", "bytea", "BYTES", lambda random: random.randbytes(random.randrange(20))),
        SourceColumn("c_date", "date", "DATE", _day),
        SourceColumn("c_time_ms", "time(3)", "TIME(3)", _time_ms),
        SourceColumn("c_time_us", "time(6)", "TIME(6)", _time_ms),
        SourceColumn("c_timestamp_ms", "timestamp(3)", "TIMESTAMP(3)", _moment_ms),
        SourceColumn("c_timestamp_us", "timestamp(6)", "TIMESTAMP(6)", _moment_us),
        SourceColumn("c_timestamptz", "timestamptz", "TIMESTAMP_LTZ(6)", _moment_utc),
        SourceColumn("c_json", "json", "STRING", _json_text),
        SourceColumn("c_jsonb", "jsonb", "STRING", _json_text),
        SourceColumn("c_uuid", "uuid", "STRING", _uuid),
        SourceColumn("c_integers", "integer[]", "ARRAY<INT>", _array(_integer(32))),
        SourceColumn("c_texts", "text[]", "ARRAY<STRING>", _array(_text)),
    ),
)
ORDER_LINES = SourceTable(
    "order_lines",
    (
        SourceColumn("order_id", "bigint", "BIGINT", lambda random: random.randrange(1, 400)),
        SourceColumn("line_no", "smallint", "SMALLINT", lambda random: random.randrange(1, 40)),
    ),
    (
        SourceColumn("quantity", "integer", "INT", lambda random: random.randrange(1, 100)),
        SourceColumn("unit_price", "numeric(10,2)", "DECIMAL(10, 2)", _decimal(10, 2)),
        SourceColumn("note", "text", "STRING", _text),
        SourceColumn("changed_at", "timestamptz", "TIMESTAMP_LTZ(6)", _moment_utc),
    ),
    full_identity=True,
)
DOCUMENTS = SourceTable(
    "documents",
    (SourceColumn("code", "text", "STRING", lambda random: f"{_text(random, 6)}-{random.randrange(10**6)}"),),
    (
        SourceColumn("title", "varchar(40)", "STRING", _text),
        SourceColumn("body", "text", "STRING", _large_text, is_toasted=True),
        SourceColumn("version", "integer", "INT", _integer(32)),
        SourceColumn("attachment", "bytea", "BYTES", lambda random: random.randbytes(random.choice((3, 5_000))), True),
    ),
)
TABLES = (EVERY_TYPE, ORDER_LINES, DOCUMENTS)
