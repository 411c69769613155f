"""The building blocks of the Avro schemas of Paimon's manifest files, as Java writes them.

Record names are joined paths, null is the first branch of every union.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NAMESPACE = "org.apache.paimon.avro.generated"


def nullable(avro_type: Any) -> list[Any]:
    return ["null", avro_type]


def required(name: str, avro_type: Any) -> dict[str, Any]:
    """A field that every record has."""
    return {"name": name, "type": avro_type}


def optional(name: str, avro_type: Any) -> dict[str, Any]:
    """A field that may be null, or be missing in a file, which means null."""
    return {"name": name, "type": nullable(avro_type), "default": None}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def nested_record(path: str, fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A record inside of another one; ``path`` joins the names of the fields that lead to it."""
    return {"type": "record", "name": path, "fields": list(fields)}


def root_record(fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The record of a whole file."""
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": list(fields)}


def block_codec(compression: str) -> str:
    """Avro's name of a value of ``manifest.compression``."""
    return "zstandard" if compression == "zstd" else "null"
