"""Paimon's column types: the value type, its text and JSON forms, and its Arrow form.

Implements the type grammar of Paimon schema files: atomic types are strings (``DECIMAL(10, 2) NOT NULL``), complex
types are JSON objects (``{"type": "ARRAY", "element": "INT"}``). VARIANT, BLOB and the geo types are refused. Only
functions that create Arrow types import Arrow, so that checks of a pipeline file or a schema do not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.json_text import as_text, as_whole_number

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LENGTH = 2147483647
"""The length of a VARCHAR that is shown as STRING and of a VARBINARY that is shown as BYTES."""


class Root(StrEnum):
    """The kind of a type, without its parameters."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"
    ROW = "ROW"


NESTED = frozenset({Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW})
INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
CHARACTERS = frozenset({Root.CHAR, Root.VARCHAR})
BINARIES = frozenset({Root.BINARY, Root.VARBINARY})
TIMESTAMPS = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
TIMES_OF_ROWS = frozenset({Root.INT, Root.BIGINT, *TIMESTAMPS})
"""Types of columns whose values give the age of rows."""


@dataclass(frozen=True, slots=True)
class DataType:
    """One Paimon type. Parameters that a root does not have are None or empty."""

    root: Root
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[DataField, ...] = ()

    def with_nullable(self, nullable: bool) -> DataType:
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    @property
    def is_nested(self) -> bool:
        return self.root in NESTED

    @property
    def parts(self) -> tuple[tuple[str, DataType], ...]:
        """The types directly inside, by name: ``element``, ``key`` and ``value``, and the fields of a ROW."""
        inside = (("element", self.element), ("key", self.key), ("value", self.value))
        fields = ((f.name, f.type) for f in self.fields)
        return (*((name, part) for name, part in inside if part is not None), *fields)

    def __str__(self) -> str:
        return sql(self)


