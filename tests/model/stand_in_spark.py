"""As much of Spark as a pipeline asks for, in this thread: a session, its Kafka source, a query and its checkpoint.

The query keeps ``metadata``, ``sources/0/0``, ``offsets/N`` and ``commits/N`` as Spark does: the offsets of a batch are
durable before it runs, a batch without a commit runs again with the same offsets, partitions that the offsets before do
not name are read from their first record; the first batch runs without records too. Frames hold records, not blobs:
the adapter hands them to ``LocalExchange``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from pipelines.trial.trial_pipeline import TrialCheckpoint
from sources.kafka.offset_ranges import offsets_of, text_of
from sources.positions import Place
from tests.model.broker import Broker
from tests.model.fuse import At, Fuse


class StandInSpark:
    """Stands for a ``SparkSession``; the stand-in of its JVM is the broker itself."""

    def __init__(self, broker: Broker, fuse: Fuse) -> None:
        self.broker, self.fuse = broker, fuse
        self._jvm = broker
        self.query_id = ""
        self.queries: list[StandInQuery] = []
        conf = SimpleNamespace(get=lambda _name, default=None: default)
        self.sparkContext = SimpleNamespace(
            master="local[2]",
            defaultParallelism=2,
            applicationId="model",
            getConf=lambda: conf,
            getLocalProperty=lambda _name: self.query_id,
            cancelJobGroup=lambda _group: None,
        )

    @property
    def readStream(self) -> _Reading:
        return _Reading(self)

    @property
    def read(self) -> _Reading:
        return _Reading(self)

    def stop(self) -> None: ...


class _Reading:
    def __init__(self, spark: StandInSpark) -> None:
        self._spark = spark
        self._options: dict[str, str] = {}

    def format(self, _name: str) -> _Reading:
        return self

    def options(self, **options: str) -> _Reading:
        self._options |= options
        return self

    def load(self) -> Frame:
        options = self._options
        if "endingOffsets" not in options:
            return Frame(self._spark, {}, {}, options)
        begins, ends = offsets_of(options["startingOffsets"]), offsets_of(options["endingOffsets"])
        return Frame(self._spark, begins, ends, options)


class Frame:
    """Stands for a ``DataFrame`` of Kafka's records between offsets."""

    def __init__(
        self,
        spark: StandInSpark,
        begins: Mapping[Place, int],
        ends: Mapping[Place, int],
        options: Mapping[str, str],
    ) -> None:
        self.sparkSession = spark
        self.begins, self.ends, self.options = begins, ends, options

    def batches(self) -> list[pa.RecordBatch]:
        """What each task reads; an empty one at least."""
        return [*self.sparkSession.broker.records(self.begins, self.ends)]

    @property
    def writeStream(self) -> _Writing:
        return _Writing(self)


class _Writing:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._run: Callable[[Frame, int], None] = lambda _frame, _number: None
        self._checkpoint = Path()

    def queryName(self, _name: str) -> _Writing:
        return self

    def trigger(self, **_words: object) -> _Writing:
        return self

    def foreachBatch(self, run: Callable[[Frame, int], None]) -> _Writing:
        self._run = run
        return self

    def option(self, _name: str, value: str) -> _Writing:
        self._checkpoint = Path(value)
        return self

    def start(self) -> StandInQuery:
        query = StandInQuery(self._frame, self._run, self._checkpoint)
        self._frame.sparkSession.queries.append(query)
        return query


class StandInQuery:
    """Stands for a ``StreamingQuery`` that runs a batch when it is asked to."""

    def __init__(self, frame: Frame, run: Callable[[Frame, int], None], checkpoint: Path) -> None:
        self._spark, self._options = frame.sparkSession, frame.options
        self._run = run
        self._directory = checkpoint
        self.runId = "run"
        self.isActive = True
        with self._writing("metadata"):
            self._checkpoint = TrialCheckpoint(checkpoint)
        self._spark.query_id = self._checkpoint.query_id

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None

    def run_batch(self, most_records: int) -> bool:
        """Run the next batch and close it; False when there is nothing to read, but for the first one."""
        planned, closed = self._newest("offsets"), self._newest("commits")
        if planned == closed:
            planned += 1
            begins = self._begins(planned)
            ends = self._planned_ends(begins, most_records)
            if ends == begins and planned > 0:
                return False
            with self._writing(f"offsets/{planned}"):
                self._checkpoint.plan(planned, ends)
        begins, ends = self._begins(planned), offsets_of(str(self._read(f"offsets/{planned}")).split("\n")[2])
        self._run(Frame(self._spark, begins, ends, self._options), planned)
        self._spark.fuse.passes(At.POINT, "before-closing")
        with self._writing(f"commits/{planned}"):
            self._checkpoint.close(planned)
        return True

    def _begins(self, batch: int) -> dict[Place, int]:
        if batch:
            return offsets_of(str(self._read(f"offsets/{batch - 1}")).split("\n")[2])
        first = self._read("sources/0/0")
        if first is None:
            starting = self._options.get("startingOffsets", "earliest")
            named = {} if starting == "earliest" else offsets_of(starting)
            begins = {place: max(0, named.get(place, 0)) for place in self._spark.broker.ends()}
            with self._writing("sources/0/0"):
                path = self._directory / "sources/0/0"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"v1\n{text_of(begins)}")
            return begins
        return offsets_of(first.split("\n")[1])

    def _planned_ends(self, begins: Mapping[Place, int], most_records: int) -> dict[Place, int]:
        """Up to so many records, from one partition after the other."""
        ends = {}
        for place, end in sorted(self._spark.broker.ends().items()):
            begin = begins.get(place, 0)
            ends[place] = end if end < begin else min(end, begin + most_records)
            most_records -= max(0, ends[place] - begin)
        return ends

    def _newest(self, directory: str) -> int:
        return max((int(p.name) for p in (self._directory / directory).glob("[0-9]*")), default=-1)

    def _read(self, name: str) -> str | None:
        path = self._directory / name
        return path.read_text() if path.exists() else None

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """A file is written in the block: two more steps at which the process may be killed, if it is not there yet."""
        is_new = not (self._directory / name).exists()
        if is_new:
            self._spark.fuse.passes(At.BEFORE, name)
        yield
        if is_new:
            self._spark.fuse.passes(At.AFTER, name)
