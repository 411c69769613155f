"""Cutting the embedded schema of Kafka Connect off ``{"schema": ..., "payload": ...}`` texts.

JsonConverter repeats the same schema text in front of every payload. The text up to the payload is remembered as a
prefix, so one comparison per record finds its schema, and only the payload is parsed. Other writers leave the schema
out of the wrapper, ``{"payload": ...}``: its content is read like a text without wrapper.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.json_changes.exact_parse import parse_json, scan_json
from sources.values.cells import with_plain_fields
from sources.values.connect_types import ConnectColumn, struct_columns
from sources.values.json_values import json_text

_OPENING = b'{"schema":'
_PAYLOAD = b',"payload":'
_PAYLOAD_ALONE = b'{"payload":'
_PAYLOAD_FIRST = r'^\s*\{\s*"payload"\s*:'
_SCHEMA_BEHIND = r'"schema"\s*:\s*[{n]'
"""May be the schema after a payload, which is an object or null, or a column of that name."""
_ESCAPED_LETTER = r"\\u00[67]"
"""Characters that the names schema and payload may contain."""
_REMEMBERED = 1000

RowOf: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Maps the struct of a text, which has a list ``fields``, to the struct of the rows in it, if it has rows."""


@dataclass(frozen=True, slots=True)
class EmbeddedSchema:
    """The columns of the rows that texts with one embedded schema hold."""

    columns: tuple[ConnectColumn, ...]

    @property
    def by_name(self) -> dict[str, ConnectColumn]:
        return {c.name: c for c in self.columns}


@dataclass(frozen=True, slots=True)
class SchemaGroup:
    """Texts that share a schema (None: no schema): their indices in the input and their payloads.

    ``problem`` says why a schema cannot be read; without it the payload could be read wrongly.
    """

    schema: EmbeddedSchema | None
    indices: npt.NDArray[np.int64]
    payloads: pa.Array
    problem: str | None = None


_TEXT_VALUE = (
    "embedded schema is that of a string, as for a JSON text inside a string: let the producer convert it once "
    "(JsonConverter as value.converter; for Debezium's outbox router table.expand.json.payload=true)"
)


def is_wrapper(value: Any) -> bool:
    """Whether a JSON value is a payload with or without its schema, and not a row."""
    is_named = isinstance(value, dict) and "payload" in value and value.keys() <= {"schema", "payload"}
    return is_named and isinstance(value.get("schema"), dict | None)


def read_schema(schema: Any, row_of: RowOf) -> EmbeddedSchema | None:
    """The schema of a text; None stays None. Raises MalformedRecord if it is not a Kafka Connect struct."""
    if schema is None:
        return None
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        raise MalformedRecord(_TEXT_VALUE)
    if not isinstance(schema, Mapping) or not isinstance(schema.get("fields"), list):
        raise MalformedRecord("embedded schema is not a Kafka Connect struct")
    row = row_of(schema)
    try:
        return EmbeddedSchema(struct_columns(with_plain_fields(row)) if row else ())
    except (ArithmeticError, RecursionError) as error:
        raise MalformedRecord(f"embedded schema is not usable: {error}") from error


