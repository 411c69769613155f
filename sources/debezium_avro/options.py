"""Options of the format ``debezium-avro`` in addition to the options that all Debezium formats share."""

from __future__ import annotations

from dataclasses import dataclass

from sources.avro.registry_settings import RegistrySettings, settings_problem
from sources.format_options import option, option_group


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """Where schemas come from, and the meaning of values that do not state it."""

    registry: RegistrySettings = option_group(  # noqa: RUF009  a field, as those below
        RegistrySettings, "The registry with the schemas of keys and values.", settings_problem
    )
    key_format: str = option(
        "auto",
        "How message keys are written. With `auto`, keys that name a schema are Avro, and others are JSON. If keys "
        "have no fields, such as plain strings and numbers, set `text`.",
        "avro",
        "json",
        "text",
    )
    binary_format: str = option(
        "base64",
        "How the connector writes bytes as text; its `binary.handling.mode`.",
        "base64-url-safe",
        "hex",
    )
    infinity: str = option(
        "extreme",
        "If a timestamp is `infinity` or `-infinity`, `extreme` stores the largest or smallest value, and `null` "
        "stores NULL. `quarantine` puts the record into the quarantine.",
        "null",
        "quarantine",
    )
