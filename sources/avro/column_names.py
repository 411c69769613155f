"""The names of a record's columns.

Connectors adjust names that Avro does not allow (``field.name.adjustment.mode``). Where the schema has the true name
(``column.propagate.source.type`` puts it there), the column has that one, as in the JSON form of the topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sources.avro.writer_schema import Node, NodeField

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SOURCE_NAME = "__debezium.source.column.name"


@lru_cache(maxsize=4096)
def column_names(record: Node) -> tuple[str, ...]:
    """One name per field of a record, each once."""
    names = tuple(map(_column_name, record.fields))
    return names if len({*names}) == len(names) else tuple(f.name for f in record.fields)


def _column_name(field: NodeField) -> str:
    for properties in (field.node.properties, *(part.properties for part in field.node.parts_of_union)):
        true = parameters(properties).get(_SOURCE_NAME)
        if isinstance(true, str) and true and not _LEGAL.fullmatch(true):
            return true
    return field.name


def parameters(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Kafka Connect's parameters of a type."""
    found = properties.get("connect.parameters")
    return found if isinstance(found, Mapping) else {}
