"""How a format declares its options: as fields of frozen dataclasses.

The reader of pipeline files takes name, form, default and meaning of an option from its field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, TypeAlias

Check: TypeAlias = Callable[[str], str | None]
"""Why a text cannot be the value of an option; None if it can."""

Form: TypeAlias = Literal["text", "characters", "secret", "location", "duration", "texts", "group"]
"""The forms of option values.

A text; one that may be blank, such as a tab; one that no message or log may show; the place of a file; a time with its
unit (timedelta); one text or a list of them; a group of options.
"""

Problem: TypeAlias = Callable[..., "tuple[str, str] | None"]
"""From filled groups of options to the wrong option (or "") and its fault; None if there is none."""


@dataclass(frozen=True, slots=True)
class FormatOption:
    """One option as a pipeline file gives it."""

    name: str
    default: Any
    description: str
    words: tuple[str, ...]
    """The valid texts; empty: any text."""
    check: Check | None = None
    form: Form = "text"
    group: type | None = None
    """The dataclass whose fields are the options inside of a group."""
    problem: Problem | None = None
    """The check of a filled group."""

    @property
    def shown(self) -> str:
        """Its value as it appears in a pipeline file."""
        return "[...]" if self.form == "texts" else "{...}" if self.group is not None else "..."

    @property
    def is_needed(self) -> bool:
        """Whether a pipeline file must give it."""
        return self.default is MISSING


def option(default: str, description: str, *others: str, check: Check | None = None) -> Any:
    """A field of a dataclass that is an option; with ``others`` it takes these words and ``default`` only.

    ``check`` looks at the text that a pipeline file gives.
    """
    words = (default, *others) if others else ()
    return field(default=default, metadata={"description": description, "words": words, "check": check})


def time_zone_problem(text: str) -> str | None:
    """A check of options that take a time zone, an offset, or `unknown`."""
    # Checked with the library that converts the times, which has its own table of zones.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if text != "unknown":
            pc.assume_timezone(pa.scalar(0, pa.timestamp("s")), text)
    except pa.ArrowException:
        return f"{text!r} is not a time zone; give a name such as Asia/Shanghai, an offset such as +08:00, or unknown"
    return None


def option_of_form(form: Form, default: Any, description: str) -> Any:
    """A field that is an option of a form other than text, or an optional text (None).

    The default ``...`` marks an option that a pipeline file must give.
    """
    metadata = {"description": description, "words": (), "form": form}
    return field(default=MISSING if default is ... else default, repr=form != "secret", metadata=metadata)


def option_group(group: type, description: str, problem: Problem, *, is_needed: bool = True) -> Any:
    """A field with a filled ``group`` of options, which a pipeline file must give; or None if it is optional."""
    metadata = {"description": description, "words": (), "form": "group", "group": group, "problem": problem}
    return field(metadata=metadata) if is_needed else field(default=None, metadata=metadata)


def options_of(declared: type) -> tuple[FormatOption, ...]:
    """The options that the fields of a dataclass declare."""
    return tuple(_option(f) for f in fields(declared))


def _option(declared: Field[Any]) -> FormatOption:
    said = declared.metadata
    inner = (said.get("check"), said.get("form", "text"), said.get("group"), said.get("problem"))
    return FormatOption(declared.name, declared.default, said["description"], said["words"], *inner)


def filled(declared: type, given: Any) -> Any:
    """The dataclass filled with the given options, by name; the options of a group are a nested mapping."""
    values: dict[str, Any] = {}
    for one in options_of(declared):
        if one.name in given:
            value = given[one.name]
            values[one.name] = value if one.group is None or value is None else filled(one.group, value)
    return declared(**values)
