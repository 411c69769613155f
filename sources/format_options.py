"""How a format of records declares its options: as fields of frozen dataclasses.

Whoever reads pipeline files takes name, words, default and meaning of an option from its field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[str], str | None]
"""Why a text cannot be the value of an option; None if it can."""


@dataclass(frozen=True, slots=True)
class FormatOption:
    """One option as a pipeline file gives it."""

    name: str
    default: str
    description: str
    words: tuple[str, ...]
    """The values that it may have; none stands for any text."""
    check: Check | None = None


def option(default: str, description: str, *others: str, check: Check | None = None) -> Any:
    """A field of a dataclass that is an option; with ``others`` it takes these words and ``default`` only.

    ``check`` looks at the text that a pipeline file gives.
    """
    words = (default, *others) if others else ()
    return field(default=default, metadata={"description": description, "words": words, "check": check})


def time_zone_problem(text: str) -> str | None:
    """A check of options that name a time zone or its offset, or say that it is ``unknown``."""
    # Asked of the library that moves the times: it has a table of zones of its own.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if text != "unknown":
            pc.assume_timezone(pa.scalar(0, pa.timestamp("s")), text)
    except pa.ArrowException:
        return f"{text!r} is no time zone; give a name such as Asia/Shanghai, an offset such as +08:00, or unknown"
    return None


def options_of(declared: type) -> tuple[FormatOption, ...]:
    """The options that the fields of a dataclass declare."""
    return tuple(_option(f) for f in fields(declared))


def _option(declared: Field[Any]) -> FormatOption:
    meta = declared.metadata
    return FormatOption(declared.name, str(declared.default), meta["description"], meta["words"], meta["check"])
