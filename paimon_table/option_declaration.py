"""The facts about one option: its name, how its text is read, and how readers, ALTER TABLE and pipelines treat it.

An option is declared once, next to its typed value or the code that uses it. All tables of options derive from the
declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from paimon_table.errors import ConfigError
from paimon_table.option_values import Parser

_T = TypeVar("_T")

# ---------------------------------------------------------------- whether an option may change later


@dataclass(frozen=True, slots=True)
class OptionChange:
    """A change of an option (None: reset) in a table that has data."""

    name: str
    old: str | None
    new: str | None
    options: Mapping[str, str]
    """All options of the table before the change."""


ChangeRule = Callable[[OptionChange], None]
"""Checks a change; raises ConfigError if the data of a table does not allow it."""


def freely(change: OptionChange) -> None:
    """Every change is allowed."""


def never(change: OptionChange) -> None:
    """No change is allowed, because data is correct only under the value with which it was written."""
    raise ConfigError(
        f"option {change.name!r} cannot change once the table holds data; {_stay(change.old)}", option=change.name
    )


def _stay(old: str | None) -> str:
    return "leave it unset" if old is None else f"keep {old}"


def stays_true(change: OptionChange) -> None:
    """A change from true to false is refused, because data left out while it was true is missing."""
    if (change.old or "").lower() == "true":
        raise ConfigError(
            f"option {change.name!r} cannot change from true to false once the table holds data; keep true",
            option=change.name,
        )


_OTHERWISE = "'tidemark table rescale' rewrites a table with a primary key, without one write into a new table"


def only_to_a_number(change: OptionChange) -> None:
    """Only from one number of at least 1 to another is allowed; -1 and no value mean another kind of table."""
    wrong = None
    if change.new is None:
        wrong = "cannot be reset once the table holds data; set a number"
    elif (change.old or "-1").strip() == "-1":
        wrong = f"cannot change when it is -1; {_OTHERWISE}"
    elif change.new.strip() == "-1":
        wrong = f"cannot change to -1 once the table holds data; {_OTHERWISE}"
    if wrong is not None:
        raise ConfigError(f"option {change.name!r} {wrong}", option=change.name)


# ---------------------------------------------------------------- the columns that a value names


def listed(value: str) -> tuple[str, ...]:
    """Comma-separated names, without blanks around them."""
    return tuple(name for part in value.split(",") if (name := part.strip()))


def single(value: str) -> tuple[str, ...]:
    """One name."""
    name = value.strip()
    return (name,) if name else ()


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Need:
    """Another option without which the declared one has no effect."""

    option: str
    values: tuple[str, ...] = ()
    """The values in lower case; an empty set means any stated value."""


@dataclass(frozen=True, slots=True)
class Meant:
    """The range of sensible numbers; others are accepted too."""

    values: range
    otherwise: str
    """The addition to the message for another number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All facts about one option."""

    name: str
    parse: Parser
    default: Any = None
    aliases: tuple[str, ...] = ()
    """Older names, which count if ``name`` is not set."""
    change: ChangeRule = freely
    is_read: bool = False
    """Whether readers that do not know the option misread the rows of a table."""
    needs: Need | None = None
    columns: Callable[[str], tuple[str, ...]] | None = None
    """The columns that a value names; None for options that name none."""
    meant: Meant | None = None
    follows: str | None = None
    """The option from which the default derives."""
    waits_for_compaction: tuple[str, ...] | None = None
    """The values with which only compaction completes the rows of a batch; empty for any value; None if it never
    does."""
    with_key: bool | None = None
    """Whether only tables with a primary key use it, or only those without; None for both."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def deciding_names(self) -> tuple[str, ...]:
        """The options that decide the value, the more direct ones first."""
        return self.names if self.follows is None else (*self.names, self.follows)

    def stated_as(self, options: Container[str]) -> str | None:
        """The name under which ``options`` set the option; None if they do not."""
        return next((name for name in self.names if name in options), None)

    def value_in(self, options: Mapping[str, str]) -> Any:
        """The typed value; raises ConfigError if its text cannot be parsed."""
        name = self.stated_as(options)
        return self.default if name is None else self.parse(name, options[name])


# ---------------------------------------------------------------- typed options: dataclasses whose fields are options


def option(
    name: str,
    parse: Callable[[str, str], _T],
    default: _T,
    *aliases: str,
    change: ChangeRule = freely,
    read: bool = False,
    needs: Need | None = None,
    columns: Callable[[str], tuple[str, ...]] | None = None,
    meant: Meant | None = None,
    follows: str | None = None,
    waits: tuple[str, ...] | None = None,
    with_key: bool | None = None,
) -> _T:
    """A field of an options dataclass; the parameters are the facts of ``Declaration``."""
    declaration = Declaration(
        name=name,
        parse=parse,
        default=default,
        aliases=aliases,
        change=change,
        is_read=read,
        needs=needs,
        columns=columns,
        meant=meant,
        follows=follows,
        waits_for_compaction=waits,
        with_key=with_key,
    )
    value: _T = field(default=default, metadata={_DECLARATION: declaration})
    return value


_DECLARATION = "declaration"


def declared_in(owner: type[Any]) -> Mapping[str, Declaration]:
    """The declarations of a dataclass of options by the names of its fields, in their order."""
    return {f.name: f.metadata[_DECLARATION] for f in fields(owner) if _DECLARATION in f.metadata}
