"""One run of the soak: source, broker, service, and the actions on them, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from kafka import KafkaProducer

from benchmarks.soaking.samples import Samples
from benchmarks.soaking.schedule import REMEDIES, Change, Step, is_bad
from benchmarks.soaking.service import Command, Service, Victim
from benchmarks.soaking.source import KINDS, Source, bad_record, pipeline_text
from tests.stack.process import free_port
from tests.stack.topics import TopicRecord, Topics
from tests.support.pipeline_run import run_once
from tests.support.waiting import seconds

TABLES_PER_BATCH = 3
CHANGES = 60
"""Of each of these tables."""
_ADDED, _REFUSING, _PAUSED = "returns", "visits", "lake.profiles"
_POLL_S = 0.03
_PATIENCE_S = 120.0
"""How long no batch may be closed on a quiet machine, restarts included."""


class Soak:
    """A pipeline below ``root`` that reads from ``topics``. Not thread safe; ``close`` ends all processes of it."""

    def __init__(self, root: Path, topics: Topics, seed: int, interval: str) -> None:
        self.root, self.seed = root, seed
        self.sources = {kind.name: Source(kind, Random(f"{seed} {kind.name}")) for kind in KINDS}
        self.bad: list[tuple[str, str]] = []
        """Topic and value of each bad record."""
        self.events: list[tuple[float, int, str]] = []
        """Seconds since the beginning, closed batches, what happened."""
        self.wrong: list[str] = []
        """Faults that happened."""
        self.records = 0
        self.file = root / "soak.yaml"
        self._random = Random(seed)
        self._topics, self._interval, self._port = topics, interval, free_port()
        self._rules = [kind for kind in KINDS if kind.name != _ADDED]
        self._accepts_columns = False
        self._commands: list[Command] = []
        self._kills: list[tuple[float, Victim]] = []
        self._began_s, self.began_at = time.monotonic(), time.time()
        self._environment = self._folders()
        self.service = Service(self.file, root / "log.jsonl", root / "checkpoint", self._environment, self.tell)
        self.samples = Samples(self.service, root, self._port, [kind.name for kind in KINDS], self._began_s)
        self._producer: KafkaProducer | None = None

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def tell(self, what: str) -> None:
        self.events.append((round(self.now_s, 1), self.service.closed_batches(), what))
        print("{:7.1f} s, batch {:4}: {}".format(*self.events[-1]), flush=True)

    def fill(self) -> None:
        """Make the topics with the first rows of all tables, and the pipeline file."""
        for source in self.sources.values():
            self._topics.create(source.kind.topic, partitions=2)
        self._producer = KafkaProducer(bootstrap_servers=self._topics.bootstrap_servers, linger_ms=5, acks="all")
        for source in self.sources.values():
            self._send(source, source.fill())
        self._producer.flush()
        self._write_file()

    def run(self, steps: Sequence[Step], batches: int, most_s: float) -> None:
        """Until that many batches are closed, or the time is over. Each closed batch brings the next changes."""
        waiting = list(steps)
        try:
            self._run(waiting, batches, most_s)
        finally:
            for step in waiting:
                if step.what in REMEDIES:
                    self._do(step)

    def _run(self, waiting: list[Step], batches: int, most_s: float) -> None:
        closed, moved_s = -1, time.monotonic()
        while closed < batches and self.now_s < most_s:
            self.service.poll()
            if self.service.closed_batches() != closed:
                closed, moved_s = self.service.closed_batches(), time.monotonic()
                self._feed()
            while waiting and waiting[0].batch <= closed:
                self._do(waiting.pop(0))
            self._kill_what_is_due()
            for command in self._commands:
                command.poll()
            self.samples.poll(closed)
            if time.monotonic() - moved_s > seconds(_PATIENCE_S):
                self.wrong.append(f"no batch was closed for {seconds(_PATIENCE_S):.0f} s after batch {closed}")
                return
            time.sleep(_POLL_S)

    def finish(self) -> None:
        """No more load: let commands end, stop the service, and let it read the rest."""
        self.wrong += [f"`{c}` did not succeed" for c in self._commands if not c.finish(self.service.poll)]
        self.samples.poll(self.service.closed_batches())
        code = self.service.stop()
        if code != 0:
            self.wrong.append(f"the service was asked to stop and ended with {code}")
        self.tell("stopped; reading what is left")
        done = run_once(self.file, self._environment)
        if done.returncode != 0:
            self.wrong.append(f"the last run ended with {done.returncode}: {done.stderr[-2000:]}")
        self.wrong += [f"the service ended with {code}, unasked" for code in self.service.unasked_ends]
        if self.service.left_behind:
            self.wrong.append(f"{self.service.left_behind} processes have outlived their driver")

    def close(self) -> None:
        for command in self._commands:
            command.abandon()
        self.service.close()
        if self._producer is not None:
            self._producer.close()

    def _feed(self) -> None:
        for source in self._random.sample(list(self.sources.values()), TABLES_PER_BATCH):
            self._send(source, source.change(CHANGES))
            if source.kind.name != _ADDED and is_bad(self._random):
                record = bad_record(self._random)
                self.bad.append((source.kind.topic, (record.value or b"").decode()))
                self._send(source, [record])
        assert self._producer is not None
        self._producer.flush()

    def _send(self, source: Source, records: Iterable[TopicRecord]) -> None:
        assert self._producer is not None
        for record in records:
            self._producer.send(source.kind.topic, value=record.value, key=record.key)
            self.records += 1

    def _do(self, step: Step) -> None:
        if isinstance(step.what, Victim):
            self._kills.append((time.monotonic() + step.after_s, step.what))
            return
        self.tell(step.what)
        match step.what:
            case Change.NEW_COLUMN:
                self.sources["orders"].has_note = True
            case Change.WIDER_TYPE:
                self.sources["orders"].has_large_numbers = True
            case Change.REFUSED_COLUMN:
                self.sources[_REFUSING].has_note = True
            case Change.MENDED_RULE:
                self._accepts_columns = True
                self._write_file()
                self._commands += [
                    Command((("reload", str(self.file)), ("resume", str(self.file), "--table", f"lake.{_REFUSING}")))
                ]
            case Change.PAUSE | Change.RESUME:
                word = "pause" if step.what is Change.PAUSE else "resume"
                self._commands.append(Command(((word, str(self.file), "--table", _PAUSED),)))
            case Change.NEW_TABLE:
                self._rules = list(KINDS)
                self._write_file()
                self._commands.append(Command((("reload", str(self.file)),)))

    def _kill_what_is_due(self) -> None:
        due = [kill for kill in self._kills if kill[0] <= time.monotonic()]
        for kill in due:
            self._kills.remove(kill)
            self.service.kill(kill[1], self._random)

    def _write_file(self) -> None:
        text = pipeline_text(
            self._topics.bootstrap_servers,
            str(self.root),
            self._interval,
            self._port,
            self._rules,
            accepts_columns=self._accepts_columns,
        )
        self.file.write_text(text)

    def _folders(self) -> dict[str, str]:
        for name in ("local", "temporary"):
            (self.root / name).mkdir(mode=0o700)
        return {
            "SPARK_LOCAL_DIRS": str(self.root / "local"),
            "TMPDIR": str(self.root / "temporary"),
            "TIDEMARK_LOG_FORMAT": "json",
        }
