"""Where the quarantine holds records that somebody who reads them again may find good.

Those who read again are tables that are caught up, replays, and the first batches of a new checkpoint. What they find
good they note (``Quarantine.note_good``), and ``once`` takes it out of the quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from pipelines.bad_records.bad_lines import BadFile, BadLine, BadLines
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig

Places: TypeAlias = Mapping[tuple[str, int], np.ndarray]
"""Per (topic, partition) offsets, rising."""


class QuarantinedPlaces:
    """The places of the records in a pipeline's quarantine; each file is read once."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._read: dict[str, Places] = {}

    def outside(self, owner: str) -> Places:
        """The places of the records that other directories than that of ``owner`` hold now."""
        bad = BadLines(self._config)
        files = [file for file in (*bad.files(), *bad.unapplied()) if file.owner != owner]
        self._read = {file.path: self._places(bad, file) for file in files}
        offsets: dict[tuple[str, int], list[np.ndarray]] = {}
        for places in self._read.values():
            for place, found in places.items():
                offsets.setdefault(place, []).append(found)
        return {place: np.unique(np.concatenate(found)) for place, found in offsets.items()}

    def _places(self, bad: BadLines, file: BadFile) -> Places:
        if file.path in self._read:
            return self._read[file.path]
        found: dict[tuple[str, int], list[int]] = {}
        for line in bad.lines([file], lambda: None):
            if isinstance(line, BadLine) and 0 <= line.offset < 1 << 63:
                found.setdefault((line.topic, line.partition), []).append(line.offset)
        return {place: np.array(offsets, np.int64) for place, offsets in found.items()}


class AheadOfStream:
    """The places of records that an earlier checkpoint has put aside and that the stream has still to read.

    Looked for once. There are none, but for the first batches of a new checkpoint. Of dump files nobody can tell what
    is ahead: all are.
    """

    def __init__(self, config: PipelineConfig, checkpoint: Checkpoint, owner: str) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._owner = owner
        self._left: Places | None = None

    def __call__(self) -> Places:
        """Those that are left now."""
        places = QuarantinedPlaces(self._config).outside(self._owner) if self._left is None else self._left
        ends = self._checkpoint.kafka_positions() if places and self._config.source.kafka is not None else None
        if ends is not None:
            passed = {place: offsets[offsets >= ends.get(place, 0)] for place, offsets in places.items()}
            places = {place: offsets for place, offsets in passed.items() if len(offsets)}
        self._left = places
        return places
