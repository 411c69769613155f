"""The Avro converter of Apicurio as a plugin of Kafka Connect; it registers schemas and writes Confluent's framing."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from tests.stack.apicurio import Apicurio
from tests.stack.jars import resolve

CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"
_OF_CONNECT = ("connect-", "kafka-clients-", "slf4j-", "lz4-", "snappy-", "zstd-")
"""Jars that the worker has itself; a plugin with others of its own would not fit it."""


def converter_plugins(directory: Path) -> Path:
    """An entry for ``plugin.path`` with the converter. StackUnavailable if its jars cannot be had."""
    plugin = directory / "plugins" / "avro-converter"
    plugin.mkdir(parents=True)
    for jar in resolve("avro-converter").rglob("*.jar"):
        if not jar.name.startswith(_OF_CONNECT):
            os.symlink(jar, plugin / jar.name)
    with zipfile.ZipFile(plugin / "services.jar", "w") as services:  # the worker finds plugins by these files
        services.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", f"{CONVERTER}\n")
    return plugin.parent


def converter_settings(registry: Apicurio) -> dict[str, str]:
    """Properties of a connector that writes keys and values in Avro."""
    settings = {
        "registry.url": f"{registry.address}/apis/registry/v2", "registry.auto-register": "true",
        "registry.find-latest": "true", "registry.headers.enabled": "false", "registry.as-confluent": "true",
        "registry.use-id": "contentId",
    }  # fmt: skip
    found = {"schema.name.adjustment.mode": "avro"}
    for part in ("key", "value"):
        found |= {f"{part}.converter": CONVERTER, f"{part}.converter.schemas.enable": "true"}
        found |= {f"{part}.converter.apicurio.{name}": value for name, value in settings.items()}
    return found