@dataclass(frozen=True, slots=True)
class DataField:
    """A named column or a field of a ROW; ``id`` never changes while names and types may."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


def string() -> DataType:
    """STRING, that is VARCHAR of the largest length."""
    return DataType(Root.VARCHAR, length=MAX_LENGTH)


def bytes_() -> DataType:
    """BYTES, that is VARBINARY of the largest length."""
    return DataType(Root.VARBINARY, length=MAX_LENGTH)


# ---------------------------------------------------------------- text and JSON


def _atomic_sql(t: DataType) -> str:
    match t.root:
        case Root.DECIMAL:
            return f"DECIMAL({t.precision}, {t.scale})"
        case Root.VARCHAR if t.length == MAX_LENGTH:
            return "STRING"
        case Root.VARBINARY if t.length == MAX_LENGTH:
            return "BYTES"
        case Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY:
            return f"{t.root}({t.length})"
        case Root.TIME | Root.TIMESTAMP:
            return f"{t.root}({t.precision})"
        case Root.TIMESTAMP_LTZ:
            return f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
        case _:
            return str(t.root)


def sql(t: DataType) -> str:
    """The type as SQL text; atomic types are in the canonical form of the schema files."""
    match t.root:
        case Root.ARRAY | Root.MULTISET:
            text = f"{t.root}<{sql(_known(t.element))}>"
        case Root.MAP:
            text = f"MAP<{sql(_known(t.key))}, {sql(_known(t.value))}>"
        case Root.ROW:
            text = "ROW<" + ", ".join(f"{f.name} {sql(f.type)}" for f in t.fields) + ">"
        case _:
            text = _atomic_sql(t)
    return text if t.nullable else text + " NOT NULL"


def type_json(t: DataType) -> str | dict[str, Any]:
    """The type as in a schema file."""
    if not t.is_nested:
        return sql(t)
    name = str(t.root) if t.nullable else f"{t.root} NOT NULL"
    match t.root:
        case Root.MAP:
            return {"type": name, "key": type_json(_known(t.key)), "value": type_json(_known(t.value))}
        case Root.ROW:
            return {"type": name, "fields": [field_json(f) for f in t.fields]}
        case _:
            return {"type": name, "element": type_json(_known(t.element))}


def field_json(f: DataField) -> dict[str, Any]:
    """A field as in a schema file; unset optional keys are left out."""
    out: dict[str, Any] = {"id": f.id, "name": f.name, "type": type_json(f.type)}
    if f.description is not None:
        out["description"] = f.description
    if f.default_value is not None:
        out["defaultValue"] = f.default_value
    return out


def field_from_json(obj: Mapping[str, Any]) -> DataField:
    default = obj.get("defaultValue")
    return DataField(
        as_whole_number(obj["id"]),
        as_text(obj["name"]),
        parse_type(obj["type"]),
        obj.get("description"),
        None if default is None else as_text(default),
    )


def parse_type(spec: str | Mapping[str, Any]) -> DataType:
    """Parse the JSON form of a schema file or SQL text; case is ignored, ``ARRAY<INT>`` is accepted as text.

    Fields of a ROW given as SQL text get id -1 (ids are assigned when the table is created). Raises ConfigError for
    text that is not a type, UnsupportedFeature for types that Tidemark does not write.
    """
    if isinstance(spec, str):
        return _TypeText(spec).parse()
    name = str(spec["type"]).upper().split()
    nullable = name[1:] != ["NOT", "NULL"]
    match name[0]:
        case "ARRAY":
            return DataType(Root.ARRAY, nullable, element=parse_type(spec["element"]))
        case "MULTISET":
            return DataType(Root.MULTISET, nullable, element=parse_type(spec["element"]))
        case "MAP":
            return DataType(Root.MAP, nullable, key=parse_type(spec["key"]), value=parse_type(spec["value"]))
        case "ROW":
            return DataType(Root.ROW, nullable, fields=tuple(field_from_json(f) for f in spec["fields"]))
        case other:
            raise UnsupportedFeature(f"type {other} is not supported; supported: {', '.join(Root)}")


_TOKEN = re.compile(r"\s*(?:(`[^`]+`)|([\w.$]+)|([<>(),:]))", re.UNICODE)
_SYNONYMS = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "BOOL": "BOOLEAN"}

MAX_NESTING = 100
"""The most levels of ARRAY, MAP and ROW in the text of a type: far above real tables, well within Python's stack."""

_DEFAULT_PRECISION = {Root.TIME: 0, Root.TIMESTAMP: 6, Root.TIMESTAMP_LTZ: 6}


