"""A topic of one partition without a broker, for replays of it: its records, its slices, and how far its stream is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.bad_records.log import QuarantineLog
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.local_exchange import process_locally
from pipelines.batch.plan import BatchRun
from pipelines.batch.step_facts import AllOpen
from pipelines.catchup.reading import Reading, Work
from pipelines.catchup.slice_settings import again_settings
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.replay.in_place import InPlace
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from sources.positions import Place
from sources.slices import Slice
from tests.support.local_batches import task_settings
from tests.support.quarantined import envelope, quarantine, record

TOPIC = "shop.public.orders"


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Topic:
    """One partition of records, and the ``SliceReader`` and ``Stream`` over it; ``closed`` is where the stream is."""

    root: Path
    records_: list[dict[str, Any]]
    closed: int = 0
    beyond: bool = False
    runs: list[tuple[int, int]] = field(default_factory=list)
    lost: str | None = None
    rebuild: str = ""

    @property
    def end(self) -> str:
        return str(self.closed)

    def is_beyond(self, identifier: str) -> bool:
        return self.beyond

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        at = int(begin or 0)
        return Slice(str(at), str(min(int(limit), at + most_records))) if at < int(limit) else None

    def topics(self, position: str) -> frozenset[str] | None:
        return frozenset([TOPIC])

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        return max(0, int(limit) - int(begin or 0))

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        return self.lost

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        return str(next(r["offset"] for r in self.records_ if r["timestamp"] >= time_ms * 1000))

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        return str(max(offsets.values()))

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return None

    def earlier(self, position: str, other: str) -> str:
        return str(min(int(position), int(other)))

    def ends(self, topics: Collection[str]) -> Mapping[Place, int]:
        return {}

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        raise NotImplementedError

    def run(self, batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
        begin, end = int(piece.begin or 0), int(piece.end)
        self.runs.append((begin, end))
        rows = pa.RecordBatch.from_pylist(self.records_[begin:end], schema=RECORD_SCHEMA)
        bad = quarantine(self.root, "replay-r1")
        opened = AllOpen(QuarantineLog(bad.io, bad.root), tables.own.catalog)
        settings = again_settings(
            task_settings(self.root, None, slots=1), Quarantine(bad.io, bad.path), opened, self.rebuild
        )
        return process_locally(batch, tables, settings, rows)


class ReplayReading(Reading):
    """The reading of a replay as a new process takes it up."""

    def __init__(self, to: InPlace, topic: Topic, most: int) -> None:
        super().__init__(to, topic, Work(topic, topic.run, lambda: most, to.context.config.source.files is not None))
        self._replay = to

    @property
    def state(self) -> ReplayState:
        return self._replay.state


def delete(offset: int, key: int) -> dict[str, Any]:
    source = {"db": "shop", "schema": "public", "table": "orders"}
    before = {"id": key, "n": 0, "v": 0}
    value = json.dumps({"before": before, "after": None, "source": source, "op": "d"}).encode()
    return record(offset, value, key=key)


HISTORY = [
    *(record(offset, envelope(offset, offset, v=offset)) for offset in range(6)),
    record(6, envelope(0, 60, v=6), key=0),
    delete(7, 1),
    record(8, envelope(8, "no number", v=8)),
    record(9, envelope(2, 90, v=9), key=2),
]
FINAL = {0: 60, 2: 90, 3: 3, 4: 4, 5: 5}
