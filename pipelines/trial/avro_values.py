"""Keys and values of cases as Avro: what the producer of a topic with a schema registry would have sent.

A case writes values as its author reads them: a union has no branch around its value, bytes are base64, decimals are
numbers or texts. The schemas of the case file take the place of the registry.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from pipelines.config.config import PipelineConfig

_MAGIC = b"\0"


class _NoAvro(Exception):
    """A value that is not of its schema."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema of the case file: how it is parsed, and the types in it by their full names."""

    id: int
    given: Any
    parsed: Any
    named: Mapping[str, Any]

    def framed(self, value: Any, where: str) -> bytes:
        """The bytes of a value after the id of its schema.

        Raises ConfigError for values that the schema does not allow.
        """
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self.parsed, self._plain(self.parsed, value, ()))
        except (_NoAvro, ValueError, TypeError, AttributeError, OverflowError, DecimalException) as error:
            raise ConfigError(f"{where}: not a value of schema {self.id}: {error}; correct the value") from error
        return _MAGIC + self.id.to_bytes(4, "big") + out.getvalue()

    def _plain(self, node: Any, value: Any, at: tuple[str, ...]) -> Any:
        """The value as Avro's encoder takes it."""
        if isinstance(node, str) and node in self.named:
            node = self.named[node]
        if isinstance(node, list):
            return self._of_union(node, value, at)
        match node if isinstance(node, str) else node["type"]:
            case "record":
                return self._record(node, value, at)
            case "array" if isinstance(value, list | tuple):
                return [self._plain(node["items"], item, at) for item in value]
            case "map" if isinstance(value, Mapping):
                return {str(name): self._plain(node["values"], item, (*at, name)) for name, item in value.items()}
            case "bytes" | "fixed" if isinstance(node, dict) and node.get("logicalType") == "decimal":
                return Decimal(str(getattr(value, "written", value)))
            case "bytes" | "fixed" if isinstance(value, str):
                try:
                    return base64.b64decode(value, validate=True)
                except binascii.Error:
                    raise _NoAvro(f"{_path(at)}the bytes are not base64") from None
            case "float" | "double" if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        if not fastavro.validate(value, node, raise_errors=False):
            shown = node if isinstance(node, str) else json.dumps(node)
            raise _NoAvro(f"{_path(at)}{json.dumps(value, default=str)} is not a value of type {shown}")
        return value

    def _record(self, node: Mapping[str, Any], value: Any, at: tuple[str, ...]) -> dict[str, Any]:
        fields = {field["name"]: field for field in node["fields"]}
        if not isinstance(value, Mapping):
            raise _NoAvro(f"{_path(at)}expected a mapping with {', '.join(fields)}")
        for name in value:
            if name not in fields:
                raise _NoAvro(f"{_path(at)}no field '{name}'; {did_you_mean(str(name), fields)}")
        found = {}
        for name, field in fields.items():
            if name in value or "default" not in field:
                found[name] = self._plain(field["type"], value.get(name), (*at, name))
        return found

    def _of_union(self, branches: Sequence[Any], value: Any, at: tuple[str, ...]) -> Any:
        others = [branch for branch in branches if branch != "null"]
        if value is None and len(others) < len(branches):
            return None
        for branch in others[:-1]:
            try:
                return self._plain(branch, value, at)
            except (_NoAvro, DecimalException):
                continue
        return self._plain(others[-1], value, at)


def _path(at: Sequence[str]) -> str:
    return f"{'.'.join(at)}: " if at else ""


def avro_schema(number: int, schema: Any, where: str) -> AvroSchema:
    """A schema of a case file: itself, or the answer of a registry. Raises ConfigError for other text."""
    named: dict[str, Any] = {}
    try:
        is_answer = isinstance(schema, Mapping) and isinstance(schema.get("schema"), str)
        given = json.loads(schema["schema"] if is_answer else json.dumps(schema))
        parsed = fastavro.parse_schema(given, named)
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{where}: no Avro schema: {error}; copy it from the registry") from error
    return AvroSchema(number, given, parsed, named)


def with_schemas(config: PipelineConfig, schemas: Iterable[AvroSchema], file: Path) -> PipelineConfig:
    """The pipeline with ``schemas``, which are written to ``file``, in place of its registry."""
    file.write_text(json.dumps({"schemas": {str(schema.id): schema.given for schema in schemas}}))
    source = config.source
    return config.model_copy(
        update={"source": source.model_copy(update={"format": source.format.with_schema_file(str(file))})}
    )
