"""Translates types of columns to DuckDB's names and back: the result of an expression is a type of the table."""

from __future__ import annotations

import re

from paimon_table.types import DataField, DataType, Root, parse_type, string

_SIMPLE = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20, 0)",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "VARCHAR": "STRING",
    "JSON": "STRING",
    "UUID": "STRING",
    "BLOB": "BYTES",
    "DATE": "DATE",
    "TIME": "TIME(3)",
    "TIMESTAMP_S": "TIMESTAMP(3)",
    "TIMESTAMP_MS": "TIMESTAMP(3)",
    "TIMESTAMP": "TIMESTAMP(6)",
    "TIMESTAMP_NS": "TIMESTAMP(9)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ(6)",
    "TIMESTAMPTZ_NS": "TIMESTAMP_LTZ(9)",
}
_REMEDIES = {
    "HUGEINT": "cast it to BIGINT or DECIMAL(38, 0)",
    "UHUGEINT": "cast it to BIGINT or DECIMAL(38, 0)",
    "INTERVAL": "use a number instead, such as date_diff('second', a, b)",
    '"NULL"': "it is NULL in every row: give it a type, such as CAST(NULL AS VARCHAR)",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")

_DUCK = {
    Root.BOOLEAN: "BOOLEAN",
    Root.TINYINT: "TINYINT",
    Root.SMALLINT: "SMALLINT",
    Root.INT: "INTEGER",
    Root.BIGINT: "BIGINT",
    Root.FLOAT: "FLOAT",
    Root.DOUBLE: "DOUBLE",
    Root.CHAR: "VARCHAR",
    Root.VARCHAR: "VARCHAR",
    Root.BINARY: "BLOB",
    Root.VARBINARY: "BLOB",
    Root.DATE: "DATE",
    Root.TIME: "TIME",
}


class NoType(ValueError):
    """A result that no column of a table can hold; the text has the remedy."""


def data_type(duck: str) -> DataType:
    """The type of a column for values of a DuckDB type. Raises NoType if there is none."""
    if duck in _SIMPLE:
        return parse_type(_SIMPLE[duck])
    decimal = _DECIMAL.fullmatch(duck)
    if decimal is not None:
        return DataType(Root.DECIMAL, precision=int(decimal[1]), scale=int(decimal[2]))
    if duck.endswith("[]"):
        return DataType(Root.ARRAY, element=data_type(duck[:-2]))
    if duck.startswith("MAP(") and duck.endswith(")"):
        key, value = _split(duck[4:-1])
        return DataType(Root.MAP, key=data_type(key), value=data_type(value))
    if duck.startswith("STRUCT(") and duck.endswith(")"):
        return DataType(Root.ROW, fields=tuple(_field(part) for part in _split(duck[7:-1])))
    if duck.startswith("ENUM("):
        return string()
    remedy = _REMEDIES.get(duck, "cast it to a type that a table has, such as VARCHAR")
    raise NoType(f"its result is {duck}, which no column can hold: {remedy}")


def duck_type(t: DataType) -> str:
    """The type to which a value is cast for a column of a table."""
    if t.root in _DUCK:
        return _DUCK[t.root]
    match t.root:
        case Root.DECIMAL:
            return f"DECIMAL({t.precision},{t.scale})"
        case Root.TIMESTAMP:
            precision = t.precision or 0
            return "TIMESTAMP_MS" if precision <= 3 else "TIMESTAMP" if precision <= 6 else "TIMESTAMP_NS"
        case Root.TIMESTAMP_LTZ:
            return "TIMESTAMPTZ_NS" if (t.precision or 0) > 6 else "TIMESTAMPTZ"
        case Root.ARRAY if t.element is not None:
            return f"{duck_type(t.element)}[]"
        case Root.MAP if t.key is not None and t.value is not None:
            return f"MAP({duck_type(t.key)}, {duck_type(t.value)})"
        case Root.ROW:
            return "STRUCT(" + ", ".join(f"{quoted(f.name)} {duck_type(f.type)}" for f in t.fields) + ")"
        case _:
            raise NoType(f"{t} is not a type that an expression gives")


def quoted(name: str) -> str:
    """A name as SQL writes any name."""
    return '"' + name.replace('"', '""') + '"'


def _field(text: str) -> DataField:
    if text.startswith('"'):
        end = re.match(r'"((?:[^"]|"")*)" ', text)
        if end is None:
            raise NoType(f"{text} is not a field")
        return DataField(-1, end[1].replace('""', '"'), data_type(text[end.end() :]))
    name, _, rest = text.partition(" ")
    return DataField(-1, name, data_type(rest))


def _split(text: str) -> list[str]:
    """The parts between commas outside brackets and quotes."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        if letter == '"':
            is_quoted = not is_quoted
        elif not is_quoted and letter in "([":
            depth += 1
        elif not is_quoted and letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0 and not is_quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
