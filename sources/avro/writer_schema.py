"""Writer schemas: the JSON of an Avro schema as a tree of nodes, with every name resolved.

Nothing here checks defaults, aliases or the spelling of names: any schema that wrote a record can be read. Implements
names and types of the Avro specification 1.12.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paimon_table.errors import MalformedRecord

_MOST_LEVELS = 100
_MOST_FIXED_BYTES = 1 << 30


class AvroKind(StrEnum):
    """How a value is stored."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    RECORD = "record"
    UNION = "union"


_PRIMITIVES = {str(kind): kind for kind in list(AvroKind)[:8]}


@dataclass(slots=True, eq=False)
class Node:
    """One type of a schema. A record may hold itself, so the fields of a record come after its node."""

    kind: AvroKind
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The attributes of the type, such as ``connect.name`` and ``logicalType``."""
    name: str = ""
    """The full name of a record, an enum or a fixed."""
    fields: tuple[NodeField, ...] = ()
    parts: tuple[Node, ...] = field(default=(), repr=False)
    """The branches of a union; the element of an array; the value of a map."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    """Bytes of a fixed."""
    is_recursive: bool = False
    """Of a record: whether it contains itself."""

    @property
    def value(self) -> Node | None:
        """The type in a union of one type and null; the node itself if it is no union; None for other unions."""
        if self.kind is not AvroKind.UNION:
            return self
        others = [part for part in self.parts if part.kind is not AvroKind.NULL]
        return others[0] if len(others) == 1 and len(self.parts) <= 2 else None

    @property
    def is_optional(self) -> bool:
        return self.kind is AvroKind.NULL or any(part.kind is AvroKind.NULL for part in self.parts_of_union)

    @property
    def parts_of_union(self) -> tuple[Node, ...]:
        return self.parts if self.kind is AvroKind.UNION else ()

    @property
    def is_opaque(self) -> bool:
        """Whether no column type describes it: a union of several types, or a record that contains itself."""
        if self.kind is AvroKind.UNION:
            return self.value is None and any(part.kind is not AvroKind.NULL for part in self.parts)
        return self.kind is AvroKind.RECORD and self.is_recursive


@dataclass(frozen=True, slots=True, eq=False)
class NodeField:
    """A field of a record; ``properties`` as of a node."""

    name: str
    node: Node
    properties: Mapping[str, Any] = field(repr=False)


def read_writer_schema(text: str, references: Iterable[str] = ()) -> Node:
    """The schema of a JSON text; ``references`` are texts whose names it may use. Raises MalformedRecord."""
    reading = _Reading()
    try:
        for other in references:
            reading.node(json.loads(other), "", 0)
        return reading.node(json.loads(text), "", 0)
    except json.JSONDecodeError as error:
        raise MalformedRecord(f"it is not JSON: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise MalformedRecord(f"it is not an Avro schema: {type(error).__name__}: {error}") from None


class _Reading:
    """Reads one schema with its references."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._open: set[str] = set()

    def node(self, schema: Any, namespace: str, level: int) -> Node:
        if level > _MOST_LEVELS:
            raise MalformedRecord(f"it is nested deeper than {_MOST_LEVELS} levels")
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, Sequence):
            return Node(AvroKind.UNION, parts=tuple(self.node(part, namespace, level + 1) for part in schema))
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._with_properties(self.node(kind, namespace, level + 1), schema)
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, level)
            case "enum":
                symbols = tuple(str(symbol) for symbol in schema["symbols"])
                return self._keep(Node(AvroKind.ENUM, schema, _full_name(schema, namespace), symbols=symbols))
            case "fixed":
                size = int(schema["size"])
                if not 0 <= size <= _MOST_FIXED_BYTES:
                    raise MalformedRecord(f"it has a fixed of {size} bytes")
                return self._keep(Node(AvroKind.FIXED, schema, _full_name(schema, namespace), size=size))
            case "array":
                return Node(AvroKind.ARRAY, schema, parts=(self.node(schema["items"], namespace, level + 1),))
            case "map":
                return Node(AvroKind.MAP, schema, parts=(self.node(schema["values"], namespace, level + 1),))
            case _:
                return self._with_properties(self._by_name(kind, namespace), schema)

    def _record(self, schema: Mapping[str, Any], namespace: str, level: int) -> Node:
        name = _full_name(schema, namespace)
        node = self._keep(Node(AvroKind.RECORD, schema, name))
        self._open.add(name)
        inner = name.rpartition(".")[0]
        node.fields = tuple(
            NodeField(str(f["name"]), self.node(f["type"], inner, level + 1), f) for f in schema["fields"]
        )
        self._open.discard(name)
        return node

    def _keep(self, node: Node) -> Node:
        self._named[node.name] = node
        return node

    def _by_name(self, name: str, namespace: str) -> Node:
        if name in _PRIMITIVES:
            return Node(_PRIMITIVES[name])
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise MalformedRecord(f"it uses a type {full!r} that it does not define")
        if found.name in self._open:
            found.is_recursive = True
        return found

    def _with_properties(self, node: Node, schema: Mapping[str, Any]) -> Node:
        """A primitive with its attributes; a named type keeps those of its definition."""
        if node.name or node.kind is AvroKind.UNION:
            return node
        return Node(node.kind, {**node.properties, **schema}, parts=node.parts)


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema["name"])
    if "." in name:
        return name
    space = schema.get("namespace")
    space = namespace if space is None else str(space)
    return f"{space}.{name}" if space else name
