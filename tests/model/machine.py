"""The rules by which a pipeline lives through a history, and what must be true of its tables whenever it rests.

Each rule is one event. What the documentation says to be lost or refused is noted in the truth by the rule that brings
it about; everything else that a table lacks, or has twice, is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.model.adapter import CHECKPOINT, STORED
from tests.model.fuse import At
from tests.model.judged import ONE, TOO_WIDE, TOPICS, TWO, JudgedPipeline
from tests.model.truth import PARTITIONS, Kind, TrueTable

REFILLED = "lake.log2"
TABLES = st.sampled_from(["lake.orders", "lake.sums", "lake.log"])
SOURCES = st.sampled_from(sorted(TOPICS))
BATCH_SIZES = st.sampled_from([2, 5, 20])
WORK = st.lists(st.sampled_from(["batch", "beside", "compact"]), min_size=1, max_size=4)
STEPS = st.integers(0, 30)
MOST_GENERATIONS = 3

POINTS = (
    *("after-write", "before-append", "after-append", "after-compact", "before-closing"),
    *("table-paused", "slice-planned", "slice-done", "before-joining", "after-joining"),
    *("slice-written", "bad-records-sealed", "slice-applied"),
    *("rebuild-noted", "rebuild-tagged", "rebuild-switched"),
)
"""Crash points of batches, of what is read beside them, of retries, and of rebuilds."""

MEANWHILE = st.lists(st.sampled_from(["batch", "beside", "kill", "restart", "pause", "resume"]), max_size=5)
"""What happens while a command waits; then the pipeline goes on, if it runs."""


class PipelineMachine(JudgedPipeline):
    """One pipeline, its source, and whoever works on its tables."""

    # ------------------------------------------------------------ the source

    @initialize(partitions=st.integers(1, 2))
    def begin(self, partitions: int) -> None:
        """Every table has a row, and with it a position: one without loses its place with a lost checkpoint."""
        for topic in (ONE, TWO):
            self.pipeline.broker.make(topic, partitions)
        for source in TOPICS:
            self.produce(source, [0], False)
        self.check_at_rest()

    @rule(source=SOURCES, keys=st.lists(st.integers(0, 7), min_size=1, max_size=6), deletes=st.booleans())
    def produce(self, source: str, keys: list[int], deletes: bool) -> None:
        """Rows come and change; some of orders go."""
        for key in keys:
            self._send(source, key, "d" if deletes and source == "orders" and key % 2 == 0 else "c", 1)

    @rule(source=SOURCES, partition=st.integers(0, PARTITIONS - 1))
    def produce_bad(self, source: str, partition: int) -> None:
        """A record that its table cannot take until its rule is mended."""
        self._send(source, 1000 + PARTITIONS * self.truth.count + partition, "c", TOO_WIDE)

    @rule(source=SOURCES, key=st.integers(0, 7))
    def produce_new_column(self, source: str, key: int) -> None:
        """The table fails there, and waits, until its rule takes new columns."""
        self._send(source, key, "c", 1, extra=1)

    @rule(topic=st.sampled_from([ONE, TWO]))
    def add_partition(self, topic: str) -> None:
        if len(self.pipeline.broker.topics[topic].partitions) < PARTITIONS:
            self.pipeline.broker.add_partition(topic)

    @rule(topic=st.sampled_from([ONE, TWO]))
    def make_topic_anew(self, topic: str) -> None:
        """What nobody has read of it is gone: ``on_data_loss: continue``."""
        if self.truth.generations[topic] + 1 < MOST_GENERATIONS:
            self.pipeline.broker.make(topic, len(self.pipeline.broker.topics[topic].partitions))
            self.truth.made_anew(topic)

    @rule(topic=st.sampled_from([ONE, TWO]), partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 4))
    def cut_off(self, topic: str, partition: int, count: int) -> None:
        """A partition loses records that were read, and gives their offsets to others once the pipeline has seen it."""
        self.check_at_rest()
        self.pipeline.stop()
        if partition < len(self.pipeline.broker.topics[topic].partitions):
            self.pipeline.broker.cut_off(topic, partition, count)
            self.truth.cut_off(topic, partition)
            self.has_cut = True
            refused = self.pipeline.start()
            assert refused is None, f"the pipeline does not start: {refused}"

    # ------------------------------------------------------------ the process

    @rule(work=WORK, most=BATCH_SIZES)
    def run(self, work: list[str], most: int) -> None:
        """The pipeline does something; it is started if it does not run."""
        if not self.pipeline.is_running:
            self.start()
        for one in work:
            self._work(one, most)

    @rule(source=SOURCES, key=st.integers(0, 7), work=WORK, most=BATCH_SIZES, at=st.sampled_from(At), steps=STEPS)
    def run_until_killed(self, source: str, key: int, work: list[str], most: int, at: At, steps: int) -> None:
        """The same, with something to read; the process is killed at one of its steps, if it comes so far."""
        self.produce(source, [key, key + 1], False)
        self.pipeline.fuse.light(at, steps)
        self.run(work, most)
        self.pipeline.fuse.put_out()

    def _work(self, one: str, most: int = 5) -> None:
        match one:
            case "batch":
                self.pipeline.run_batch(most)
            case "beside":
                self.pipeline.work_beside()
            case _:
                self.pipeline.compact()

    @rule(point=st.sampled_from(POINTS))
    def kill_at(self, point: str) -> None:
        """Whoever comes to this crash point next is killed there: the pipeline, or a command."""
        self.pipeline.fuse.light(At.POINT, 0, point)

    @rule()
    def kill(self) -> None:
        self.pipeline.kill()

    @rule()
    def let_an_hour_pass(self) -> None:
        """Snapshots are then older than the ten minutes within which commits are looked for."""
        self.pipeline.clock.now_ms += 3_600_000

    # ------------------------------------------------------------ the pipeline file

    @precondition(lambda self: not self.is_mended and self.has_bad)
    @rule()
    def mend_rules(self) -> None:
        """Columns follow the types that their records show; the next process takes it."""
        self.pipeline.stop()
        self.is_mended = True
        for of in self.rule_of.values():
            of["columns"] = {name: value for name, value in of["columns"].items() if name != "types"}
        self.pipeline.document = self._document()

    @precondition(lambda self: self.refuses_columns and any(map(self._waits_for_rule, self.truth.tables)))
    @rule()
    def take_new_columns(self) -> None:
        """The rules let their tables have new columns; the next process takes it."""
        self.pipeline.stop()
        self.refuses_columns = False
        for of in self.rule_of.values():
            of.pop("schema_changes", None)
        self.pipeline.document = self._document()

    @precondition(lambda self: REFILLED not in self.truth.tables)
    @rule()
    def fill_another_table(self) -> None:
        """The rule of the log names another table, which is filled from the first records that there are."""
        self.pipeline.stop()
        self.rule_of["log"] |= {"into": REFILLED, "backfill": True}
        self.truth.tables["lake.log"].is_retired = True
        self.truth.tables[REFILLED] = TrueTable(REFILLED, Kind.LOG, ("log",))
        self.known.seen[REFILLED] = []
        self.pipeline.document = self._document()

    @rule(source=SOURCES)
    def take_rule_away_or_bring_it_back(self, source: str) -> None:
        """A table, or one of its two source tables, is fed no more; or again, and misses what came meanwhile."""
        self.pipeline.stop()
        if self.away | {source} == {*TOPICS}:
            return  # a file without rules is refused
        self.away ^= {source}
        self.pipeline.document = self._document()

    # ------------------------------------------------------------ commands

    @rule(table=TABLES, source=SOURCES)
    def pause(self, table: str, source: str) -> None:
        """The process takes the request between two batches, or the next one does; then something comes."""
        self._pause(table)
        self.pipeline.work_beside()
        self.produce(source, [0, 2, 4], False)

    @rule(table=TABLES)
    def resume(self, table: str) -> None:
        self._resume(table)

    def _pause(self, table: str) -> None:
        """Refused for a table that no rule writes."""
        if self._is_written(table):
            self.pipeline.ask("pause", table)
            self.known.paused.add(table)

    def _resume(self, table: str) -> None:
        if self._is_written(table):
            self.pipeline.ask("resume", table)
            self.known.paused.discard(table)

    @precondition(lambda self: self.is_mended)
    @rule(meanwhile=MEANWHILE)
    def retry(self, meanwhile: list[str]) -> None:
        self._while_waiting(meanwhile, "lake.orders")
        self.pipeline.retry()

    @rule(meanwhile=MEANWHILE)
    def replay_into_place(self, meanwhile: list[str]) -> None:
        """Refused for the others: their records would count twice."""
        self._while_waiting(meanwhile, "lake.orders")
        self._run_first()
        self._note_end("lake.orders", self.pipeline.replay("lake.orders", rebuilds=False))

    @rule(table=TABLES, meanwhile=MEANWHILE)
    def rebuild(self, table: str, meanwhile: list[str]) -> None:
        """Refused where rows would be lost that topics do not hold any more.

        Of sums only snapshots tell that an earlier topic of the name fed them too: once these have expired, the rebuild
        counts what the topic holds now.
        """
        if table == "lake.sums" and table in self.expired and any(self.truth.generations.values()):
            return
        self._while_waiting(meanwhile, table)
        self.has_rebuilt = True
        self._run_first()
        self._note_end(table, self.pipeline.replay(table, rebuilds=True))

    @precondition(lambda self: self.has_rebuilt)
    @rule(table=TABLES, meanwhile=MEANWHILE)
    def give_rebuild_up(self, table: str, meanwhile: list[str]) -> None:
        self._while_waiting(meanwhile, table)
        self.pipeline.abandon(table)

    def _note_end(self, table: str, told: str) -> None:
        """Until a replay is done, bad records that it has met may be in the quarantine twice."""
        if told:
            self.unfinished.add(table)
        elif not self.has_lost_checkpoint:  # a new one knows nothing of what was not finished
            self.unfinished.discard(table)

    def _run_first(self) -> None:
        """Most commands ask a pipeline that runs; with its process gone they do the work themselves."""
        if not self.pipeline.is_running and self.truth.count % 2:
            self.start()

    def _while_waiting(self, events: Sequence[str], table: str) -> None:
        """Let these events happen while the next command waits for the pipeline."""

        def restart() -> None:
            self.pipeline.kill()
            self.start()

        of: dict[str, Callable[[], None]] = {
            "batch": lambda: self._work("batch"),
            "beside": lambda: self._work("beside"),
            "kill": self.pipeline.kill,
            "restart": restart,
            "pause": lambda: self._pause(table),
            "resume": lambda: self._resume(table),
        }
        self.pipeline.while_waiting = [of[event] for event in events]

    # ------------------------------------------------------------ storage

    @rule(table=TABLES, back=st.integers(1, 12))
    def roll_back(self, table: str, back: int) -> None:
        """With the pipeline stopped, as the documentation says."""
        self.pipeline.stop()
        ids = self.pipeline.snapshot_ids(table)
        if len(ids) > back:
            self.pipeline.roll_back(table, ids[-1 - back])
            self._has_gone_back(table, ids[-1 - back])

    @rule(table=TABLES)
    def expire(self, table: str) -> None:
        """Another engine removes all snapshots but the newest.

        It does so between two batches: a batch that was killed and cannot be told from snapshots pauses its table for
        good, as the documentation says, and so does one that is killed right after the switch of a rebuild has become
        the only snapshot.
        """
        self.check_at_rest()
        if table not in self.pipeline.behind:
            self.pipeline.stop()
            self.pipeline.expire(table)
            self.expired.add(table)

    @rule()
    def lose_checkpoint(self) -> None:
        """Positions in the tables decide; what was paused is not any more, and no rule is remembered as away.

        A table without a row has no position: what it has still to be filled with would be lost, as documented. So it
        is with what came in the place of records that a partition has lost: a table notes that with its next rows.
        """
        self.pipeline.stop()
        if self._has_empty_table or self.has_cut:
            return
        self.pipeline.copy("nothing", CHECKPOINT)
        self.has_lost_checkpoint = True
        self.checkpoints += 1
        self.known.checkpoint = self.checkpoints
        self.known.paused.clear()

    @property
    def _has_empty_table(self) -> bool:
        return any(not self.pipeline.snapshot_ids(name) for name in self.truth.tables)

    @rule()
    def back_up(self) -> None:
        """Cold: with the pipeline stopped."""
        self.pipeline.stop()
        for name in STORED:
            self.pipeline.copy(name, f"copy/{name}")
        self.backup = deepcopy(self.known)

    @precondition(lambda self: self.backup is not None and not self.has_cut)
    @rule()
    def restore_all(self) -> None:
        """Not behind a cut, of which a copy from before knows nothing: a partition that has grown again hides it."""
        self.pipeline.stop()
        for name in STORED:
            self.pipeline.copy(f"copy/{name}", name)
        assert self.backup is not None
        self.known = deepcopy(self.backup)
        for name in self.truth.tables:
            self.known.seen.setdefault(name, [])
        if self.has_rebuilt:
            self.unfinished.add("lake.orders")  # one that was under way when the copy was made is so again
        for table in self.truth.tables.values():
            self._sees(table)

    @precondition(lambda self: self.backup is not None)
    @rule(table=TABLES)
    def restore_table(self, table: str) -> None:
        """An older copy of a table beside a checkpoint that goes on."""
        self.pipeline.stop()
        directory = self.pipeline.directory_of(table)
        self.pipeline.copy(f"copy/{directory}", directory)
        assert self.backup is not None
        self.known.seen[table] = deepcopy(self.backup.seen[table])
        self.known.bases.pop(table, None)
        self._sees(self.truth.tables[table])

    @property
    def _has_older_checkpoint(self) -> bool:
        """Whether there is a copy of the present checkpoint."""
        copy, now = self.backup, self.known
        return copy is not None and copy.checkpoint == now.checkpoint and not self.has_cut

    @precondition(lambda self: self._has_older_checkpoint)
    @rule()
    def restore_checkpoint(self) -> None:
        """An older copy of the checkpoint is refused where a table has a later batch or slice; then it goes."""
        self.pipeline.stop()
        if self._has_empty_table:
            return  # the checkpoint that is moved away would be the only one that knows what it lacks
        self.pipeline.copy(f"copy/{CHECKPOINT}", CHECKPOINT)
        assert self.backup is not None
        self.known.paused = {*self.backup.paused}
        self.pipeline.fuse.put_out()
        refused = self.pipeline.start()
        if refused is not None:
            assert "older copy of the checkpoint" in str(refused), f"the pipeline does not start: {refused}"
            self.lose_checkpoint()

    # ------------------------------------------------------------ what must be true

    @rule()
    def check_at_rest(self) -> None:
        self.judge()
