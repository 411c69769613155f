"""JSON documents that other versions of Tidemark read too: commands and pipelines are not upgraded at the same moment.

A version ignores fields that it does not know, and drops them when it rewrites the document. So a field may be added if
older versions work correctly without it. A change that they would misread gets a higher ``$format``. A version refuses
formats beyond its own, and reports that it is the older one.

No name of a topic, a table or a field of Tidemark begins with ``$``. Documents without ``$format`` have format 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any, ClassVar, Protocol, TypeVar

from paimon_table.errors import UnsupportedFeature

FORMAT = "$format"
NEWEST = 1
"""The highest format that this version reads."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


T = TypeVar("T", bound=_Dataclass)


def check_format(data: bytes, what: str) -> None:
    """UnsupportedFeature where a newer Tidemark has written the document, in a form that this one does not know.

    ``what`` names the file. Raises ValueError or the like for text that is not JSON.
    """
    document = json.loads(data)
    format_ = document.get(FORMAT, NEWEST) if isinstance(document, dict) else NEWEST
    if type(format_) is not int:
        raise TypeError(f"{FORMAT} is not a number")
    if format_ > NEWEST:
        raise UnsupportedFeature(
            f"{what} was written by a newer Tidemark (format {format_}; this version reads up to {NEWEST}): upgrade "
            f"Tidemark to the version that wrote it"
        ).without_values()


def known_fields(kind: type[T], document: Mapping[str, Any]) -> dict[str, Any]:
    """The values in a document for the fields of ``kind``; fields of newer versions are left out."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in document.items() if name in names}
