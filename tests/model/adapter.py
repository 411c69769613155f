"""The real pipeline behind a thin adapter: the one module of the model that knows the product's internals.

What is real: ``PipelineQuery`` with everything that it wires (batches, catching up, requests, replays, checkpoint
documents), ``process_batch``, the tables, ``KafkaReader``, and the functions behind the commands. What is replaced:
Spark (``stand_in_spark``), Kafka (``broker``), the threads (work beside the stream and compactions are done when the
model says so), waits, and the end of a process (``fuse``).

The seams, all in ``_install``. A redesign changes them here and nowhere else in this folder.
"""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paimon_table import Table, TableName, surroundings
from paimon_table.errors import ConfigError, SinkUnavailable, TidemarkError
from paimon_table.history.retention import Limits
from paimon_table.history.rollback import plan_rollback, roll_back
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.patience import Patience
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.batch import attempts
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange
from pipelines.catchup import reading, side_work
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.config.config import PipelineConfig
from pipelines.control.asking import wait_for
from pipelines.control.requests import Requests
from pipelines.prepared import prepared
from pipelines.quarantine.retry import retry_quietly
from pipelines.quarantine.selection import Selection
from pipelines.query import PipelineQuery
from pipelines.replay import replaying
from pipelines.replay.replaying import Wanted, replay
from pipelines.storage import catalog_of
from pipelines.tidying.tidier import Tidier
from pipelines.trouble import may_pass
from sources.kafka import admin as kafka_admin
from sources.kafka import reader as kafka_reader
from tests.model.broker import Broker, BrokerAdmin, number_of
from tests.model.fuse import Fuse, Killed
from tests.model.stand_in_spark import Frame, StandInSpark

CHECKPOINT, WAREHOUSE, QUARANTINE = STORED = ("checkpoint", "warehouse", "checkpoint-quarantine")
"""The directories of a pipeline, below its root."""

LONG = 60
"""So many batches and rounds of work beside them end everything that there is to do."""


class Clock:
    """Time and random ids that are the same whenever a history is played: a millisecond goes with each look."""

    def __init__(self) -> None:
        self.now_ms = 1_795_000_000_000
        self._random = random.Random(0)

    def time_ns(self) -> int:
        self.now_ms += 1
        return self.now_ms * 1_000_000

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


class Stuck(AssertionError):
    """The pipeline does not come to rest."""


