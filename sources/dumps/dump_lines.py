"""One line of a dump, read exactly: all forms that a line may have, and why other lines are not records.

The vectorised reader in ``dump_records`` knows only the plain form and passes other lines on. A line of a quarantine is
a line of a dump with ``reason``. If it stands for a line that was not a record, it has that line as its payload. A
retry reads the payload again at the same place, so that users can fix it there.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from paimon_table.nearest_name import nearest

_T = TypeVar("_T")

MALFORMED_PREFIX = "malformed:"
"""Prefix of the topic of lines that are not records."""

IGNORED = ("tstype", "broker", "reason", "source")
"""Fields that do not describe the record: two of kcat's, the quarantine reason, and the table that it named."""

_FIELDS = (
    "topic",
    "partition",
    "offset",
    "ts",
    "key",
    "key_b64",
    "payload",
    "payload_b64",
    "headers",
    "headers_b64",
    *IGNORED,
)

_OTHER_NAMES = {"value": "write the value as text under `payload`", "timestamp": "write the milliseconds under `ts`"}
"""The replacements for names of test cases that dumps do not have."""

_A_RECORD = "each line of a dump is a record as `kcat -J` prints it"

_LIMIT_MS = 2**63 // 1000
"""Later times do not fit into 64-bit microseconds."""

Headers = tuple[tuple[str, bytes | None], ...]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every name in it, also one given twice."""


class NoRecord(ValueError):
    """A line is not a record; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DumpRecord:
    """A Kafka record as a line has it."""

    topic: str
    partition: int
    offset: int
    ts: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None


def record_of_line(line: bytes) -> DumpRecord:
    """The record of one line. Raises NoRecord with the fault of the line."""
    fields = _fields(line)
    topic = _typed(fields, "topic", str)
    if topic is not None and topic.startswith(MALFORMED_PREFIX):
        return record_of_line(line_inside(line))
    return DumpRecord(
        _required(fields, "topic", topic),
        _required(fields, "partition", _number(fields, "partition", 2**31)),
        _required(fields, "offset", _number(fields, "offset", 2**63)),
        _number(fields, "ts", _LIMIT_MS, -_LIMIT_MS),
        _content(fields, "key"),
        _content(fields, "payload"),
        _headers(fields),
    )


def line_inside(line: bytes) -> bytes:
    """The line that was not a record and is the payload of this one. Raises NoRecord if there is none."""
    text = _content(_fields(line), "payload")
    if text is None or not text.strip():
        raise NoRecord("field 'payload' is empty: write the record there, or drop this line")
    return text


def _fields(line: bytes) -> Mapping[str, Any]:
    try:
        pairs = json.loads(line, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise NoRecord(f"the line is not JSON: {error}") from error
    if not isinstance(pairs, _Pairs):
        raise NoRecord("the line is not a JSON object")
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in _FIELDS:
            raise NoRecord(f"unknown field {name[:80]!r}; {_advice(name)}")
        if name in fields:
            raise NoRecord(f"field {name!r} is given twice; leave one")
        fields[name] = dict(value) if isinstance(value, _Pairs) else value
    return fields


def _advice(name: str) -> str:
    close = nearest(name, _FIELDS)
    wanted = f"did you mean {close!r}?" if close else f"known are {', '.join(_FIELDS)}"
    return f"{_OTHER_NAMES.get(name, wanted)} ({_A_RECORD})"


def _required(fields: Mapping[str, Any], name: str, value: _T | None) -> _T:
    if value is None:
        raise NoRecord(f"field `{name}` is {'null' if name in fields else 'missing'}; give it ({_A_RECORD})")
    return value


def _typed(fields: Mapping[str, Any], name: str, kind: type[_T]) -> _T | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise NoRecord(f"field {name!r} is {_word(value)}, expected {'text' if kind is str else 'a whole number'}")
    if isinstance(value, str):
        _bytes(name, value)
    return value


def _number(fields: Mapping[str, Any], name: str, limit: int, least: int = 0) -> int | None:
    value = _typed(fields, name, int)
    if value is not None and not least <= value < limit:
        raise NoRecord(f"field {name!r} is {value}, expected a number from {least} to {limit - 1}")
    return value


def _content(fields: Mapping[str, Any], name: str) -> bytes | None:
    """Key or payload: text, or bytes in base64 under the name with ``_b64``."""
    text, encoded = fields.get(name), fields.get(f"{name}_b64")
    if text is not None and encoded is not None:
        raise NoRecord(f"fields '{name}' and '{name}_b64' are both given; leave one")
    return _bytes(name, text) if encoded is None else _from_base64(f"{name}_b64", encoded)


def _bytes(name: str, text: object) -> bytes | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise NoRecord(f"field {name!r} is {_word(text)}, expected text: write the JSON of the {name} as a string")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NoRecord(f"field {name!r} has half a surrogate pair; write its bytes under '{name}_b64'") from error


def _from_base64(name: str, text: object) -> bytes | None:
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise NoRecord(f"field {name!r} is not base64")


def _headers(fields: Mapping[str, Any]) -> Headers | None:
    """Alternating names and values, or an object of lists."""
    plain, encoded = fields.get("headers"), fields.get("headers_b64")
    if plain is not None and encoded is not None:
        raise NoRecord("fields 'headers' and 'headers_b64' are both given; leave one")
    if encoded is not None:
        return _by_turns("headers_b64", encoded, _from_base64)
    if plain is None:
        return None
    if isinstance(plain, dict):
        flat = [part for name, values in plain.items() for value in _list(values) for part in (name, value)]
        return _by_turns("headers", flat, _bytes)
    return _by_turns("headers", plain, _bytes)


def _list(values: object) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _by_turns(name: str, flat: object, decode: Callable[[str, object], bytes | None]) -> Headers:
    if not isinstance(flat, list):
        raise NoRecord(f"field {name!r} is {_word(flat)}, expected a list of alternating names and values")
    if len(flat) % 2:
        raise NoRecord(f"field {name!r} has a name without a value")
    names: Sequence[object] = flat[::2]
    if not all(isinstance(header, str) for header in names):
        raise NoRecord(f"field {name!r} has a name that is not text")
    for header in names:
        _bytes(name, header)
    return tuple((str(header), decode(name, value)) for header, value in zip(names, flat[1::2], strict=True))


def _word(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case dict() | _Pairs():
            return "an object"
        case list():
            return "a list"
        case str():
            return "text"
        case _:
            return f"the number {value}"
