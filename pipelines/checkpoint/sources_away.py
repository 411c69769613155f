"""Source tables that no rule leads to their table any more: a small file of ours.

The stream goes on and passes their records by, maybe for a table that others still feed. Nothing else remembers that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

from pipelines.checkpoint.behind_marks import moved, places_in
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.document import known_fields
from sinks.commit.positions import FedBy
from sources.positions import Place
from sources.slices import SliceReader

FILE = "tidemark/sources-away.json"


@dataclass(frozen=True, slots=True)
class Since:
    """When a source table went away."""

    batch: int
    """The first batch that passed it by."""
    begin: str | None
    """Where that batch begins, in the text of the source; None: at the first record that there is."""
    with_table: bool = False
    """Whether all sources of the table went then, so that it keeps its place in a mark, and they come back with it."""


Away: TypeAlias = Mapping[str, Mapping[FedBy, Since]]
"""By table: its source tables that are away."""


class SourcesAway:
    """The document of one checkpoint, kept up by the driver."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def read(self) -> Away:
        """What is noted; under a new checkpoint nothing is."""
        return {} if self._checkpoint.is_new else self._checkpoint.document(FILE, _away) or {}

    def move(self, places: Mapping[tuple[str, int], int | None]) -> None:
        """Change where source tables went away in partitions of Kafka, as ``BehindMarks.move`` does for tables."""
        if places:
            self._change(lambda _, since: replace(since, begin=moved(since.begin, places)))

    def places(self) -> set[Place]:
        """The partitions of Kafka that are noted."""
        sinces = [since for sources in self.read().values() for since in sources.values()]
        return {place for since in sinces for place in places_in(since.begin)}

    def lower(self, table: str, known: Collection[Place], reader: SliceReader) -> None:
        """The table was rolled back, to where it had records of the partitions ``known`` alone: it lacks all others.

        These begin at their first records. Of files nothing is known by partition.
        """

        def lowered(source: FedBy, since: Since) -> Since:
            offsets = None if since.begin is None else reader.offsets(since.begin)
            if offsets is None:
                return since
            kept = {place: at for place, at in offsets.items() if place[0] != source.topic or place in known}
            return replace(since, begin=reader.position_at_offsets(kept))

        self._change(lowered, table)

    def _change(self, changed: Callable[[FedBy, Since], Since], table: str | None = None) -> None:
        self.write(
            {
                name: {s: changed(s, since) if table in (None, name) else since for s, since in sources.items()}
                for name, sources in self.read().items()
            }
        )

    def write(self, away: Away) -> None:
        """Note it durably; costs nothing where nothing is new."""
        if away != self.read():
            tables = {
                table: [{**asdict(source), **asdict(since)} for source, since in sources.items()]
                for table, sources in sorted(away.items())
            }
            self._checkpoint.write(FILE, json.dumps({"tables": tables}, indent=1).encode())


def _away(data: bytes) -> dict[str, dict[FedBy, Since]]:
    return {str(table): dict(map(_one, sources)) for table, sources in json.loads(data)["tables"].items()}


def _one(document: Mapping[str, object]) -> tuple[FedBy, Since]:
    since = Since(**known_fields(Since, document))
    if type(since.batch) is not int or not isinstance(since.begin, str | None):
        raise TypeError("a batch or a position is of another kind")
    return FedBy(**known_fields(FedBy, document)), since
