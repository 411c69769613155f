"""The options of Protocol Buffers."""

from __future__ import annotations

from dataclasses import dataclass

from sources.avro.registry_settings import RegistrySettings, settings_problem
from sources.format_options import option_group, option_of_form
from sources.plain.options import PlainOptions, plain_problem


@dataclass(frozen=True, slots=True)
class ProtobufSchemas:
    """The source of the values' message types: a registry, by the names in the records, or one file."""

    registry: RegistrySettings | None = option_group(  # noqa: RUF009  a field, as those below
        RegistrySettings,
        "The registry with the schemas that records name. It must serve them in binary form (`?format=serialized`), as"
        " Confluent's and Redpanda's do.",
        settings_problem,
        is_needed=False,
    )
    descriptor_file: str | None = option_of_form(
        "location",
        None,
        "Instead of `registry`: a file that `protoc --include_imports --descriptor_set_out` has written. Every "
        "machine that decodes needs access to it.",
    )
    message: str | None = option_of_form(
        "text", None, "With `descriptor_file`: the full name of the values' message, such as `shop.Order`."
    )


def protobuf_problem(plain: PlainOptions, schemas: ProtobufSchemas) -> tuple[str, str] | None:
    """The option at fault and its fault; None if there is none."""
    if (schemas.registry is None) == (schemas.descriptor_file is None):
        return "", "give exactly one of `registry` and `descriptor_file`"
    if schemas.descriptor_file is not None and schemas.descriptor_file.endswith(".proto"):
        name = schemas.descriptor_file.rpartition("/")[2]
        command = f"protoc --include_imports --descriptor_set_out={name.removesuffix('.proto')}.desc {name}"
        return "descriptor_file", f"{name} is source text; name the file that `{command}` writes"
    if schemas.descriptor_file is not None and schemas.message is None:
        return "descriptor_file", "`descriptor_file` needs `message`, the full name of the message that values are"
    if schemas.descriptor_file is None and schemas.message is not None:
        return "message", "`message` has no effect with `registry`, where records name their message; remove it"
    return plain_problem(plain)
