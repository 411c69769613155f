"""Columns that a rule declares against those that the events of a source table have."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import SURE, nearest
from pipelines.config.table_rules import TargetRule

log = logging.getLogger(__name__)


def check_declared(rule: TargetRule, columns: Collection[str], topic: str, identifier: str, is_new: bool) -> None:
    """Warn of declared columns that are not among the ``columns`` of the events: they would be NULL in every row.

    Where a new table would get a misspelt column, and no other source table is to bring it, ConfigError instead. Where
    several source tables meet, each brings a part: only what looks misspelt is told.
    """
    for name in rule.column_types:
        if name in columns:
            continue
        meant = _meant(name, (c for c in columns if c not in rule.column_types))
        text = f"table {identifier}: column {name!r} is declared under columns.types, but the events of {topic} lack it"
        if rule.merge_sources is not None and meant is None:  # another source table may bring it
            continue
        if meant is not None and is_new and rule.merge_sources is None:
            raise ConfigError(f"{text}; did you mean {meant!r}? They have: {', '.join(columns)}")
        hint = "" if meant is None else f"; did you mean {meant!r}?"
        log.warning("%s: it stays NULL until a source sends it%s", text, hint)


def _meant(name: str, columns: Iterable[str]) -> str | None:
    """The column that ``name`` is a slip of; names that differ in their numbers are names of different things."""
    return nearest(name, (column for column in columns if _digits(column) == _digits(name)), at_least=SURE)


def _digits(name: str) -> str:
    return re.sub(r"\D", "", name)
