"""The changes of a rule to an existing table: decided without writing, published as one schema version."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from paimon_table import SchemaChange, Table, apply_changes, validate_changed_table
from paimon_table.options.option_parsing import options_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RulePlan:
    """How one table follows its rule; built step by step."""

    pipeline: str
    identifier: str
    time_ms: int
    there: Table
    """The table before the changes."""
    changes: list[SchemaChange] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    """Log lines about the changes, by level."""
    table: Table = field(init=False)
    """The table with the changes so far."""

    def __post_init__(self) -> None:
        self.table = self.there

    def add(self, changes: Sequence[SchemaChange], line: str | None = None) -> None:
        """Add changes, and a line about them. Raises what ``Table.evolve`` would raise, and then adds nothing."""
        has_snapshots = self.table.snapshots.latest_id() is not None
        schema = apply_changes(self.table.schema, changes, self.time_ms, has_snapshots)
        validate_changed_table(schema, self.table.schema)
        self.table = replace(self.table, context=replace(self.table.context, schema=schema, options=options_of(schema)))
        self.changes += changes
        if line is not None:
            self.lines.append((logging.INFO, line))

    def warn(self, line: str) -> None:
        self.lines.append((logging.WARNING, line))

    def published(self) -> Table:
        """The table after the changes."""
        table = self.there.evolve(self.changes, self.time_ms) if self.changes else self.there
        for level, line in self.lines:
            log.log(level, "%s", line)
        return table
