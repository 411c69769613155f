"""The texts by which a table remembers encodings (``sources.column_forms``), and which encodings need remembering.

``decimal(2)``, ``time(1000000)``, ``array<date>``, ``map<text, value>``, ``struct<"a": date>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataType, Root
from sources.column_forms import VALUE
from sources.values.encodings import AUTO, Encoding, Kind
from sources.values.scalar_conversion import epoch_unit
from sources.values.value_forms import ValueForms

_T = TypeVar("_T")
_WORD = re.compile(r"[a-z][a-z ]*")
_NUMBER = re.compile(r"-?\d+")
_NUMBERED = (Kind.DECIMAL, Kind.TIME, Kind.TIMESTAMP)
"""Kinds with a number in brackets: a scale, or a unit."""
_FORMS: dict[Kind, pa.DataType] = {
    **dict.fromkeys((Kind.TEXT, Kind.BYTES, Kind.FORMATTED, Kind.LATIN1, Kind.DECIMAL), pa.string()),
    **dict.fromkeys((Kind.UNSIGNED, Kind.DATE, Kind.TIME, Kind.TIMESTAMP), pa.int64()),
    Kind.VARIABLE_DECIMAL: pa.struct([("scale", pa.int64()), ("value", pa.string())]),
}


def form_text(encoding: Encoding) -> str:
    """The text of an encoding; ``form_encoding`` reads it."""
    kind = encoding.kind
    if kind is Kind.AUTO:
        return VALUE
    if kind in _NUMBERED:
        return f"{kind}({encoding.scale if kind is Kind.DECIMAL else encoding.unit})"
    if kind is Kind.STRUCT:
        return f"struct<{', '.join(f'{json.dumps(name)}: {form_text(inner)}' for name, inner in encoding.fields)}>"
    parts = {Kind.ARRAY: (encoding.element,), Kind.MAP: (encoding.key, encoding.element)}.get(kind)
    return str(kind) if parts is None else f"{kind}<{', '.join(form_text(part or AUTO) for part in parts)}>"


def form_encoding(text: str) -> Encoding | None:
    """The encoding of a text; None for texts of other forms."""
    try:
        encoding, end = _parse(text, 0)
    except (ValueError, IndexError):
        return None
    return encoding if end == len(text) else None


def _parse(text: str, start: int) -> tuple[Encoding, int]:
    word = _WORD.match(text, start)
    if word is None:
        raise ValueError(text)
    kind = Kind.AUTO if word[0] == VALUE else Kind(word[0])
    end = word.end()
    if kind in _NUMBERED:
        number = _NUMBER.match(text, end + 1)
        if number is None:
            raise ValueError(text)
        end, value = _after(text, number.end(), ")"), int(number[0])
        return (Encoding(kind, scale=value) if kind is Kind.DECIMAL else Encoding(kind, unit=value)), end
    if kind is Kind.STRUCT:
        named, end = _parse_list(text, end, _parse_field)
        return Encoding(kind, fields=tuple(named)), end
    if kind in (Kind.ARRAY, Kind.MAP):
        parts, end = _parse_list(text, end, _parse)
        key = parts[0] if kind is Kind.MAP else None
        return Encoding(kind, key=key, element=parts[-1]), end
    return Encoding(kind), end


def _parse_field(text: str, start: int) -> tuple[tuple[str, Encoding], int]:
    name, end = json.JSONDecoder().raw_decode(text, start)
    encoding, end = _parse(text, _after(text, end, ": "))
    return (str(name), encoding), end


def _parse_list(text: str, start: int, part: Callable[[str, int], tuple[_T, int]]) -> tuple[list[_T], int]:
    """What stands between ``<`` and ``>``."""
    found: list[_T] = []
    end = _after(text, start, "<")
    while text[end] != ">":
        one, end = part(text, _after(text, end, ", ") if found else end)
        found.append(one)
    return found, end + 1


def _after(text: str, start: int, expected: str) -> int:
    if not text.startswith(expected, start):
        raise ValueError(text)
    return start + len(expected)


def json_form(encoding: Encoding) -> pa.DataType:
    """The Arrow type of the JSON of an encoding; ``pa.null()`` if none certainly describes it."""
    if encoding.kind is Kind.ARRAY:
        element = json_form(encoding.element or AUTO)
        return pa.null() if pa.types.is_null(element) else pa.list_(element)
    return _FORMS.get(encoding.kind, pa.null())


def with_auto(encoding: Encoding, t: DataType, keeps: Callable[[Encoding, DataType], bool]) -> Encoding:
    """The encoding of a column of the type, with AUTO in place of those parts that are not to be kept.

    A value that is stored as text is one part, whatever it contains.
    """
    kind = encoding.kind
    if t.root in CHARACTERS or kind not in (Kind.ARRAY, Kind.MAP, Kind.STRUCT):
        return encoding if keeps(encoding, t) else AUTO
    if kind is Kind.STRUCT:
        types = {f.name: f.type for f in t.fields}
        fields = ((n, with_auto(inner, types[n], keeps) if n in types else inner) for n, inner in encoding.fields)
        return replace(encoding, fields=tuple(fields))
    key, element = _inside(encoding, t)
    made = replace(
        encoding,
        key=encoding.key if key is None else with_auto(*key, keeps),
        element=encoding.element if element is None else with_auto(*element, keeps),
    )
    return AUTO if made != encoding and {made.key, made.element} <= {None, AUTO} else made


def is_told_by_type(encoding: Encoding, t: DataType, forms: ValueForms) -> bool:
    """Whether a column of the type reads the JSON of the encoding in the same way without knowing it."""
    root, kind = t.root, encoding.kind
    if kind in (Kind.ARRAY, Kind.MAP, Kind.STRUCT):
        return root in CHARACTERS or _are_parts_told(encoding, t, forms)
    told = {
        Kind.AUTO: True,
        Kind.TEXT: root is not Root.DECIMAL,
        Kind.BYTES: root in CHARACTERS or (root in BINARIES and forms.binary_format == "base64"),
        Kind.FORMATTED: root in BINARIES or root in CHARACTERS,
        Kind.VARIABLE_DECIMAL: root is Root.DECIMAL or root in CHARACTERS,
        Kind.DATE: root is Root.DATE or root in INTEGERS,
        Kind.TIME: root in INTEGERS or (root is Root.TIME and encoding.unit == epoch_unit(t, forms)),
        Kind.TIMESTAMP: root in INTEGERS or (root in TIMESTAMPS and encoding.unit == epoch_unit(t, forms)),
    }
    return told.get(kind, False)


def _are_parts_told(encoding: Encoding, t: DataType, forms: ValueForms) -> bool:
    if encoding.kind is Kind.STRUCT:
        types = {f.name: f.type for f in t.fields}
        pairs = [(inner, types[name]) for name, inner in encoding.fields if name in types]
    else:
        pairs = [pair for pair in _inside(encoding, t) if pair is not None]
    return all(is_told_by_type(inner, inner_type, forms) for inner, inner_type in pairs)


def _inside(encoding: Encoding, t: DataType) -> list[tuple[Encoding, DataType] | None]:
    """Key and element of an array or a map with their types; None for a part that one of the two lacks."""
    inside = ((encoding.key, t.key), (encoding.element, t.value if encoding.kind is Kind.MAP else t.element))
    return [None if inner is None or inner_type is None else (inner, inner_type) for inner, inner_type in inside]
