"""Columns that events do not have any more: the only trace of a dropped column or of a table that was made anew.

No source gives its tables an identity in the events, so which of the two it was cannot be told.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipelines.config.table_rules import TargetRule
from sources.changes import NewestRow, SourceTable

log = logging.getLogger(__name__)


class VanishedColumns:
    """What was said already, so that each loss is said once per process, and the newest row of every partition."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()
        self._newest: defaultdict[SourceTable, dict[int, NewestRow]] = defaultdict(dict)

    def lacking(self, rows: Iterable[NewestRow]) -> dict[SourceTable, list[str]]:
        """The columns that the source tables of a batch have lost, from what its tasks saw of them.

        Partitions are read at different paces, so events from before ALTER TABLE ... ADD COLUMN come after those that
        have the column. A column is lost if the newest row of each partition in the batch lacks it, and those of other
        partitions that were produced later.
        """
        batch: defaultdict[SourceTable, dict[int, NewestRow]] = defaultdict(dict)
        for row in rows:
            known = batch[row.source].get(row.partition)
            if known is None or known.offset < row.offset:
                batch[row.source][row.partition] = row
        found: dict[SourceTable, list[str]] = {}
        for source, of_batch in batch.items():
            until = max(row.timestamp_ms or 0 for row in of_batch.values())
            later = [row for row in self._newest[source].values() if (row.timestamp_ms or 0) > until]
            self._newest[source].update(of_batch)
            first, *others = [*of_batch.values(), *later]
            found[source] = [name for name in first.absent if all(name in row.absent for row in others)]
        return found

    @staticmethod
    def lost(rule: TargetRule, absent: Sequence[str], *, is_only_source: bool) -> list[str]:
        """Those of the columns ``absent`` from the newest events that no later event is expected to bring."""
        if rule.merge_sources is not None or not is_only_source:
            return []
        return [name for name in absent if name not in rule.column_types]

    def note(
        self, topic: str, identifier: str, rule: TargetRule, absent: Sequence[str], *, is_only_source: bool
    ) -> None:
        """Warn of the columns of a table that the newest events of its topic lack.

        Declared columns may be still to come; where several source tables meet, as in one log of many, the others may
        bring them.
        """
        lost = self.lost(rule, absent, is_only_source=is_only_source)
        news = [name for name in lost if (topic, identifier, name) not in self._told]
        if not news:
            return
        self._told |= {(topic, identifier, name) for name in news}
        log.warning(
            "%s: its events have no column %s any more, which table %s has. If the column was dropped or renamed, new"
            " rows have NULL there. If the source table was dropped and recreated, its old rows stay: write it into a"
            " new table (another `into`)",
            topic,
            ", ".join(news),
            identifier,
        )
