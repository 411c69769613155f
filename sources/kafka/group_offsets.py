"""Commits the progress of a pipeline as offsets of a consumer group, so that Kafka's tools show its lag.

Tidemark commits them after the rows are in the tables, and never reads them back: checkpoint and tables decide where
reading continues. So a failure here is only a warning, and nothing waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from paimon_table.errors import TidemarkError
from sources.positions import Place

log = logging.getLogger(__name__)


class GroupOffsets:
    """The offsets of one group. ``commit`` asks Kafka to keep some; used by one thread at a time."""

    def __init__(self, pipeline: str, group_id: str, positions: Callable[[], Mapping[Place, int]]) -> None:
        self._pipeline = pipeline
        self._group_id = group_id
        self._positions = positions
        self._told: Mapping[Place, int] = {}
        self._trouble = ""
        self.failure_count = 0

    @property
    def is_due(self) -> bool:
        """Whether there are offsets that Kafka does not have yet."""
        return bool(self._news())

    def tell(self, commit: Callable[[str, Mapping[Place, int]], None]) -> None:
        """Commit the new offsets to Kafka."""
        news = self._news()
        if not news:
            return
        try:
            commit(self._group_id, news)
        except TidemarkError as error:
            self.failure_count += 1
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("%s: offsets of group %s are not committed: %s", self._pipeline, self._group_id, error)
            return
        if self._trouble:
            log.warning("%s: offsets of group %s are committed again", self._pipeline, self._group_id)
        self._trouble = ""
        self._told = {**self._told, **news}

    def _news(self) -> dict[Place, int]:
        return {place: at for place, at in self._positions().items() if self._told.get(place) != at}
