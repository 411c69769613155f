"""The checkpoint of a trial: the files that Spark writes about its batches, written without Spark.

``metadata`` has the id of the query, ``offsets/N`` is durable before batch N runs, ``commits/N`` follows when it is
done. A batch without the second runs again at the next start, as under Spark.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path

from paimon_table.surroundings import now_ms
from sinks.commit.positions import offsets_text
from sources.positions import Place


class TrialCheckpoint:
    """Writes what ``Checkpoint`` reads; ``directory`` need not exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.query_id = self._query_id()

    def plan(self, batch_id: int, ends: Mapping[Place, int]) -> None:
        """Note where a batch ends, before it runs; one that was planned before keeps its time."""
        if not self._path("offsets", batch_id).exists():
            lines = "v1", json.dumps({"batchTimestampMs": now_ms()}), offsets_text(ends)
            self._path("offsets", batch_id).write_text("\n".join(lines))

    def close(self, batch_id: int) -> None:
        """Note that a batch is done."""
        self._path("commits", batch_id).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def _query_id(self) -> str:
        file = self._directory / "metadata"
        if not file.exists():
            for name in ("offsets", "commits"):
                (self._directory / name).mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"id": str(uuid.uuid4())}))
        return str(json.loads(file.read_text())["id"])

    def _path(self, kind: str, batch_id: int) -> Path:
        return self._directory / kind / str(batch_id)
