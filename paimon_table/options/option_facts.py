"""The facts about an option by its name, from all modules that declare options."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_table.file_index.index_options import BLOOM_FILTER_COLUMNS
from paimon_table.option_declaration import ChangeRule, Declaration, declared_in, freely, listed
from paimon_table.options.field_options import declared_setting, named_columns
from paimon_table.options.option_names import KEPT_FOR_OTHERS, REFUSED
from paimon_table.options.retention_options import RetentionOptions
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.schema_options import KEY_OPTIONS, STORED_OPTIONS

TYPED_OPTIONS = (*declared_in(TableOptions).values(), *declared_in(RetentionOptions).values())
"""The options in ``TableOptions``, in its order, with the retention options last."""

ACTED_ON = (*TYPED_OPTIONS, *STORED_OPTIONS, BLOOM_FILTER_COLUMNS)
"""The options of whole tables that affect writing or reading."""

_BY_NAME: Mapping[str, Declaration] = {
    name: declared for declared in (*ACTED_ON, *KEY_OPTIONS) for name in declared.names
}
_TYPED = frozenset(name for declared in TYPED_OPTIONS for name in declared.names)


def declaration(name: str) -> Declaration | None:
    """The declaration of an option of the whole table; None for other names."""
    return _BY_NAME.get(name)


def is_typed(name: str) -> bool:
    """Whether the option has a typed value in ``TableOptions`` itself, unlike families of names."""
    return name in _TYPED


def known_names() -> tuple[str, ...]:
    """Every name that a table's options may have, sorted."""
    declared = (name for option in ACTED_ON for name in option.names)
    return tuple(sorted({*declared, *KEPT_FOR_OTHERS, *REFUSED}))


def change_rule(name: str) -> ChangeRule:
    """The rule for changes of the option in a table that has data."""
    declared = _BY_NAME.get(name) or REFUSED.get(name)
    return freely if declared is None else declared.change


def columns_named_by(name: str, value: str) -> tuple[str, ...]:
    """The columns to which the option ``name`` = ``value`` refers, without blanks around commas."""
    declared = _BY_NAME.get(name) or declared_setting(name)
    in_value = () if declared is None or declared.columns is None else declared.columns(value)
    return (*listed(named_columns(name)), *in_value)
