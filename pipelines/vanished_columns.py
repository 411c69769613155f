"""Columns that events do not have any more: the only trace of a dropped column or of a table that was made anew.

No source gives its tables an identity in the events, so which of the two it was cannot be told.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pipelines.table_rules import TargetRule

log = logging.getLogger(__name__)


class VanishedColumns:
    """What was said already, so that each loss is said once per process."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def note(self, topic: str, identifier: str, rule: TargetRule, absent: Sequence[str]) -> None:
        """Warn of the columns of a table that the newest events of its topic lack.

        Declared columns may be still to come; where several source tables meet, the others may bring them.
        """
        if rule.merge_sources is not None:
            return
        news = [
            name for name in absent if name not in rule.column_types and (topic, identifier, name) not in self._told
        ]
        if not news:
            return
        self._told |= {(topic, identifier, name) for name in news}
        log.warning(
            "%s: its events have no column %s any more, which table %s has: the column was dropped or renamed, or the"
            " source table was dropped and made anew. Rows from now on have NULL there; of a table made anew the old"
            " rows stay here: write it into a new table (another `into`)",
            topic,
            ", ".join(news),
            identifier,
        )
