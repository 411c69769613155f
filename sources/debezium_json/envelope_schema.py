"""What an embedded schema says of a Debezium envelope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN_OPENING = b'{"before":'
"""How an envelope without a schema begins."""


def row_of_envelope(struct: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The struct of the rows in that of an envelope; None if it has none. Another struct is one of rows itself."""
    by_field = {str(f.get("field")): f for f in struct["fields"] if isinstance(f, Mapping)}
    return by_field.get("after") or by_field.get("before") if "op" in by_field else struct
