"""Records of captures with one thing wrong: bytes, value, name, size, nesting, schema, key, source."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

Record = dict[str, Any]

ODD_NAMES = [
    "_KEY_x", "_LEVEL", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_OFFSET", "_UNAVAILABLE", "rowkind", "", " ", "Id", "ID",
    "a.b", "a/b", "ü" * 10, "n" * 3000, "x\x00y", "line\nbreak", "new1", "new2", "new3", "schema", "payload", "id ",
]  # fmt: skip
ODD_TABLES: list[Any] = [
    "xa/b",
    "x/../..",
    "..",
    ".",
    "x\x00",
    "x\n",
    "x" * 300,
    "xother",
    "x$snapshots",
    "X",
    "",
    " ",
    None,
    7,
    [],
]
ODD_VALUES: list[Callable[[random.Random], Any]] = [
    lambda r: None,
    lambda r: r.choice([True, False]),
    lambda r: r.choice([0, -1, 127, 128, 1 << 31, -(1 << 31) - 1, (1 << 63) - 1, 1 << 63, -(1 << 63), 10**37, 10**60]),
    lambda r: r.choice([0.1, -0.0, 3.5e38, -3.5e38, 1e39, 1e300, 5e-324, float("nan"), float("inf"), 1e22]),
    lambda r: r.choice(["", "x", "1234", "12.5", "NaN", "-Infinity", "infinity", "true", "AeJA", "=", "0x10", "1e999"]),
    lambda r: r.choice(["2024-02-29", "2024-02-30", "24:00:00", "2024-02-29T12:34:56Z", "-0001-01-01T00:00:00Z"]),
    lambda r: r.choice(["\x00", "\ud7ff", "é" * 50, "__debezium_unavailable_value", "9" * 5000, "z" * 70_000]),
    lambda r: base64.b64encode(r.randbytes(r.choice([1, 15, 16, 17, 300]))).decode(),
    lambda r: {"scale": r.choice([0, -3, 5, 30_000, 10**9, "1", None]), "value": r.choice(["AQ==", "", "x", None, 1])},
    lambda r: r.choice([[], [None], [1, "a"], [[1], [2]], {}, {"": 1}, {"x": {"y": [1]}}, {"a": None}]),
    lambda r: nested(r.choice([5, 99, 120, 600])),
]
LOGICAL = [
    "org.apache.kafka.connect.data.Decimal", "org.apache.kafka.connect.data.Date", "io.debezium.time.MicroTimestamp",
    "io.debezium.time.ZonedTimestamp", "io.debezium.data.VariableScaleDecimal", "io.debezium.time.MicroTime", 5,
]  # fmt: skip
KINDS = [
    "int8",
    "int16",
    "int32",
    "int64",
    "float",
    "double",
    "boolean",
    "string",
    "bytes",
    "struct",
    "array",
    "map",
    "x",
]


def mutant_count(usual: int) -> int:
    """How many mutants a test tries: ``TIDEMARK_MUTANTS`` says another number than the usual one, such as 10000."""
    return int(os.environ.get("TIDEMARK_MUTANTS", str(usual)))


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"v": value}
    return value


def mutated(record: Record, r: random.Random) -> Record:
    """A copy of the record with one thing wrong.

    Keys of other columns are left out: they mean a changed primary key, which stops the pipeline.
    """
    mutant = r.choice(_WAYS)(dict(record), r)
    names = key_names(mutant["key"])
    return mutant if names is None or names == key_names(record["key"]) else {**mutant, "key": record["key"]}


def key_names(key: bytes | None) -> list[str] | None:
    """The columns of a message key; None if it is not an object."""
    try:
        value = json.loads(key or b"")
    except (ValueError, RecursionError):
        return None
    value = value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
    return sorted(value) if isinstance(value, dict) and value else None


# ---------------------------------------------------------------- bytes


def _bytes_changed(data: bytes, r: random.Random) -> bytes:
    at = r.randrange(len(data) + 1)
    end = min(len(data), at + r.choice([1, 1, 2, 8, 200]))
    match r.randrange(8):
        case 0 | 1 if at < len(data):
            return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:end] + data[at:]
        case 4:
            return data[:at]
        case 5:
            return data[:at] + r.choice([b"\x00", b"\xff", b'"', b"\\", b"{", b"}", b",", b"\n", b"9"]) + data[at:]
        case 6:
            return r.choice([b"\xef\xbb\xbf", b"\x00\x00\x00\x00\x07", b"[", b" ", b"\xff\xfe"]) + data
        case _:
            return r.choice([data + data, data + b"x", data.decode().encode("utf-16"), r.randbytes(40), b"", b"null"])


def _value_bytes(record: Record, r: random.Random) -> Record:
    return {**record, "value": _bytes_changed(record["value"], r)}


def _key_bytes(record: Record, r: random.Random) -> Record:
    return {**record, "key": r.choice([None, b"", _bytes_changed(record["key"] or b"{}", r)])}


def _headers(record: Record, r: random.Random) -> Record:
    names = ["__debezium.newkey", "__debezium.oldkey", "other", ""]
    values = [b'{"id":1}', b"{", b"\xff", None, b"[]", b'{"schema":1,"payload":2}', b'{"id":{}}']
    return {**record, "headers": [{"key": r.choice(names), "value": r.choice(values)} for _ in range(2)]}


# ---------------------------------------------------------------- JSON


def _with_json(change: Callable[[Any, random.Random], Any]) -> Callable[[Record, random.Random], Record]:
    def mutate(record: Record, r: random.Random) -> Record:
        value = change(json.loads(record["value"]), r)
        text = json.dumps(value, ensure_ascii=r.random() < 0.2, separators=(",", ":"))
        return {**record, "value": text.encode("utf-8", "surrogatepass")}

    return mutate


def _payload(value: Any) -> Any:
    return value["payload"] if "payload" in value and "schema" in value else value


def _image(value: Any, r: random.Random) -> Any:
    payload = _payload(value)
    sides = [side for side in ("after", "before") if isinstance(payload.get(side), dict)]
    return payload[r.choice(sides)] if sides else payload


def _odd_value(value: Any, r: random.Random) -> Any:
    image = _image(value, r)
    image[r.choice(list(image))] = r.choice(ODD_VALUES)(r)
    return value


def _odd_field(value: Any, r: random.Random) -> Any:
    _image(value, r)[r.choice(ODD_NAMES)] = r.choice(ODD_VALUES)(r)
    return value


def _renamed_field(value: Any, r: random.Random) -> Any:
    image = _image(value, r)
    name = r.choice(list(image))
    at = r.randrange(len(name) + 1)
    image[r.choice([r.choice(ODD_NAMES), name.upper(), name[:at] + r.choice("abcxyz_5 ") + name[at + 1 :]])] = (
        image.pop(name)
    )
    return value


def _removed_field(value: Any, r: random.Random) -> Any:
    image = _image(value, r)
    del image[r.choice(list(image))]
    return value


def _envelope(value: Any, r: random.Random) -> Any:
    payload = _payload(value)
    name = r.choice([*payload, "op", "after", "before", "source"])
    match r.randrange(3):
        case 0:
            payload.pop(name, None)
        case 1:
            payload[name] = r.choice(ODD_VALUES)(r)
        case _:
            payload["op"] = r.choice(["c", "r", "u", "d", "t", "m", "x", "", None, 1, ["c"]])
    return value


def _source(value: Any, r: random.Random) -> Any:
    source = _payload(value).get("source")
    if isinstance(source, dict):
        source[r.choice(["table", "table", "schema", "db", "lsn", "name"])] = r.choice(ODD_TABLES)
    return value


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a schema."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(item)
    if isinstance(value, dict):
        yield value


def _schema(value: Any, r: random.Random) -> Any:
    if not isinstance(value.get("schema"), dict):
        return _odd_value(value, r)
    if r.random() < 0.05:
        value["schema"] = r.choice(ODD_VALUES)(r)
        return value
    node = r.choice([n for n in _nodes(value["schema"]) if n])
    match r.randrange(6):
        case 0:
            node["type"] = r.choice(KINDS)
        case 1:
            node["name"] = r.choice(LOGICAL)
        case 2:
            node["parameters"] = r.choice(
                [{"scale": r.choice(["1000000000", "-5", "x", "3", ""])}, None, [], {"scale": 2}]
            )
        case 3:
            node["field"] = r.choice([*ODD_NAMES, None, 3])
        case 4:
            node["fields"] = r.choice([[], None, {}, [{"type": "int32", "field": "a"}] * 2])
        case _:
            node[r.choice(list(node))] = r.choice(ODD_VALUES)(r)
    return value


_WAYS: list[Callable[[Record, random.Random], Record]] = [
    _value_bytes,
    _value_bytes,
    _key_bytes,
    _headers,
    *map(_with_json, (_odd_value, _odd_value, _odd_field, _renamed_field, _removed_field, _envelope, _source)),
    *map(_with_json, (_schema, _schema)),
]
