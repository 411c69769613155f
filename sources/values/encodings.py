"""How the JSON text of a column encodes its values.

Without a schema every column is AUTO: the target's type and the kind of JSON value decide. With an embedded Kafka
Connect schema the encoding is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The meaning of a JSON value."""

    AUTO = "auto"
    """The JSON value itself; strings and numbers are read as the target's type asks."""
    TEXT = "text"
    """String that is the value, as an embedded schema says: never base64 of a number."""
    BYTES = "bytes"
    """String: base64, as converters write bytes; connectors send other encodings as texts."""
    FORMATTED = "formatted bytes"
    """String: bytes as ``binary_format`` says."""
    LATIN1 = "latin bytes"
    """String: each character is one byte (ISO-8859-1)."""
    DECIMAL = "decimal"
    """String: base64 of the two's complement unscaled value; or a JSON number (``decimal.format=NUMERIC``)."""
    UNSIGNED = "unsigned"
    """Integer: 64 bits without a sign; numbers from 2^63 on are written as negative ones."""
    VARIABLE_DECIMAL = "variable decimal"
    """Object ``{"scale": int, "value": base64}``."""
    DATE = "date"
    """Integer: days since 1970-01-01."""
    TIME = "time"
    """Integer: time of day in ``unit`` parts of a second."""
    TIMESTAMP = "timestamp"
    """Integer: time since 1970-01-01T00:00:00 in ``unit`` parts of a second."""
    ARRAY = "array"
    STRUCT = "struct"
    MAP = "map"
    """Object (string keys) or array of [key, value] pairs."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One column's encoding; nested for arrays, structs and maps."""

    kind: Kind
    scale: int = 0
    unit: int = 0
    """Parts of a second: 1000, 1000000 or 1000000000."""
    element: Encoding | None = None
    key: Encoding | None = None
    fields: tuple[tuple[str, Encoding], ...] = ()


AUTO = Encoding(Kind.AUTO)
TEXT = Encoding(Kind.TEXT)
