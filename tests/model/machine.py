"""The rules by which a pipeline lives through a history, and what must be true of its tables whenever it rests.

Each rule is one event. What the documentation says to be lost or refused is noted in the truth by the rule that brings
it about; everything else that a table lacks, or has twice, is a fault.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.adapter import CHECKPOINT, STORED, Adapter
from tests.model.fuse import At
from tests.model.truth import PARTITIONS, Content, Kind, Record, TrueTable, Truth
from tests.support.changelog import replay_strictly

ONE, TWO = "shop.public.one", "shop.public.two"
TOPICS = {"orders": ONE, "sums": ONE, "log": ONE, "more": TWO}
"""The topic of each source table: one feeds several tables, and two feed one table."""

TOO_WIDE = 3_000_000_000
"""For INT, in which numbers are kept until the rules are mended."""

_SUMS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
_INT = {"columns": {"types": {"n": "INT"}}, "new_columns": {"max_per_day": 0, "beyond": "fail"}}
_TO_SUMS = {"into": "lake.sums", "primary_key": ["id"], "merge_sources": "disjoint_keys", "options": _SUMS, **_INT}
_TO_LOG = {"mode": "append", "on_change": "log", "options": {"bucket": "-1", "changelog-producer": "none"}, **_INT}

RULES: dict[str, dict[str, Any]] = {
    "orders": {"into": "lake.orders", "options": {"sequence.field": "v"}, **_INT},
    "sums": _TO_SUMS,
    "more": _TO_SUMS,
    "log": {"into": "lake.log", **_TO_LOG},
}
"""The rule of each source table."""

PIPELINE = {
    "version": 1,
    "name": "shop",
    "source": {
        "kafka": {"bootstrap_servers": "localhost:1", "topics": {"include": [r"shop\..*"]}},
        "format": "debezium-json",
        "on_data_loss": "continue",
    },
    "defaults": {"options": {"bucket": "1", "changelog-producer": "lookup"}},
    "otherwise": "skip",
}

REFILLED = "lake.log2"
TABLES = st.sampled_from(["lake.orders", "lake.sums", "lake.log"])
SOURCES = st.sampled_from(sorted(TOPICS))
BATCH_SIZES = st.sampled_from([2, 5, 20])
WORK = st.lists(st.sampled_from(["batch", "beside", "compact"]), min_size=1, max_size=4)
STEPS = st.integers(0, 30)
MOST_GENERATIONS = 3
HIDDEN = "have expired, so whether this commit is in the table is not known"

POINTS = (
    *("after-write", "before-append", "after-append", "after-compact", "before-closing"),
    *("table-left-out", "slice-planned", "slice-done", "before-joining", "after-joining"),
    *("slice-written", "slice-applied", "slice-taken-out"),
    *("replay-planned", "replay-done", "rebuild-noted", "rebuild-tagged", "rebuild-switched"),
)
"""Crash points of batches, of catching up, of retries, and of replays."""

MEANWHILE = st.lists(st.sampled_from(["batch", "beside", "kill", "restart", "pause", "resume"]), max_size=5)
"""What happens while a command waits; then the pipeline goes on, if it runs."""


@dataclass
class Known:
    """What is known of the pipeline at a moment, and true again of a copy that is made then."""

    paused: set[str] = field(default_factory=set)
    """Tables that somebody has paused, and not resumed."""
    seen: dict[str, list[tuple[int, dict[Any, int]]]] = field(default_factory=dict)
    """By table: its newest snapshot when it was looked at, and what it had."""
    bases: dict[str, tuple[int, Mapping[Any, Any]]] = field(default_factory=dict)
    """By table: a snapshot with the content from which its changelog goes on."""


class PipelineMachine(RuleBasedStateMachine):
    """One pipeline, its source, and whoever works on its tables."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="tidemark-model-", dir=memory if memory.is_dir() else None))
        self.patch = pytest.MonkeyPatch()
        self.rule_of = deepcopy(RULES)
        self.away: set[str] = set()
        """Source tables whose rule is away."""
        self.pipeline = Adapter(self.root, self.patch, self._document())
        tables = [
            TrueTable("lake.orders", Kind.KEYED, ("orders",)),
            TrueTable("lake.sums", Kind.SUM, ("sums", "more")),
            TrueTable("lake.log", Kind.LOG, ("log",)),
        ]
        self.truth = Truth(TOPICS, {table.name: table for table in tables})
        self.known = Known(seen={table.name: [] for table in tables})
        self.backup: Known | None = None
        self.expired: set[str] = set()
        """Tables whose earlier snapshots somebody has removed."""
        self.is_mended = False
        self.has_lost_checkpoint = self.has_rebuilt = False
        self.refuses_columns = True
        self.gone_back: set[str] = set()
        """Tables that were rolled back."""
        self.unfinished: set[str] = set()
        """Tables with a replay that may not have been done."""

    def teardown(self) -> None:
        self.pipeline.kill()
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)
        logging.disable(logging.NOTSET)

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

    def _send(self, source: str, key: int, op: str, n: int, **more: int) -> None:
        topic, partition = TOPICS[source], key % PARTITIONS
        if partition >= len(self.pipeline.broker.topics[topic].partitions):
            return
        v, id_ = self.truth.next_v(), key + (100 if source == "more" and key < 100 else 0)
        row = {"id": id_, "n": n} | ({} if RULES[source]["into"] == "lake.sums" else {"v": v}) | more
        before, after = (row, None) if op == "d" else (None, row)
        names = {"db": "shop", "schema": "public", "table": source}
        value = {"before": before, "after": after, "op": op, "source": names}
        self.pipeline.broker.append(topic, partition, {"id": id_}, value, v)
        self.truth.add(Record(source, topic, partition, op, id_, n, v, n == TOO_WIDE, bool(more)))

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

    def start(self) -> None:
        refused = self.pipeline.start()
        assert refused is None, f"the pipeline does not start: {refused}"

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
            of.pop("new_columns", None)
        self.pipeline.document = self._document()

    def _waits_for_rule(self, name: str) -> bool:
        """Whether records have come that a table refuses under its rule."""
        records = self.truth.records_of(self.truth.tables[name])
        return self.refuses_columns and any(record.is_of_new_column for record in records)

    @precondition(lambda self: REFILLED not in self.truth.tables)
    @rule()
    def fill_another_table(self) -> None:
        """The rule of the log names another table, which is filled from the first records that there are."""
        self.check_at_rest()
        self._fill_another_table()

    def _fill_another_table(self) -> None:
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

    def _document(self) -> dict[str, Any]:
        rules = [{"match": {"table": source}, **of} for source, of in self.rule_of.items() if source not in self.away]
        return {**PIPELINE, "tables": rules}

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

    def _is_written(self, table: str) -> bool:
        return any(of["into"] == table for source, of in self.rule_of.items() if source not in self.away)

    @property
    def has_bad(self) -> bool:
        return any(record.is_wide for table in self.truth.tables.values() for record in self.truth.records_of(table))

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
        """Refused where rows would be lost that topics do not hold any more."""
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

        A table without a row has no position: what it has still to be filled with would be lost, as documented.
        """
        self.pipeline.stop()
        if any(not self.pipeline.snapshot_ids(name) for name in self.truth.tables):
            return
        self.pipeline.copy("nothing", CHECKPOINT)
        self.has_lost_checkpoint = True
        self.known.paused.clear()

    @rule()
    def back_up(self) -> None:
        """Cold: with the pipeline stopped."""
        self.pipeline.stop()
        for name in STORED:
            self.pipeline.copy(name, f"copy/{name}")
        self.backup = deepcopy(self.known)

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore_all(self) -> None:
        self.pipeline.stop()
        for name in STORED:
            self.pipeline.copy(f"copy/{name}", name)
        assert self.backup is not None
        self.known = deepcopy(self.backup)
        for name in self.truth.tables:
            self.known.seen.setdefault(name, [])
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

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore_checkpoint(self) -> None:
        """An older copy of the checkpoint is refused where a table has a later batch; then it is moved away."""
        self.pipeline.stop()
        self.pipeline.copy(f"copy/{CHECKPOINT}", CHECKPOINT)
        assert self.backup is not None
        self.known.paused = {*self.backup.paused}
        self.pipeline.fuse.put_out()
        refused = self.pipeline.start()
        if refused is not None:
            assert "older copy of the checkpoint" in str(refused), f"the pipeline does not start: {refused}"
            self.lose_checkpoint()

    def _has_gone_back(self, table: str, snapshot_id: int) -> None:
        """Of what was seen later nothing counts any more."""
        self.gone_back.add(table)
        self.known.seen[table] = [(at, seen) for at, seen in self.known.seen[table] if at <= snapshot_id]
        if table in self.known.bases and self.known.bases[table][0] > snapshot_id:
            del self.known.bases[table]
        self._sees(self.truth.tables[table])

    def _sees(self, table: TrueTable) -> None:
        """Let the truth know what a table is known to have, and which retried records may have gone with a copy."""
        known = self.known.seen[table.name]
        table.seen = dict(known[-1][1]) if known else {}
        if self.is_mended:
            table.may_miss |= {record.v for record in self.truth.records_of(table) if record.is_wide}

    # ------------------------------------------------------------ what must be true

    @rule()
    def check_at_rest(self) -> None:
        """All that there is to do is done: every record is where it must be."""
        self.pipeline.fuse.put_out()
        self.pipeline.while_waiting = []
        self.pipeline.rest()
        behind = self.pipeline.behind
        hidden = {name for name, reason in behind.items() if name in self.expired and HIDDEN in reason}
        waiting = {name for name in behind if self._waits_for_rule(name)}
        assert behind.keys() <= self.known.paused | hidden | waiting, f"tables that nobody has paused: {behind}"
        quarantined = Counter(self.pipeline.quarantined())
        twice = {number: times for number, times in quarantined.items() if times > 1}
        assert not twice or self.unfinished, f"bad records that are in the quarantine more than once: {twice}"
        for table in self.truth.tables.values():
            is_behind = table.name in behind
            self.truth.check(table, self._held(table), quarantined.keys(), is_behind=is_behind, away=self.away)
            newest = max(self.pipeline.snapshot_ids(table.name), default=0)
            self.known.seen[table.name].append((newest, dict(table.seen)))
            if table.kind is not Kind.LOG:
                self._check_changelog(table.name)

    def _held(self, table: TrueTable) -> Content:
        found = self.pipeline.table(table.name)
        rows = [] if found is None else found.to_arrow().to_pylist()
        if table.kind is Kind.LOG:
            return Counter(row["v"] for row in rows)
        keys = Counter(row["id"] for row in rows)
        assert not rows or max(keys.values()) == 1, f"keys of {table.name} that are there more than once: {keys}"
        if table.kind is Kind.SUM:
            return {row["id"]: row["n"] for row in rows}
        return {row["id"]: (row["n"], row["v"]) for row in rows}

    def _check_changelog(self, name: str) -> None:
        """From where it is whole: neither the switch of a rebuild nor what has expired is in it."""
        found, ids = self.pipeline.table(name), self.pipeline.snapshot_ids(name)
        assert found is not None
        columns = ["id", "n", "v"] if name == "lake.orders" else ["id", "n"]  # without those that come later
        rows = {(row["id"],): row for row in found.to_arrow(columns).to_pylist()}
        base = self.known.bases.get(name, (0, {}))
        if ids[0] <= base[0] + 1 and not self.pipeline.overwritten(name, base[0]):
            later = () if ids[-1] == base[0] else found.changes(base[0] + 1 if base[0] else None, columns=columns)
            content = replay_strictly((changes for _, changes in later), ["id"], base[1])
            is_late = self.has_lost_checkpoint or name in self.gone_back
            if content != rows and is_late and self.pipeline.awaits_compaction(name):
                return  # it tells of the rows with the next ones of the bucket
            assert content == rows, f"the changelog of {name} does not lead to what it holds"
        self.known.bases[name] = (ids[-1], rows)
