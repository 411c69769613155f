"""The options of plain Avro."""

from __future__ import annotations

from dataclasses import dataclass

from sources.avro.registry_settings import RegistrySettings, settings_problem
from sources.format_options import option, option_group, option_of_form
from sources.plain.options import PlainOptions, plain_problem


@dataclass(frozen=True, slots=True)
class AvroPlainOptions(PlainOptions):
    """Those of all plain formats, with keys that may be Avro too."""

    key_format: str = option(
        "auto",
        "How message keys are written. `auto` reads keys that name a schema as Avro, JSON objects as the columns that "
        "they name, and other keys as plain texts and numbers. `int` and `long` have 4 and 8 bytes, as Kafka's "
        "serializers"
        " write them. With `none` Tidemark ignores the keys.",
        "avro",
        "json",
        "string",
        "int",
        "long",
        "bytes",
        "none",
    )


@dataclass(frozen=True, slots=True)
class AvroSchemas:
    """The source of the values' schemas: a registry, by the names in the records, or one file."""

    registry: RegistrySettings | None = option_group(  # noqa: RUF009  a field, as that below
        RegistrySettings, "The registry with the schemas that records name.", settings_problem, is_needed=False
    )
    schema_file: str | None = option_of_form(
        "location",
        None,
        "Instead of `registry`: a file with the schema (`.avsc`) of all values, which are bare Avro. Every machine "
        "that decodes needs access to it.",
    )


def avro_problem(plain: AvroPlainOptions, schemas: AvroSchemas) -> tuple[str, str] | None:
    """The option at fault and its fault; None if there is none."""
    if (schemas.registry is None) == (schemas.schema_file is None):
        return "", "give exactly one of `registry` and `schema_file`"
    if plain.key_format == "avro" and schemas.registry is None:
        return "key_format", "keys in Avro name their schema in a `registry`, which is not given"
    return plain_problem(plain)
