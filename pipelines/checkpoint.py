"""Spark's checkpoint directory of a pipeline, as far as it tells us something."""

from __future__ import annotations

import json

from paimon_table.file_io import file_io_for
from paimon_table.paths import numbers_of
from pipelines.config import PipelineConfig


class Checkpoint:
    """Reads the files that Spark keeps: ``metadata``, and one per batch in ``offsets`` and ``commits``."""

    def __init__(self, config: PipelineConfig) -> None:
        self._io, self._path = file_io_for(config.checkpoint, config.catalog.options)

    @property
    def is_new(self) -> bool:
        """Whether no batch was ever planned."""
        return not self._io.list_names(f"{self._path}/offsets")

    @property
    def query_id(self) -> str | None:
        """The id that Spark gave the query; None before its first start."""
        try:
            return str(json.loads(self._io.read(f"{self._path}/metadata"))["id"])
        except FileNotFoundError:
            return None

    @property
    def closed_batch(self) -> int | None:
        """The last batch that Spark took for done."""
        return max(numbers_of(self._io.list_names(f"{self._path}/commits"), ""), default=None)

    def planned_at_ms(self, batch_id: int) -> int | None:
        """When Spark planned the batch for the first time (ms), from the offset log, if there."""
        try:
            lines = self._io.read(f"{self._path}/offsets/{batch_id}").decode().splitlines()
        except FileNotFoundError:
            return None
        return int(json.loads(lines[1])["batchTimestampMs"])

    def forget_unused_start(self) -> None:
        """Remove the start offsets that Spark noted for a checkpoint in which no batch was ever planned.

        Nothing refers to them: the offset log is empty. Kept, they would win over the positions of the tables.
        """
        for name in self._io.list_names(f"{self._path}/sources/0"):
            self._io.delete(f"{self._path}/sources/0/{name}")