class Adapter:
    """One pipeline: its storage, its source, and the process that runs it, if one does."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, config: Mapping[str, Any]) -> None:
        self.root = root
        self.broker, self.fuse, self.clock = Broker(), Fuse(), Clock()
        self.document = dict(config)
        self.reports: list[BatchReport] = []
        self.while_waiting: list[Callable[[], None]] = []
        """What happens, one after the other, while a command waits for an answer; then the pipeline goes on."""
        self.waits = 0
        self._query: PipelineQuery | None = None
        self._spark: StandInSpark | None = None
        self._held = ExitStack()
        self._install(patch)

    @property
    def config(self) -> PipelineConfig:
        """The pipeline file as it is now."""
        places = {"checkpoint": str(self.root / CHECKPOINT), "catalog": {"warehouse": str(self.root / WAREHOUSE)}}
        return PipelineConfig.model_validate({**self.document, **places})

    # ------------------------------------------------------------ the process

    @property
    def is_running(self) -> bool:
        return self._query is not None

    def start(self) -> TidemarkError | None:
        """Begin a process; the error with which it refuses to."""
        assert self._query is None
        return self._begin()

    def kill(self) -> None:
        """End the process where it stands, between two of its steps."""
        self._gone()

    def stop(self) -> None:
        """End the process as Ctrl-C does: what was begun is finished."""
        if self._query is not None:
            self._guarded(self._query._beside.settle)
            self._gone()

    def run_batch(self, most_records: int = 10) -> bool:
        """One batch of the stream; False when there was none to run."""
        spark = self._spark
        if self._query is None or spark is None:
            return False
        return bool(self._guarded(lambda: spark.queries[-1].run_batch(most_records)))

    def work_beside(self) -> bool:
        """One round of what is done beside the stream: requests, and a slice of each table on its way back."""
        query = self._query
        return query is not None and bool(self._guarded(query._beside.work.round))

    def compact(self) -> None:
        """Let what the last batch left to do be done."""
        if self._query is not None:
            self._guarded(self._query._beside.settle)

    def rest(self) -> None:
        """Let the pipeline run until there is nothing to do any more; it must not be killed meanwhile."""
        for _ in range(LONG):
            if self._query is None:
                error = self.start()
                if error is not None:
                    raise error
            has_worked = self.run_batch(50)
            has_worked |= self.work_beside()
            if not has_worked and self._query is not None:
                self.compact()
                if self._query is not None and self._query._beside.work.is_at_rest:
                    return
        raise Stuck(f"after {LONG} rounds there is still something to do: {self.behind}")

    @property
    def behind(self) -> Mapping[str, str]:
        """The tables that are not in the stream, with the reason."""
        query = self._query
        return {} if query is None else {name: standing.pause.reason for name, standing in query.standings().items()}

    # ------------------------------------------------------------ commands

    def ask(self, command: str, table: str) -> None:
        """Leave a request, as ``tidemark pause`` and ``resume`` do; the process takes it, or the next one."""
        Requests.of(self.config).leave(command, {"table": table})

    def retry(self) -> str:
        """``tidemark quarantine retry``: what it says, or the text of its error."""
        return self._command(lambda: retry_quietly(self.config, Selection(), lambda _: None))

    def replay(self, table: str, *, rebuilds: bool, allows_missing: bool = False) -> str:
        """``tidemark replay --from earliest``; the empty text when it is done, or that of its error."""
        wanted = Wanted(
            table, "earliest", None, abandons=not rebuilds, rebuilds=rebuilds, allows_missing=allows_missing
        )
        return self._command(lambda: replay(self.config, wanted))

    def abandon(self, table: str) -> str:
        """``tidemark replay --rebuild --abandon``."""
        wanted = Wanted(table, "earliest", None, abandons=True, rebuilds=True)
        return self._command(lambda: replay(self.config, wanted))

    def _command(self, run: Callable[[], str | None]) -> str:
        """A command in a process of its own, which may be killed as well; the pipeline does not end with it."""
        self.waits = 0
        try:
            with self.fuse.acting():
                return run() or ""
        except Killed:
            return "killed"
        except TidemarkError as error:
            return f"{type(error).__name__}: {error}"

    # ------------------------------------------------------------ tables, storage

    def table(self, name: str) -> Table | None:
        return catalog_of(self.config).find(TableName.of(name))

    def snapshot_ids(self, name: str) -> list[int]:
        table = self.table(name)
        return [] if table is None else sorted(s.id for s in table.snapshots.newest_first())

    def roll_back(self, name: str, snapshot_id: int) -> None:
        """``tidemark table rollback``; nobody writes the table."""
        table = self.table(name)
        assert table is not None
        roll_back(table.context, plan_rollback(table.context, snapshot_id))

    def expire(self, name: str) -> None:
        """Another engine removes all snapshots but the newest."""
        table = self.table(name)
        assert table is not None
        expire(table.context, Surroundings(), Limits(1, 1, 0, 100))

    def copy(self, name: str, to: str) -> None:
        """Copy a directory of the pipeline's storage over whatever is there; nothing is left where there is none."""
        shutil.rmtree(self.root / to, ignore_errors=True)
        if (self.root / name).exists():
            shutil.copytree(self.root / name, self.root / to, symlinks=True)

    def directory_of(self, name: str) -> str:
        """Where a table lies, below what may be copied."""
        database, table = name.split(".")
        return f"{WAREHOUSE}/{database}.db/{table}"

    def quarantined(self) -> list[int]:
        """The numbers of the open records in the quarantine, as often as they are there."""
        return [number_of(line.ts) for line in DeadLetters(self.config).records() if line.ts is not None]

    def awaits_compaction(self, name: str) -> bool:
        """Whether a table has rows of which its changelog does not tell yet."""
        table = self.table(name)
        files = () if table is None else table.state().files.values()
        return any(file.level == 0 for of_bucket in files for file in of_bucket)

    def overwritten(self, name: str, after: int) -> bool:
        """Whether the content of a table was replaced behind a snapshot, of which the changelog tells nothing."""
        table = self.table(name)
        snapshots = [] if table is None else list(table.snapshots.newest_first())
        return any(s.commit_kind == "OVERWRITE" and s.id > after for s in snapshots)

    # ------------------------------------------------------------ how it works

    def _begin(self) -> TidemarkError | None:
        spark = self._spark = StandInSpark(self.broker, self.fuse)
        try:
            with self.fuse.acting():
                config = self.config
                self._held.enter_context(held_checkpoints([config]))
                self._query = PipelineQuery(spark, prepared(config), False)  # type: ignore[arg-type]
        except Killed:
            self._gone()
        except TidemarkError as error:
            self._gone()
            return error
        return None

    def _gone(self) -> None:
        self._query = self._spark = None
        self._held.close()

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """Do a step of the process: it may be killed; trouble that passes lets its query begin again."""
        try:
            with self.fuse.acting():
                done = work()
                query = self._query
                if query is not None and query._reader.failure is not None:
                    raise query._reader.failure
                return done
        except Killed:
            self._gone()
        except TidemarkError as error:
            self._gone()
            if not may_pass(error):
                raise
            refused = self._begin()
            if refused is not None:
                raise refused from error
            return True
        return False

    def _wait(self, _seconds: float) -> None:
        """What happens while a command waits."""
        if self.while_waiting:
            self.while_waiting.pop(0)()
        elif self.is_running:
            self.work_beside()
            self.run_batch()
        self.waits += 1
        if self.waits > LONG:
            raise Stuck("a command waits for ever")

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        self.fuse.install(patch)
        patch.setattr(surroundings, "time", self.clock)
        patch.setattr(uuid, "uuid4", self.clock.uuid4)
        waits = partial(wait_for, sleep=self._wait)
        patch.setattr("pipelines.quarantine.applying.wait_for", waits)
        patch.setattr(replaying, "wait_for", waits)
        patch.setattr(replaying, "WAIT_S", 0)
        patch.setattr(replaying, "say", lambda *_args, **_keys: None)
        patch.setattr(attempts, "OTHERS", Patience(0, 0, retries=3))
        patch.setattr(attempts, "STORAGE", Patience(0, 0, retries=2))
        patch.setattr(side_work, "LOOK_S", 0.0)
        patch.setattr(side_work, "IDLE_S", 0.0)
        patch.setattr(side_work, "RETRIES", Patience(0, 0, retries=0))
        patch.setattr(side_work.SideWork, "start", lambda side, desk: setattr(side, "_desk", desk))
        patch.setattr(reading, "CLOSING_S", 0.0)
        patch.setattr(Tidier, "start", lambda _tidier: None)
        patch.setattr(Compactions, "_start", _deferred)
        patch.setattr(kafka_admin, "connected", BrokerAdmin)
        patch.setattr(kafka_reader.KafkaReader, "_start_watching", lambda _reader, _spark: None)
        patch.setattr(kafka_reader, "topics_at_first_look", lambda *_args: None)
        for module in ("pipelines.query", "pipelines.catchup.slices"):
            patch.setattr(f"{module}.decoded", lambda records, *_args: records)
        for module in ("pipelines.query", "pipelines.replay.replay_slices"):
            patch.setattr(f"{module}.spark_exchange", _exchange)
            patch.setattr(f"{module}.spool", lambda _spark: None)
            patch.setattr(f"{module}.lookup_root", lambda _spark: str(self.root / "lookup"))
        patch.setattr("pipelines.query.this_connection", lambda _spark: None)
        patch.setattr("pipelines.query.compacted_by", lambda _context, task, due: task(due))
        patch.setattr("pipelines.replay.replay_slices.check_java", lambda: None)
        patch.setattr(
            "pipelines.replay.replay_slices.open_session", lambda *_args, **_keys: StandInSpark(self.broker, self.fuse)
        )


class _Deferred(Future[Any]):
    """Work that is done when somebody waits for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work: Callable[[], Any] | None = work

    def done(self) -> bool:
        return self._work is None

    def result(self, timeout: float | None = None) -> Any:
        work, self._work = self._work, None
        return None if work is None else work()


def _deferred(compactions: Compactions, _thread: object, work: Callable[[], Any]) -> Future[Any]:
    future = _Deferred(work)
    compactions._started.append(future)
    return future


def _exchange(_writes: object, blobs: Frame, _compactions: Compactions) -> LocalExchange:
    return LocalExchange(blobs.batches())


__all__ = ["Adapter", "ConfigError", "SinkUnavailable", "Stuck", "TidemarkError"]
