"""Which topics a checkpoint's offsets are of: a small file of ours in it holds the id that each topic got from Kafka.

A topic that is deleted and made anew under its name has another id, and other records at the same offsets. Spark
notices that only while the new topic is shorter than the old offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pipelines.checkpoint.checkpoint import Checkpoint
from sinks.commit.positions import Position, cut_key

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

    def cut(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Note durably that partitions have lost all behind these offsets, which other records get now (E5)."""
        if ends:
            before = {place: self.ids.get(cut_key(place)) for place in ends}
            self.add({cut_key(at): f"{before[at]},{end}" if before[at] else str(end) for at, end in ends.items()})

    @property
    def cuts(self) -> Mapping[str, str]:
        """At which offsets partitions were cut off, see ``cut_key``."""
        return {key: cuts for key, cuts in self.ids.items() if "/" in key}

    def find_cuts(self, positions: Iterable[Position]) -> None:
        """Take over what tables have noted under an earlier checkpoint."""
        found: dict[str, str] = {}
        for position in positions:
            for key, cuts in position.topics.items():
                if "/" in key and cuts.count(",") >= found.get(key, "").count(","):
                    found[key] = cuts
        if found:
            self.add(found)

    def add(self, ids: Mapping[str, str]) -> None:
        """Record topics with their present ids; costs nothing once they are."""
        anew = tuple(f"{topic}/" for topic in self.made_anew(ids))
        new = {**{name: id_ for name, id_ in self.ids.items() if not name.startswith(anew)}, **ids}
        if new != self.ids:
            self._checkpoint.write(FILE, json.dumps(new, indent=1, sort_keys=True).encode())
            self._known = new


def _ids(data: bytes) -> dict[str, str]:
    return {str(name): str(id_) for name, id_ in json.loads(data).items()}
