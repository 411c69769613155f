"""The changes that a rule makes to the schema of its table: published, or tried for what the table refuses."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_table import SchemaChange, Table, apply_changes, validate_changed_table
from paimon_table.options.option_parsing import options_of

_LOG = logging.getLogger(__name__)
_SILENT = logging.Logger(f"{__name__}.tried", logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """How one table is to follow its rule."""

    pipeline: str
    identifier: str
    time_ms: int
    publishes: bool = True
    """Else nothing is written and nothing is logged: there is the table as it would be, or its refusal."""

    @property
    def log(self) -> logging.Logger:
        return _LOG if self.publishes else _SILENT

    def made(self, table: Table, changes: Sequence[SchemaChange]) -> Table:
        """The table with the changes; what ``Table.evolve`` raises."""
        if self.publishes:
            return table.evolve(changes, self.time_ms)
        has_snapshots = table.snapshots.latest_id() is not None
        schema = apply_changes(table.schema, changes, self.time_ms, has_snapshots)
        validate_changed_table(schema, table.schema)
        return replace(table, context=replace(table.context, schema=schema, options=options_of(schema)))
