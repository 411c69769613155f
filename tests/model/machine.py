"""The rules by which a pipeline lives through a history, and what must be true of its tables all the time."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.adapter import Adapter
from tests.model.fuse import At
from tests.model.truth import PARTITIONS, Content, Kind, Record, TrueTable, Truth
from tests.support.changelog import replay_strictly

ONE, TWO = "shop.public.one", "shop.public.two"
TOPICS = {"orders": ONE, "sums": ONE, "log": ONE, "more": TWO}
"""The topic of each source table: one feeds several tables, and two feed one table."""

TOO_WIDE = 3_000_000_000
"""For INT, in which sums are kept until their rule is mended."""

_SUMS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
_INT = {"columns": {"types": {"n": "INT"}}}
_TO_SUMS = {"into": "lake.sums", "primary_key": ["id"], "merge_sources": "disjoint_keys"}

RULES: dict[str, dict[str, Any]] = {
    "orders": {"into": "lake.orders", "options": {"sequence.field": "v"}, **_INT},
    "sums": {**_TO_SUMS, "options": _SUMS, **_INT},
    "more": {**_TO_SUMS, "options": _SUMS, **_INT},
    "log": {
        "into": "lake.log",
        "mode": "append",
        "on_change": "log",
        "options": {"bucket": "-1", "changelog-producer": "none"},
        **_INT,
    },
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

TABLES = st.sampled_from(["lake.orders", "lake.sums", "lake.log"])
SOURCES = st.sampled_from(sorted(TOPICS))


class PipelineMachine(RuleBasedStateMachine):
    """One pipeline, its source, and whoever works on its tables."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="tidemark-model-", dir=memory if memory.is_dir() else None))
        self.patch = pytest.MonkeyPatch()
        self.rules = deepcopy(RULES)
        self.pipeline = Adapter(self.root, self.patch, self._document())
        tables = [
            TrueTable("lake.orders", Kind.KEYED, ("orders",)),
            TrueTable("lake.sums", Kind.SUM, ("sums", "more")),
            TrueTable("lake.log", Kind.LOG, ("log",)),
        ]
        self.truth = Truth(TOPICS, {table.name: table for table in tables})
        self.paused: set[str] = set()
        """Tables that somebody has paused, and not resumed."""
        self.is_mended = False
        self.history: dict[str, list[tuple[int, dict[Any, int]]]] = {table.name: [] for table in tables}
        """By table: its newest snapshot when it was seen, and what it had."""

    def teardown(self) -> None:
        self.pipeline.kill()
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)
        logging.disable(logging.NOTSET)

    def _document(self) -> dict[str, Any]:
        return {**PIPELINE, "tables": [{"match": {"table": source}, **of} for source, of in self.rules.items()]}

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
        """Rows come, change, and go where keys are even."""
        for key in keys:
            op = "d" if deletes and source == "orders" and key % 2 == 0 else "c"
            self._send(source, key, op, 1)

    @rule(source=SOURCES, partition=st.integers(0, PARTITIONS - 1))
    def produce_bad(self, source: str, partition: int) -> None:
        """A record that its table cannot take until the rule is mended."""
        self._send(source, 1000 + PARTITIONS * self.truth.count + partition, "c", TOO_WIDE)

    def _send(self, source: str, key: int, op: str, n: int) -> None:
        topic, partition = TOPICS[source], key % PARTITIONS
        if partition >= len(self.pipeline.broker.topics[topic].partitions):
            return
        v, id_ = self.truth.next_v(), key + (100 if source == "more" and key < 100 else 0)
        row = {"id": id_, "n": n} | ({} if RULES[source]["into"] == "lake.sums" else {"v": v})
        before, after = (row, None) if op == "d" else (None, row)
        names = {"db": "shop", "schema": "public", "table": source}
        value = {"before": before, "after": after, "op": op, "source": names}
        offset = self.pipeline.broker.append(topic, partition, {"id": id_}, value)
        self.truth.add(Record(source, (topic, partition, offset), op, id_, n, v, n == TOO_WIDE))

    # ------------------------------------------------------------ the process

    @rule(most=st.sampled_from([2, 5, 20]))
    def run_batch(self, most: int) -> None:
        self.pipeline.run_batch(most)

    @rule()
    def work_beside(self) -> None:
        self.pipeline.work_beside()

    @rule(at=st.sampled_from(At), steps=st.integers(0, 40))
    def kill_soon(self, at: At, steps: int) -> None:
        """The process is killed at one of its next steps."""
        self.pipeline.fuse.light(at, steps)

    @rule()
    def kill(self) -> None:
        self.pipeline.kill()

    @rule()
    def stop(self) -> None:
        self.pipeline.stop()

    @precondition(lambda self: not self.pipeline.is_running)
    @rule()
    def start(self) -> None:
        self._start()

    def _start(self) -> None:
        refused = self.pipeline.start()
        assert refused is None, f"the pipeline does not start: {refused}"

    # ------------------------------------------------------------ commands

    @rule(table=TABLES)
    def pause(self, table: str) -> None:
        self.pipeline.ask("pause", table)
        self.paused.add(table)

    @rule(table=TABLES)
    def resume(self, table: str) -> None:
        self.pipeline.ask("resume", table)
        self.paused.discard(table)

    @rule()
    def retry(self) -> None:
        self.pipeline.retry()

    @precondition(lambda self: not self.is_mended)
    @rule()
    def mend_rules(self) -> None:
        """Columns follow the types that their records show; the next process takes it."""
        self.pipeline.stop()
        self.is_mended = True
        for of in self.rules.values():
            of["columns"] = {name: value for name, value in of["columns"].items() if name != "types"}
        self.pipeline.document = self._document()

    @rule(table=TABLES, back=st.integers(1, 12))
    def roll_back(self, table: str, back: int) -> None:
        """With the pipeline stopped, as the documentation says."""
        self.pipeline.stop()
        ids = self.pipeline.snapshot_ids(table)
        if len(ids) > back:
            to = ids[-1 - back]
            self.pipeline.roll_back(table, to)
            self._has_gone_back(table, to)

    def _has_gone_back(self, table: str, snapshot_id: int) -> None:
        """Of what was seen later nothing counts any more."""
        known = [(at, seen) for at, seen in self.history[table] if at <= snapshot_id]
        self.history[table] = known
        self.truth.tables[table].seen = dict(known[-1][1]) if known else {}

    # ------------------------------------------------------------ what must be true

    @rule()
    def check_at_rest(self) -> None:
        """All that there is to do is done: every record is where it must be."""
        self.pipeline.fuse.put_out()
        self.pipeline.rest()
        behind = self.pipeline.behind
        assert behind.keys() <= self.paused, f"tables that nobody has paused: {behind}"
        quarantined = Counter(self.pipeline.quarantined())
        twice = {place: times for place, times in quarantined.items() if times > 1}
        assert not twice, f"bad records that are in the quarantine more than once: {twice}"
        for table in self.truth.tables.values():
            held = self._held(table)
            self.truth.check(table, held, quarantined.keys(), is_behind=table.name in behind)
            self.history[table.name].append((self.pipeline.snapshot_ids(table.name)[-1], dict(table.seen)))
            self._check_changelog(table)

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

    def _check_changelog(self, table: TrueTable) -> None:
        found = self.pipeline.table(table.name)
        if found is None or table.kind is Kind.LOG:
            return
        changes = replay_strictly((rows for _, rows in found.changes()), ["id"])
        rows: Mapping[Any, Any] = {(row["id"],): row for row in found.to_arrow().to_pylist()}
        assert changes == rows, f"the changelog of {table.name} does not lead to what it holds"
