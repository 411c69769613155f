"""Value types and the base class of the YAML models: text that becomes a duration, a location, a table option.

A validator here raises PydanticCustomError through `refused`, whose text `config_errors` prints as it is, after the
place in the file. Values are never part of these texts unless they are words of the grammar: they may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from paimon_table.errors import ConfigError
from paimon_table.storage.location import NO_WINDOWS_PATHS, is_uri, is_windows_path
from paimon_table.types import DataType, parse_type
from pipelines.config.type_hints import length_problem, type_problem

REFUSED = "refused"
"""Error type of every message that a validator of these models words itself."""


def refused(text: str, *at: str | int) -> PydanticCustomError:
    """An error whose text the user sees unchanged.

    If the error is about a part of the validated value, ``at`` is the path to the part: keys and item numbers.
    """
    return PydanticCustomError(REFUSED, "{text}", {"text": text, "at": at})


class ConfigModel(BaseModel):
    """A mapping of the YAML file: unknown keys are refused, values do not change after the load."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False, arbitrary_types_allowed=True)

    NOT_YET: ClassVar[Mapping[str, str]] = {}
    """Keys that the design knows and this version refuses, with what to do instead."""


class WrittenInt(int):
    """An integer of the YAML file that remembers its text, so that an option keeps ``007`` or ``0x10`` as written."""

    written: str


class WrittenFloat(float):
    """A number of the YAML file that remembers its text, so that an option keeps ``1.10`` as written."""

    written: str


def _option_text(value: Any) -> Any:
    match value:
        case bool():
            return "true" if value else "false"
        case WrittenInt() | WrittenFloat():
            return value.written
        case int() | float():
            return str(value)
        case str():
            return value
        case _:
            raise refused("expected a text, a number or a boolean")


OptionText = Annotated[str, PlainValidator(_option_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
"""The value of an option of another system (Paimon, Kafka, Spark, S3): always text below the edge."""


def _option_or_null(value: Any) -> Any:
    return None if value is None else _option_text(value)


OptionOrNull = Annotated[
    str | None, PlainValidator(_option_or_null), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]
"""As OptionText; null takes an inherited option away."""


_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")


def _parse_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise refused("expected a duration such as 500ms, 60s, 5m or 1h")
    duration = timedelta(seconds=float(match[1]) * _UNIT_SECONDS[match[2]])
    if not duration:
        raise refused("the duration must be above zero")
    return duration


def duration_text(duration: timedelta) -> str:
    """The duration as a file writes it: ``60s``, ``500ms``."""
    seconds = duration.total_seconds()
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


Duration = Annotated[
    timedelta,
    PlainValidator(_parse_duration),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h)$", "examples": ["60s"]}),
]
"""A length of time with its unit: ms, s, m or h."""


def resolve_location(value: str, info: ValidationInfo) -> str:
    """The text of a ``Location`` as an absolute path or a URI."""
    text = value.strip()
    if not text:
        raise refused("expected a path or a URI, found an empty text")
    if is_windows_path(text):
        raise refused(NO_WINDOWS_PATHS)
    if is_uri(text):
        return text.rstrip("/") or text
    base: Path = (info.context or {}).get("directory", Path.cwd())
    return str(_collapsed(base / Path(text).expanduser()))


def _collapsed(path: Path) -> Path:
    """The absolute path without ``.`` and ``..`` parts; the file need not exist and links are kept."""
    parts: list[str] = []
    for part in path.absolute().parts:
        if part == "..":
            if len(parts) > 1:
                parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)


Location = Annotated[str, AfterValidator(resolve_location)]
"""A URI, or a path relative to the YAML file; absolute after the load."""


def parse_instant(value: Any, *, zone: tzinfo | None = None) -> datetime:
    """ISO text, or milliseconds since 1970.

    Raises a ValueError that says what is expected. A text without a zone is in ``zone``; without ``zone`` it is
    refused.
    """
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    try:
        instant = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise refused("expected an ISO time such as 2024-05-01T00:00:00Z, or milliseconds since 1970") from None
    if instant.tzinfo is None and zone is not None:
        return instant.replace(tzinfo=zone)
    if instant.tzinfo is None:
        raise refused("the time needs a zone: write 2024-05-01T00:00:00Z or ...+02:00")
    return instant


Instant = Annotated[datetime, PlainValidator(parse_instant), WithJsonSchema({"type": ["string", "integer"]})]
"""A moment: ISO text with a zone, or milliseconds since 1970."""


def _parse_column_type(value: Any) -> DataType:
    if isinstance(value, DataType):
        return value
    if not isinstance(value, str):
        raise refused("expected a type such as INT or 'DECIMAL(10, 2)'")
    try:
        parsed = parse_type(value)
    except ConfigError as error:
        raise refused(type_problem(value, str(error))) from None
    wrong = length_problem(value)
    if wrong is not None:
        raise refused(wrong)
    return parsed


ColumnType = Annotated[
    DataType, PlainValidator(_parse_column_type), WithJsonSchema({"type": "string", "examples": ["DECIMAL(10, 2)"]})
]
"""A Paimon type as SQL text."""


def check_pattern(value: str) -> str:
    meant = meant_by_glob(value)
    if meant is not None:
        raise refused(f"this is a regular expression, in which * repeats the character before it; write '{meant}'")
    try:
        re.compile(value)
    except re.error as error:
        raise refused(f"not a regular expression: {error}") from None
    return value


_GLOB = re.compile(r"(?=.*(?:^|[\w-])\*)[\w.*-]+")
"""Names with a * as in shells: at the beginning, or after a letter that is hardly meant to repeat."""


def meant_by_glob(value: str) -> str | None:
    """The regular expression for a pattern that looks like one of a shell."""
    if _GLOB.fullmatch(value) is None:
        return None
    return re.sub(r"(?<!\.)\*", ".*", re.sub(r"\.(?!\*)", r"\\.", value))


def _not_empty(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise refused("expected a text, found an empty one")
    return value


Pattern = Annotated[str, BeforeValidator(_not_empty), AfterValidator(check_pattern)]
"""A regular expression that must match the whole name; a plain name matches itself."""


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [check_pattern(_not_empty(value))]  # here, so that a problem has no number of an item
    if not isinstance(value, list | tuple) or not value:
        raise refused("expected a name, a regular expression, or a list of them; put numbers in quotes")
    return value


Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]
"""One pattern or several, of which one must match."""

Text = Annotated[str, BeforeValidator(_not_empty)]
"""Text that is not empty."""
