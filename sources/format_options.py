"""How a format of records declares its options: as fields of frozen dataclasses.

Whoever reads pipeline files takes name, words, default and meaning of an option from its field.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class FormatOption:
    """One option as a pipeline file gives it."""

    name: str
    default: str
    description: str
    words: tuple[str, ...]
    """The values that it may have; none stands for any text."""


def option(default: str, description: str, *others: str) -> Any:
    """A field of a dataclass that is an option; with ``others`` it takes these words and ``default`` only."""
    words = (default, *others) if others else ()
    return field(default=default, metadata={"description": description, "words": words})


def options_of(declared: type) -> tuple[FormatOption, ...]:
    """The options that the fields of a dataclass declare."""
    return tuple(_option(f) for f in fields(declared))


def _option(declared: Field[Any]) -> FormatOption:
    return FormatOption(
        declared.name, str(declared.default), declared.metadata["description"], declared.metadata["words"]
    )
