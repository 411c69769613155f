"""What the log says when dump files bring records of offsets that were read before.

Kafka gives each offset once, in order; files give what is in them. A record that two files hold is applied twice, and
one that comes behind later ones takes their place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sinks.commit.positions import TopicPartition
from sinks.commit.table_sink import TableSink
from sources.positions import ReadOffsets

log = logging.getLogger(__name__)

_REMEDY = (
    "A record that two files hold is applied twice: sums and tables without primary key count it twice, and an older"
    " row replaces a newer one unless the table has a sequence.field. Put each offset into one file, with offsets that"
    " rise with the names of the files. To start over, drop the table and take a new checkpoint"
)


class RepeatedOffsets:
    """Warnings, each once per partition of a topic."""

    def __init__(self) -> None:
        self._told: set[tuple[TopicPartition, bool]] = set()

    def note(
        self, batch_id: int, started_ms: int | None, sink: TableSink, read: Mapping[TopicPartition, ReadOffsets]
    ) -> None:
        """Before the rows of a batch are committed: warn of offsets that are in it twice, or in the table already."""
        for place, offsets in sorted(read.items()):
            if offsets.is_repeated:
                span = offsets.end - offsets.lowest
                many = f"{offsets.count:,} records have {span:,} offsets from {offsets.lowest:,} on"
                self._tell(place, True, f"batch {batch_id}: {many}", sink.identifier)
            before = sink.position.offsets.get(place, 0)
            is_taken_over = sink.position.floors.get(place, 0) >= before  # lower ones are left out
            if offsets.lowest < before and not is_taken_over and not sink.is_appended(batch_id, started_ms):
                late = f"offsets from {offsets.lowest:,} on come when {before - 1:,} was read before"
                self._tell(place, False, f"batch {batch_id}: {late}", sink.identifier)

    def _tell(self, place: TopicPartition, is_twice: bool, text: str, identifier: str) -> None:
        if (place, is_twice) not in self._told:
            self._told.add((place, is_twice))
            log.warning("%s partition %d: %s, for table %s. %s", *place, text, identifier, _REMEDY)
