"""Source tables that no rule leads to their table any more, while others still go there: a small file of ours.

The stream goes on and passes their records by. Nothing else remembers that: the table has a position in their topics
all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TypeAlias

from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.document import known_fields
from sinks.commit.positions import FedBy

FILE = "tidemark/sources-away.json"

Away: TypeAlias = Mapping[str, Mapping[FedBy, int]]
"""By table: its source tables that are away, each with the first batch that passed it by."""

_BATCH = "batch"


class SourcesAway:
    """The document of one checkpoint, kept up by the driver."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def read(self) -> Away:
        """What is noted; under a new checkpoint nothing is."""
        return {} if self._checkpoint.is_new else self._checkpoint.document(FILE, _away) or {}

    def write(self, away: Away) -> None:
        """Note it durably; costs nothing where nothing is new."""
        if away != self.read():
            tables = {
                table: [{**asdict(source), _BATCH: batch} for source, batch in sources.items()]
                for table, sources in sorted(away.items())
            }
            self._checkpoint.write(FILE, json.dumps({"tables": tables}, indent=1).encode())


def _away(data: bytes) -> dict[str, dict[FedBy, int]]:
    return {
        str(table): {FedBy(**known_fields(FedBy, one)): int(one[_BATCH]) for one in sources}
        for table, sources in json.loads(data)["tables"].items()
    }
