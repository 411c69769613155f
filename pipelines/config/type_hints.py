"""The Paimon type that a name from another system most probably means."""

from __future__ import annotations

import re

from paimon_table.nearest_name import nearest
from paimon_table.types import Root

_MEANT = {
    "BIGINT UNSIGNED": "DECIMAL(20, 0)",
    "BIGSERIAL": "BIGINT",
    "BIT": "BOOLEAN",
    "BLOB": "BYTES",
    "BOOL": "BOOLEAN",
    "BYTEA": "BYTES",
    "CHARACTER VARYING": "VARCHAR(n)",
    "CLOB": "STRING",
    "DATETIME": "TIMESTAMP(6)",
    "DATETIME2": "TIMESTAMP(6)",
    "DATETIMEOFFSET": "TIMESTAMP_LTZ(6)",
    "DEC": "DECIMAL(p, s)",
    "DOUBLE PRECISION": "DOUBLE",
    "ENUM": "STRING",
    "FLOAT32": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT64": "DOUBLE",
    "FLOAT8": "DOUBLE",
    "INT16": "SMALLINT",
    "INT2": "SMALLINT",
    "INT32": "INT",
    "INT4": "INT",
    "INT64": "BIGINT",
    "INT8": "BIGINT",
    "INTEGER": "INT",
    "JSON": "STRING",
    "JSONB": "STRING",
    "LONG": "BIGINT",
    "LONGTEXT": "STRING",
    "MEDIUMINT": "INT",
    "MEDIUMTEXT": "STRING",
    "MONEY": "DECIMAL(19, 4)",
    "NCHAR": "CHAR(n)",
    "NUMBER": "DECIMAL(p, s)",
    "NUMERIC": "DECIMAL(p, s)",
    "NVARCHAR": "VARCHAR(n)",
    "NVARCHAR2": "VARCHAR(n)",
    "RAW": "BYTES",
    "REAL": "FLOAT",
    "SERIAL": "INT",
    "SHORT": "SMALLINT",
    "TEXT": "STRING",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMP_LTZ(6)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ(6)",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP(6)",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(6)",
    "UUID": "STRING",
    "VARCHAR2": "VARCHAR(n)",
    "XML": "STRING",
    "YEAR": "INT",
}


_WITHOUT_LENGTH = re.compile(
    r"(?<![`\w.$])(VARCHAR|CHAR|VARBINARY|BINARY)(?=\s*(?:$|[>,)]|NOT\b|NULL\b))", re.IGNORECASE
)
_WITH_USELESS_LENGTH = re.compile(r"(?<![`\w.$])(STRING|BYTES)\s*\(\s*([^)]*)\)", re.IGNORECASE)
_UNBOUNDED = {"VARCHAR": "STRING", "CHAR": "STRING", "VARBINARY": "BYTES", "BINARY": "BYTES"}


def length_problem(text: str) -> str | None:
    """The fault of a type's length that Paimon's grammar allows but hardly any user means; None if fine.

    A type without its length is one of length 1; the length of STRING and BYTES would be ignored.
    """
    bare = _WITHOUT_LENGTH.search(text)
    if bare:
        name = bare[1].upper()
        return f"{text!r}: {name} without a length is {name}(1); write {_UNBOUNDED[name]}, or {name}(n) with the length"
    useless = _WITH_USELESS_LENGTH.search(text)
    if useless:
        name = useless[1].upper()
        bounded = "VARCHAR" if name == "STRING" else "VARBINARY"
        return f"{text!r}: {name} has no length; write {name}, or {bounded}({useless[2].strip()})"
    return None


def type_problem(text: str, refusal: str) -> str:
    """The message about a text that is not a type; ``refusal`` is the parser's."""
    if text.count("(") > text.count(")") or text.count("<") > text.count(">"):
        return f"{text!r} is not complete; inside {{ }} a type with a comma needs quotes: 'DECIMAL(10, 2)'"
    name = " ".join(re.sub(r"\([^)]*\)", " ", text).upper().split())
    meant = _MEANT.get(name)
    if meant is None:
        close = nearest(name, (*Root, "STRING", "BYTES", *_MEANT)) if "unknown name" in refusal else None
        return (
            refusal
            if close is None or " " in name
            else f"{text!r} is not a type; did you mean '{_MEANT.get(close, close)}'?"
        )
    numbers = re.search(r"\(([\d, ]+)\)", text)
    if numbers and re.search(r"\((n|p, s)\)", meant):
        meant = f"{meant.partition('(')[0]}({numbers[1]})"
    return f"{text!r} is not a type of Paimon; the nearest one is {meant}"
