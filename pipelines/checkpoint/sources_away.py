"""Source tables that no rule leads to their table any more: a small file of ours.

The stream goes on and passes their records by, maybe for a table that others still feed. Nothing else remembers that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TypeAlias

from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.document import known_fields
from sinks.commit.positions import FedBy

FILE = "tidemark/sources-away.json"


@dataclass(frozen=True, slots=True)
class Since:
    """When a source table went away."""

    batch: int
    """The first batch that passed it by."""
    begin: str | None
    """Where that batch begins, in the text of the source; None: at the first record that there is."""


Away: TypeAlias = Mapping[str, Mapping[FedBy, Since]]
"""By table: its source tables that are away."""


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