class SchemaCutter:
    """Caches prefixes; results do not depend on earlier records.

    ``row_of`` finds the struct of the rows in the struct of a text. Texts that begin with ``plain_opening`` certainly
    have no schema.
    """

    def __init__(self, row_of: RowOf, plain_opening: bytes) -> None:
        self._row_of = row_of
        self._plain_opening = plain_opening
        self._by_prefix: OrderedDict[bytes, EmbeddedSchema | None] = OrderedDict()

    def __reduce__(self) -> tuple[type[SchemaCutter], tuple[RowOf, bytes]]:
        return SchemaCutter, (self._row_of, self._plain_opening)

    def split(self, texts: pa.Array, plain_opening: bytes | None = None) -> list[SchemaGroup]:
        """Group UTF-8 texts by embedded schema.

        Texts without one, or with one that cannot be read, form a group. ``plain_opening`` replaces the cutter's own.
        """
        opening = self._plain_opening if plain_opening is None else plain_opening
        rest = np.arange(len(texts), dtype=np.int64)
        groups: list[SchemaGroup] = []
        with_schema = np.asarray(pc.starts_with(texts, _OPENING))
        alone = _wrapped_alone(texts, with_schema)
        if alone.any():
            payloads = pc.binary_slice(texts.filter(pa.array(alone)), len(_PAYLOAD_ALONE), -1)
            trimmed = pc.ascii_trim_whitespace(payloads.cast(pa.string())).cast(pa.binary())
            groups.append(SchemaGroup(None, rest[alone], trimmed))
        plain = [rest[~with_schema & ~alone]]
        rest = rest[with_schema]
        while len(rest):
            prefix = self._prefix_of(texts[int(rest[0])].as_py())
            if prefix is None:
                plain.append(rest[:1])
                rest = rest[1:]
                continue
            candidates = texts if len(rest) == len(texts) else texts.take(pa.array(rest))
            same = np.asarray(pc.and_(pc.starts_with(candidates, prefix), pc.ends_with(candidates, b"}")))
            payloads = pc.binary_slice(candidates.filter(pa.array(same)), len(prefix), -1)
            groups.append(SchemaGroup(self._by_prefix[prefix], rest[same], payloads))
            rest = rest[~same]
        others = np.sort(np.concatenate(plain))
        if len(others) == len(texts):
            return self._unusual(others, texts, opening)
        if len(others):
            groups += self._unusual(others, texts.take(pa.array(others)), opening)
        return groups

    def _prefix_of(self, text: bytes) -> bytes | None:
        """The remembered or newly read prefix that ``text`` begins with, most recently used first."""
        for prefix in reversed(self._by_prefix):
            if text.startswith(prefix):
                if prefix is not next(reversed(self._by_prefix)):
                    self._by_prefix.move_to_end(prefix)
                return prefix if text.endswith(b"}") else None
        return self._learn(text)

    def _learn(self, text: bytes) -> bytes | None:
        try:
            decoded = text.decode("utf-8")
            schema, end = scan_json(decoded, len(_OPENING))
            parsed = read_schema(schema, self._row_of)
        except (MalformedRecord, UnicodeDecodeError):
            return None
        prefix = decoded[:end].encode("utf-8") + _PAYLOAD
        if not text.startswith(prefix) or not text.endswith(b"}"):
            return None
        self._by_prefix[prefix] = parsed
        if len(self._by_prefix) > _REMEMBERED:
            self._by_prefix.popitem(last=False)
        return prefix

    def _unusual(self, indices: npt.NDArray[np.int64], texts: pa.Array, opening: bytes) -> list[SchemaGroup]:
        """Texts that do not begin as JsonConverter writes them: wrapped in another layout, or without a schema."""
        wrapped = np.zeros(len(texts), np.bool_)
        found: dict[tuple[str | None, str], list[int]] = {}
        schemas: dict[tuple[str | None, str], EmbeddedSchema | None] = {}
        payloads: dict[int, bytes] = {}
        for index in _candidates(texts, opening).tolist():
            try:
                value = parse_json(texts[index].as_py())
            except MalformedRecord:
                continue
            if not is_wrapper(value):
                continue
            wrapped[index] = True
            problem, schema = None, None
            try:
                schema = read_schema(value.get("schema"), self._row_of)
            except MalformedRecord as error:
                problem = str(error)
            kind = (problem, json_text(value.get("schema")))
            schemas[kind] = schema
            found.setdefault(kind, []).append(index)
            payloads[index] = json_text(value["payload"]).encode("utf-8")
        if not wrapped.any():
            return [SchemaGroup(None, indices, texts)] if len(indices) else []
        groups = [
            SchemaGroup(schemas[kind], indices[members], pa.array([payloads[i] for i in members], pa.binary()), kind[0])
            for kind, members in found.items()
        ]
        rest = SchemaGroup(None, indices[~wrapped], texts.filter(pa.array(~wrapped)))
        return [*groups, rest] if len(rest.indices) else groups


def _candidates(texts: pa.Array, plain_opening: bytes) -> npt.NDArray[np.int64]:
    """The texts that may be wrapped."""
    candidates = np.flatnonzero(~np.asarray(pc.starts_with(texts, plain_opening)))
    if not len(candidates):
        return candidates
    members = texts.take(pa.array(candidates))
    both = pc.and_(pc.match_substring(members, '"schema"'), pc.match_substring(members, '"payload"'))
    alone = pc.match_substring_regex(members, _PAYLOAD_FIRST)
    escaped = pc.match_substring_regex(members, _ESCAPED_LETTER)
    may_be: npt.NDArray[np.bool_] = np.asarray(pc.or_(pc.or_(both, alone), escaped))
    return candidates[may_be]


def _wrapped_alone(texts: pa.Array, with_schema: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Texts that are certainly a payload without schema: after a beginning that cannot be one, a schema is not JSON."""
    alone = np.zeros(len(texts), np.bool_)
    if with_schema.all():
        return alone
    found = np.flatnonzero(np.asarray(pc.and_(pc.starts_with(texts, _PAYLOAD_ALONE), pc.ends_with(texts, b"}"))))
    if len(found):
        members = texts.take(pa.array(found))
        unsure = pc.match_substring_regex(members, f"{_SCHEMA_BEHIND}|{_ESCAPED_LETTER}")
        sure = found[~np.asarray(unsure)]
        only = [_is_only_field(text) for text in texts.take(pa.array(sure)).to_pylist()]
        alone[sure[np.array(only, np.bool_)]] = True
    return alone


def _is_only_field(text: bytes) -> bool:
    """Whether an object consists only of the payload; a row may have a field of that name too."""
    try:
        return len(json.loads(text)) == 1
    except (ValueError, RecursionError):
        return True  # reading the payload reports the error