class _TypeText:
    """Recursive descent over the tokens of one type text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ConfigError(f"{text!r} is not a type: unexpected {text[at:].strip()[:1]!r}")
            self.tokens.append(match.group(match.lastindex or 0))
            at = match.end()
        self.at = 0
        levels = accumulate((token == "<") - (token == ">") for token in self.tokens)
        if max(levels, default=0) > MAX_NESTING:
            raise ConfigError(
                f"the type {text[:40]!r}... is nested more than {MAX_NESTING} levels deep; use STRING for deeper levels"
            )

    def parse(self) -> DataType:
        parsed = self._type()
        if self.at < len(self.tokens):
            raise ConfigError(f"{self.text!r} is not a type: unexpected {self.tokens[self.at]!r}")
        return parsed

    def _peek(self) -> str:
        return self.tokens[self.at].upper() if self.at < len(self.tokens) else ""

    def _take(self, *words: str) -> bool:
        upper = [t.upper() for t in self.tokens[self.at : self.at + len(words)]]
        if upper != list(words):
            return False
        self.at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise ConfigError(f"{self.text!r} is not a type: expected {word!r}, found {self._peek() or 'the end'!r}")

    def _numbers(self) -> list[int]:
        if not self._take("("):
            return []
        numbers: list[int] = []
        while not self._take(")"):
            word = self._peek()
            if not (word.isascii() and word.isdigit()):
                raise ConfigError(f"{self.text!r} is not a type: expected a number, found {word or 'the end'!r}")
            numbers.append(int(word))
            self.at += 1
            self._take(",")
        return numbers

    def _type(self) -> DataType:
        word = self._peek()
        self.at += 1
        match word:
            case "ARRAY" | "MULTISET":
                self._expect("<")
                element = self._type()
                self._expect(">")
                parsed = DataType(Root(word), element=element)
            case "MAP":
                self._expect("<")
                key = self._type()
                self._expect(",")
                value = self._type()
                self._expect(">")
                parsed = DataType(Root.MAP, key=key, value=value)
            case "ROW":
                parsed = DataType(Root.ROW, fields=self._row_fields())
            case _:
                parsed = self._atomic(word)
        if self._take("NOT", "NULL"):
            return parsed.with_nullable(False)
        self._take("NULL")
        return parsed

    def _row_fields(self) -> tuple[DataField, ...]:
        self._expect("<")
        fields = []
        while not self._take(">"):
            if self.at >= len(self.tokens):
                raise ConfigError(f"{self.text!r} is not a type: expected '>', found the end")
            name = self.tokens[self.at].strip("`")
            self.at += 1
            self._take(":")
            fields.append(DataField(-1, name, self._type()))
            self._take(",")
        return tuple(fields)

    def _atomic(self, word: str) -> DataType:
        word = _SYNONYMS.get(word, word)
        if word == "DOUBLE":
            self._take("PRECISION")
        numbers = self._numbers()
        if word == "TIMESTAMP" and self._take("WITH", "LOCAL", "TIME", "ZONE"):
            word = "TIMESTAMP_LTZ"
        self._take("WITHOUT", "TIME", "ZONE")
        if word == "STRING":
            return string()
        if word == "BYTES":
            return bytes_()
        if word not in Root.__members__:
            if word in {"VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY", "VECTOR"}:
                raise UnsupportedFeature(f"type {word} is not supported; supported: {', '.join(Root)}")
            raise ConfigError(
                f"{self.text!r} is not a type: unknown name {word!r}; known: {', '.join(Root)}, STRING, BYTES"
            )
        return self._checked(Root(word), numbers)

    def _checked(self, root: Root, numbers: list[int]) -> DataType:
        allowed = 2 if root is Root.DECIMAL else 1 if root in _PARAMETERISED else 0
        if len(numbers) > allowed:
            raise ConfigError(f"{self.text!r} is not a type: {root} takes at most {allowed} number(s)")
        match root:
            case Root.DECIMAL:
                precision = numbers[0] if numbers else 10
                scale = numbers[1] if len(numbers) > 1 else 0
                if not 1 <= precision <= 38 or not 0 <= scale <= precision:
                    raise ConfigError(f"{self.text!r}: DECIMAL(p, s) needs 1 <= p <= 38 and 0 <= s <= p")
                return DataType(root, precision=precision, scale=scale)
            case Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY:
                length = numbers[0] if numbers else 1
                if length < 1 or length > MAX_LENGTH:
                    raise ConfigError(f"{self.text!r}: the length must be between 1 and {MAX_LENGTH}")
                return DataType(root, length=length)
            case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
                precision = numbers[0] if numbers else _DEFAULT_PRECISION[root]
                if not 0 <= precision <= 9:
                    raise ConfigError(f"{self.text!r}: the precision must be between 0 and 9")
                return DataType(root, precision=precision)
            case _:
                return DataType(root)


_PARAMETERISED = CHARACTERS | BINARIES | TIMESTAMPS | {Root.TIME}

# ---------------------------------------------------------------- Arrow


@cache
def _simple_arrow() -> Mapping[Root, pa.DataType]:
    import pyarrow as pa

    return {
        Root.BOOLEAN: pa.bool_(),
        Root.TINYINT: pa.int8(),
        Root.SMALLINT: pa.int16(),
        Root.INT: pa.int32(),
        Root.BIGINT: pa.int64(),
        Root.FLOAT: pa.float32(),
        Root.DOUBLE: pa.float64(),
        Root.CHAR: pa.string(),
        Root.VARCHAR: pa.string(),
        Root.BINARY: pa.binary(),
        Root.VARBINARY: pa.binary(),
        Root.DATE: pa.date32(),
        Root.TIME: pa.time32("ms"),
    }


def timestamp_unit(precision: int) -> str:
    """Arrow unit that holds a timestamp of this precision: ms up to 3, us up to 6, ns above."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def arrow_type(t: DataType) -> pa.DataType:
    """The Arrow type of values of ``t`` in the engine; local-zoned timestamps have tz=UTC."""
    simple = _simple_arrow().get(t.root)
    if simple is not None:
        return simple
    import pyarrow as pa

    match t.root:
        case Root.DECIMAL:
            return pa.decimal128(_known(t.precision), _known(t.scale))
        case Root.TIMESTAMP:
            return pa.timestamp(timestamp_unit(_known(t.precision)))
        case Root.TIMESTAMP_LTZ:
            return pa.timestamp(timestamp_unit(_known(t.precision)), tz="UTC")
        case Root.ARRAY:
            element = _known(t.element)
            return pa.list_(pa.field("element", arrow_type(element), element.nullable))
        case Root.MAP:
            value = _known(t.value)
            return pa.map_(arrow_type(_known(t.key)), pa.field("value", arrow_type(value), value.nullable))
        case Root.MULTISET:
            return pa.map_(arrow_type(_known(t.element)), pa.field("value", pa.int32(), False))
        case _:
            return pa.struct([pa.field(f.name, arrow_type(f.type), f.type.nullable) for f in t.fields])


def arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Arrow schema of columns, in the given order, with their nullability."""
    import pyarrow as pa

    return pa.schema([pa.field(f.name, arrow_type(f.type), f.type.nullable) for f in fields])


_T = TypeVar("_T")


def _known(value: _T | None) -> _T:
    assert value is not None
    return value


# ---------------------------------------------------------------- field ids


def assign_ids(columns: Sequence[tuple[str, DataType]], highest_id: int = -1) -> tuple[tuple[DataField, ...], int]:
    """Assign ids to new columns, starting after ``highest_id``; returns the fields and the new highest id.

    A column gets the next id, and its nested ROW fields the ids right after it. Inside a ROW the children of a field
    are numbered before the field itself.
    """
    fields: list[DataField] = []
    for name, column_type in columns:
        highest_id += 1
        own_id = highest_id
        numbered, highest_id = _number_nested(column_type, highest_id)
        fields.append(DataField(own_id, name, numbered))
    return tuple(fields), highest_id


NEW_FIELD = -1
"""The id of a field of a ROW without an id."""


def number_new_fields(t: DataType, highest_id: int) -> tuple[DataType, int]:
    """Assign ids to new fields of rows in a type, as ``assign_ids`` does."""
    return _number_nested(t, highest_id, only_new=True)


def _number_nested(t: DataType, highest_id: int, *, only_new: bool = False) -> tuple[DataType, int]:
    match t.root:
        case Root.ARRAY | Root.MULTISET:
            element, highest_id = _number_nested(_known(t.element), highest_id, only_new=only_new)
            return replace(t, element=element), highest_id
        case Root.MAP:
            key, highest_id = _number_nested(_known(t.key), highest_id, only_new=only_new)
            value, highest_id = _number_nested(_known(t.value), highest_id, only_new=only_new)
            return replace(t, key=key, value=value), highest_id
        case Root.ROW:
            fields = []
            for f in t.fields:
                is_kept = only_new and f.id != NEW_FIELD
                child, highest_id = _number_nested(f.type, highest_id, only_new=is_kept)
                highest_id += not is_kept
                fields.append(replace(f, id=f.id if is_kept else highest_id, type=child))
            return replace(t, fields=tuple(fields)), highest_id
        case _:
            return t, highest_id
