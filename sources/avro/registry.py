"""Looks up schemas by their names in records, in a registry or in files.

A schema is requested once. The schema of a name never changes, so the process caches it by registry and name. After a
while it asks again for names that a registry does not know: a record may be ahead of a replica of the registry.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from paimon_table.errors import ConfigError, MalformedRecord
from sources.avro.framing import SchemaRef
from sources.avro.registry_client import Found, RegistryClient
from sources.avro.registry_settings import RegistrySettings
from sources.avro.writer_schema import Node, read_writer_schema

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SchemaLanguage(Generic[T_co]):
    """A language of schemas: its name in a registry, the requested form, and its parser.

    ``read`` gets the text of a schema, and names and texts of those that it refers to.
    """

    word: str
    title: str
    form: str
    read: Callable[[str, Sequence[tuple[str, str]]], T_co]


AVRO: SchemaLanguage[Node] = SchemaLanguage(
    "AVRO", "Avro", "", lambda text, references: read_writer_schema(text, [inner for _, inner in references])
)

_UNKNOWN_FOR_S = 30.0
_MOST_UNKNOWN = 10_000
_FILE_ENDINGS = (".avsc", ".json")


class SchemaSource(Protocol):
    """A source of schemas."""

    def find(self, ref: SchemaRef, form: str) -> Found:
        """The text of a schema in a form. Raises MalformedRecord for an unknown one, Outage if no registry answers."""
        ...


class Registry(Generic[T]):
    """The schemas of one registry in one language, as the process knows them."""

    def __init__(self, settings: RegistrySettings, source: SchemaSource, language: SchemaLanguage[T]) -> None:
        self._name = settings.name
        self._language = language
        self._source = source
        self._lock = threading.Lock()
        self._known: dict[SchemaRef, T | MalformedRecord] = {}
        self._unknown: OrderedDict[SchemaRef, tuple[float, MalformedRecord]] = OrderedDict()

    def schema(self, ref: SchemaRef) -> T:
        """The schema of a name.

        Raises MalformedRecord for an unknown name and for a schema of another language. Raises Outage while the
        registry does not answer, and ConfigError if it refuses the settings.
        """
        with self._lock:
            found = self._known.get(ref) or self._still_unknown(ref)
            if found is None:
                found = self._asked(ref)
        if isinstance(found, MalformedRecord):
            raise found.told(str(found))  # each with a trace of its own
        return found

    def _still_unknown(self, ref: SchemaRef) -> MalformedRecord | None:
        since, error = self._unknown.get(ref, (None, None))
        return error if since is not None and time.monotonic() - since < _UNKNOWN_FOR_S else None

    def _asked(self, ref: SchemaRef) -> T | MalformedRecord:
        try:
            text = self._source.find(ref, self._language.form)
        except MalformedRecord as error:
            self._unknown.pop(ref, None)
            self._unknown[ref] = (time.monotonic(), error)
            if len(self._unknown) > _MOST_UNKNOWN:
                self._unknown.popitem(last=False)
            return error
        self._known[ref] = self._parsed(ref, text)
        return self._known[ref]

    def _parsed(self, ref: SchemaRef, found: Found) -> T | MalformedRecord:
        if found.kind not in (self._language.word, ""):
            return MalformedRecord(f"{ref} of {self._name} is of type {found.kind}, not {self._language.title}")
        try:
            return self._language.read(found.text, found.references)
        except MalformedRecord as error:
            return MalformedRecord(f"{ref} of {self._name} cannot be used: {error}")


class SchemaFiles:
    """Schemas in a JSON file, or in a directory with one file each."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._path = Path(place.removeprefix("file://"))
        self._texts: Mapping[str, str] = {}

    def find(self, ref: SchemaRef, form: str) -> Found:
        text = self._texts.get(ref.value)
        if text is None:
            self._texts = self._read()  # a schema may have been added
            text = self._texts.get(ref.value)
        if text is None:
            raise MalformedRecord(f"{ref} is not in registry.file {self._place}")
        return Found(text, "")

    def _read(self) -> Mapping[str, str]:
        try:
            if self._path.is_dir():
                files = sorted(path for path in self._path.iterdir() if path.suffix in _FILE_ENDINGS)
                return {path.stem: path.read_text(encoding="utf-8") for path in files}
            schemas = json.loads(self._path.read_text(encoding="utf-8"))["schemas"]
            return {str(name): _text_of(schema) for name, schema in schemas.items()}
        except OSError as error:
            raise ConfigError(f"registry.file {self._place} cannot be read: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f'registry.file {self._place} is not a JSON object {{"schemas": {{"1": ...}}}}: write one, or name a'
                " directory with a file per schema, such as 1.avsc"
            ) from error


def _text_of(schema: Any) -> str:
    """The text of a schema. A file may have a JSON schema as its JSON, and any schema as in a registry's answer."""
    if isinstance(schema, Mapping) and isinstance(schema.get("schema"), str):
        return str(schema["schema"])
    return json.dumps(schema)


_REGISTRIES: dict[tuple[RegistrySettings, str], Registry[Any]] = {}
_LOCK = threading.Lock()


def registry_of(settings: RegistrySettings, language: SchemaLanguage[T]) -> Registry[T]:
    """The registry of the settings, one per process and language."""
    name = (settings, language.word)
    with _LOCK:
        if name not in _REGISTRIES:
            client = RegistryClient(settings) if settings.file is None else SchemaFiles(settings.file)
            _REGISTRIES[name] = Registry(settings, client, language)
        return cast("Registry[T]", _REGISTRIES[name])
