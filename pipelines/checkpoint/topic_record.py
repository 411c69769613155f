"""Which topics a checkpoint's offsets are of: a small file of ours in it holds the id that each topic got from Kafka.

A topic that is deleted and made anew under its name has another id, and other records at the same offsets. Spark
notices that only while the new topic is shorter than the old offset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipelines.checkpoint.checkpoint import Checkpoint

FILE = "tidemark-topics.json"


class TopicRecord:
    """The topics of one checkpoint, by name their id; kept up by the driver, read when they are first needed."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._known: Mapping[str, str] | None = None

    @property
    def ids(self) -> Mapping[str, str]:
        """The topics whose records are read, by name. Empty where the source has no topics with ids."""
        if self._known is None:
            self._known = {} if self._checkpoint.is_new else self._checkpoint.document(FILE, _ids) or {}
        return self._known

    def made_anew(self, ids: Mapping[str, str]) -> list[str]:
        """Recorded topics that have another id now."""
        return sorted(name for name, id_ in self.ids.items() if ids.get(name, id_) != id_)

    def add(self, ids: Mapping[str, str]) -> None:
        """Record topics with their present ids; costs nothing once they are."""
        new = {**self.ids, **ids}
        if new != self.ids:
            self._checkpoint.write(FILE, json.dumps(new, indent=1, sort_keys=True).encode())
            self._known = new


def _ids(data: bytes) -> dict[str, str]:
    return {str(name): str(id_) for name, id_ in json.loads(data).items()}
