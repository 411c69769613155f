"""JSON Schema of pipeline files, for editors, generated from the models.

A reference to the environment may replace any scalar, so every schema of a scalar that is not plain text allows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.config.config import PipelineConfig

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "EnvironmentReference"
_KEPT_OUTSIDE = ("description", "default")


def pipeline_schema() -> dict[str, Any]:
    """The schema of one pipeline file as a JSON document."""
    schema = _with_references(PipelineConfig.model_json_schema())
    schema["$defs"][_REFERENCE] = {
        "type": "string",
        "pattern": r"\$\{env:",
        "description": "${env:NAME} or ${env:NAME:-default}",
    }
    return {"$schema": DIALECT, "title": "Tidemark pipeline", **{k: v for k, v in schema.items() if k != "title"}}


def _with_references(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_references(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs", "patternProperties"):
            changed[key] = {name: _with_references(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
            changed[key] = _with_references(value)
        else:
            changed[key] = value
    if not _is_narrow_scalar(changed):
        return changed
    outside = {key: changed.pop(key) for key in _KEPT_OUTSIDE if key in changed}
    return {"anyOf": [changed, {"$ref": f"#/$defs/{_REFERENCE}"}], **outside}


def _is_narrow_scalar(schema: Mapping[str, Any]) -> bool:
    """Whether the schema refuses a reference to the environment."""
    if "enum" in schema or "const" in schema:
        return True
    match schema.get("type"):
        case "integer" | "number" | "boolean":
            return True
        case "string":
            return "pattern" in schema
        case _:
            return False
