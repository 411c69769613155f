"""Bad records of a pipeline by table and kind of reason: since the start, and in the quarantine now.

Batches report the first count. ``http.open_records`` computes the second in the background, from time to time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pipelines.views.table_views import BadGroup
from sources.changes import SourceTable
from sources.wording import bad_reason

GROUPS_KEPT = 100
"""Groups that are counted apart; records of further ones are counted together."""

OTHER_TABLES, OTHER_REASONS = "other tables", "other reasons"

Group: TypeAlias = tuple[str, str]
"""Table and kind of reason."""

TableOf: TypeAlias = Callable[[str, tuple[str | None, str | None, str] | None], str]
"""The table of a bad record, by its topic and the names of the source table that it has."""


class BadCounts:
    """Callers hold a lock."""

    def __init__(self) -> None:
        self._put_aside: Counter[Group] = Counter()
        self._open: Mapping[Group, int] = {}
        self.counted_s: float | None = None

    def add(self, bad_kinds: Mapping[tuple[str, SourceTable | None, str], int], table_of: TableOf) -> Counter[Group]:
        """A batch has put these aside, by topic, source table and kind of reason; gives them by group."""
        added: Counter[Group] = Counter()
        for (topic, source, reason), count in bad_kinds.items():
            names = None if source is None else (source.database, source.schema, source.table)
            added[table_of(topic, names), reason] += count
        for group, count in added.items():
            is_full = group not in self._put_aside and len(self._put_aside) >= GROUPS_KEPT
            self._put_aside[(OTHER_TABLES, OTHER_REASONS) if is_full else group] += count
        return added

    def put_open(self, groups: Mapping[Group, int], time_s: float) -> None:
        """The quarantine held these when a count began at ``time_s``."""
        most = Counter(groups).most_common(GROUPS_KEPT)
        rest = sum(groups.values()) - sum(count for _, count in most)
        self._open = dict(most) | ({(OTHER_TABLES, OTHER_REASONS): rest} if rest else {})
        self.counted_s = time_s

    def groups(self) -> tuple[BadGroup, ...]:
        """All groups, by table."""
        is_counted = self.counted_s is not None
        found = [
            BadGroup(
                table,
                reason,
                bad_reason(reason),
                self._put_aside.get((table, reason), 0),
                self._open.get((table, reason), 0) if is_counted else None,
            )
            for table, reason in {**self._put_aside, **self._open}
        ]
        return tuple(sorted(found, key=lambda one: (one.table, -(one.open or 0), -one.put_aside, one.reason)))
