"""Columns that a rule declares against those that the events of a source table have."""

from __future__ import annotations

import logging
from collections.abc import Collection

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import misspelt_column
from pipelines.config.table_rules import TargetRule

log = logging.getLogger(__name__)


def check_declared(rule: TargetRule, columns: Collection[str], topic: str, identifier: str, is_new: bool) -> None:
    """Warn of declared columns that are not among the ``columns`` of the events: they would be NULL in every row.

    Where a new table would get a misspelt column, and no other source table is to bring it, ConfigError instead. Where
    several source tables meet, each brings a part: only what looks misspelt is told.
    """
    for name in rule.column_types:
        if name in columns or name in rule.columns.paths:
            continue
        meant = misspelt_column(name, (c for c in columns if c not in rule.column_types))
        text = f"table {identifier}: column {name!r} is declared under columns.types, but the events of {topic} lack it"
        if rule.merge_sources is not None and meant is None:  # another source table may bring it
            continue
        if meant is not None and is_new and rule.merge_sources is None:
            raise ConfigError(f"{text}; did you mean {meant!r}? They have: {', '.join(columns)}")
        hint = "" if meant is None else f"; did you mean {meant!r}?"
        log.warning("%s: it stays NULL until a source sends it%s", text, hint)
