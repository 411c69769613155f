"""The columns that Tidemark fills: the option that adds each, and the statements that a file must not make about
them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from paimon_table.errors import ConfigError
from paimon_table.option_declaration import listed
from paimon_table.options.names import KEEP_DELETES, SEQUENCE_FIELD
from pipelines.config.table_rules import TargetRule
from sources.change_columns import CHANGE_COLUMNS

NAME_OF_CHANGES = "Tidemark uses this name internally; rename the column in the connector"

_VERSIONS = "name its columns (`history: {scd2: {valid_from: ..., valid_to: ..., is_current: ...}}`)"
_DELETES = "name another column (`history: {soft_delete: {column: ...}}`)"


@dataclass(frozen=True, slots=True)
class Maker:
    """The option that makes a column."""

    option: str
    naming: str | None = None
    """How it is given another name; None if it has always the same."""
    is_apart: bool = False
    """Whether rows may have a column of the source under the same name until they are stored."""


def makers(rule: TargetRule) -> dict[str, Maker]:
    """The makers of the columns that Tidemark fills, by their names."""
    found = dict.fromkeys(dict(rule.event_columns), Maker("on_change: log", is_apart=True))
    if rule.deleted_at is not None:
        found[rule.deleted_at] = Maker("history: soft_delete", _DELETES)
    if rule.versions is not None:
        found |= dict.fromkeys(rule.versions.names, Maker("history: scd2", _VERSIONS))
    order = "order_by: source_position" if rule.orders_by_position else KEEP_DELETES
    return found | dict.fromkeys(dict(rule.order_columns), Maker(order))


def name_of_own(rule: TargetRule, name: str) -> str:
    """Why no other column can have the name of one that Tidemark fills."""
    maker = makers(rule)[name]
    way = "rename the column (`columns.rename`)"
    if not maker.is_apart:
        way = maker.naming or "rename the column in the connector, or drop it (`columns.drop`)"
    return f"`{maker.option}` stores its own values under this name; {way}"


def twin_of_own(rule: TargetRule, name: str) -> str | None:
    """The problem with a column whose name differs only in case from one that Tidemark fills; None if there is none.

    If the file declares the type of such a column, the table gets both.
    """
    own = makers(rule)
    twin = next((other for other in own if other.casefold() == name.casefold()), None)
    if twin is None or name in own or name in rule.column_types:
        return None
    return (
        f"its name differs only in case from column {twin!r}, which `{own[twin].option}` fills, and readers such "
        "as Spark cannot distinguish them. Rename it (`columns.rename`), drop it (`columns.drop`), or declare "
        "its type under columns.types to keep both"
    )


def taken_name(rule: TargetRule) -> tuple[tuple[str, str, str], str] | None:
    """Where a rule fills such a column too, or names a column as none may be called, and the problem; or None."""
    columns, own = rule.columns, makers(rule)
    stored: Mapping[str, Mapping[str, str]] = {
        "types": {name: name for name in rule.column_types},
        "add": {name: name for name in columns.add},
        "replace": {name: columns.rename.get(name, name) for name in columns.replace},
        "mask": {name: columns.rename.get(name, name) for name in columns.mask},
        "rename": columns.rename,
    }
    for block, names in stored.items():
        for key, name in names.items():
            if name in own:
                return ("columns", block, key), name_of_own(rule, name)
            used = next((one for one in (key, name) if one in CHANGE_COLUMNS), None)
            twin = twin_of_own(rule, name)
            if twin is not None:
                return ("columns", block, key), f"column {name!r}: {twin}"
            if used is not None:
                return ("columns", block, key), f"column {used!r}: {NAME_OF_CHANGES}, or take another name"
    for key in columns.rename:
        if key in own and not own[key].is_apart:
            return ("columns", "rename", key), name_of_own(rule, key)
    return None


def ordering_own_column(rule: TargetRule, options: Mapping[str, str]) -> str | None:
    """If these options order rows by a column that Tidemark fills: why that is not possible."""
    if rule.orders_by_position:
        return None
    own = makers(rule)
    name = next((name for name in listed(options.get(SEQUENCE_FIELD, "")) if name in own), None)
    if name is None:
        return None
    return (
        f"option '{SEQUENCE_FIELD}' orders rows by column {name!r}, which `{own[name].option}` fills and no "
        "record has. Name a source column that shows which row is newer, or remove the option"
    )


def check_inputs(rule: TargetRule, source: str, hidden: Iterable[str]) -> None:
    """Raise ConfigError for a column of the source that expressions need, under the name of one that Tidemark fills."""
    own = makers(rule)
    for name in hidden:
        if name in CHANGE_COLUMNS:
            raise ConfigError(f"rule into {rule.into}: expressions need column {name!r} of {source}: {NAME_OF_CHANGES}")
        if name in own and not own[name].is_apart:
            raise ConfigError(
                f"rule into {rule.into}: expressions need column {name!r} of {source}: {name_of_own(rule, name)}"
            )


def check_means_source(rule: TargetRule, source: str, shown: Collection[str]) -> None:
    """Raise ConfigError if the rule renames or drops a column that it makes, and not one that the records have."""
    made = makers(rule) | dict.fromkeys(rule.columns.add, Maker("columns.add", "give it another name there"))
    for block, names in (("rename", rule.columns.rename), ("drop", rule.columns.drop)):
        for name in names:
            if name in made and name not in shown:
                way = f", and {made[name].naming}" if made[name].naming else ""
                raise ConfigError(
                    f"rule into {rule.into}: columns.{block}: records of {source} have no column {name!r}, and "
                    f"you cannot change the one that `{made[name].option}` adds: remove {name!r} there{way}"
                )
