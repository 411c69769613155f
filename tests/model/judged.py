"""A pipeline that is judged: the real one, the truth about it, and what must be true whenever it rests.

Without a rule of its own: ``machine`` has these.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from tests.model.adapter import Adapter
from tests.model.truth import PARTITIONS, Content, Kind, Record, TrueTable, Truth
from tests.support.changelog import replay_strictly

ONE, TWO = "shop.public.one", "shop.public.two"
TOPICS = {"orders": ONE, "sums": ONE, "log": ONE, "more": TWO}
"""The topic of each source table: one feeds several tables, and two feed one table."""

TOO_WIDE = 3_000_000_000
"""For INT, in which numbers are kept until the rules are mended."""

_SUMS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
_INT = {"columns": {"types": {"n": "INT"}}, "schema_changes": {"add": "pause"}}
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
        "kafka": {"bootstrap_servers": "localhost:1", "topics": {"include": [r"shop\..*"]}, "reader": "spark"},
        "format": "debezium-json",
        "on_data_loss": "continue",
    },
    "defaults": {"options": {"bucket": "1", "changelog-producer": "lookup"}},
    "otherwise": "skip",
}

HIDDEN = "the snapshots that would show it have expired"
"""What a table says for good whose snapshots do not tell whether it has a batch."""


@dataclass
class Known:
    """What is known of the pipeline at a moment, and true again of a copy that is made then."""

    paused: set[str] = field(default_factory=set)
    """Tables that somebody has paused, and not resumed."""
    seen: dict[str, list[tuple[int, dict[Any, int]]]] = field(default_factory=dict)
    """By table: its newest snapshot when it was looked at, and what it had."""
    checkpoint: int = 0
    """How many were lost before the present one began."""
    bases: dict[str, tuple[int, Mapping[Any, Any]]] = field(default_factory=dict)
    """By table: a snapshot with the content from which its changelog goes on."""


class JudgedPipeline(RuleBasedStateMachine):
    """One pipeline with its source and its tables."""

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
        self.checkpoints = 0
        """How many were lost so far."""
        self.has_lost_checkpoint = self.has_rebuilt = self.has_cut = False
        self.refuses_columns = True
        self.unfinished: set[str] = set()
        """Tables with a replay that may not have been done."""

    def teardown(self) -> None:
        self.pipeline.kill()
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)
        logging.disable(logging.NOTSET)

    def start(self) -> None:
        refused = self.pipeline.start()
        assert refused is None, f"the pipeline does not start: {refused}"

    def _document(self) -> dict[str, Any]:
        rules = [{"match": {"table": source}, **of} for source, of in self.rule_of.items() if source not in self.away]
        return {**PIPELINE, "tables": rules}

    def _is_written(self, table: str) -> bool:
        return any(of["into"] == table for source, of in self.rule_of.items() if source not in self.away)

    @property
    def has_bad(self) -> bool:
        return any(record.is_wide for table in self.truth.tables.values() for record in self.truth.records_of(table))

    def _waits_for_rule(self, name: str) -> bool:
        """Whether records have come that a table refuses under its rule."""
        records = self.truth.records_of(self.truth.tables[name])
        return self.refuses_columns and any(record.is_of_new_column for record in records)

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

    def _has_gone_back(self, table: str, snapshot_id: int) -> None:
        """Of what was seen later nothing counts any more."""
        self.known.seen[table] = [(at, seen) for at, seen in self.known.seen[table] if at <= snapshot_id]
        if table in self.known.bases and self.known.bases[table][0] > snapshot_id:
            del self.known.bases[table]
        self._sees(self.truth.tables[table])

    def _sees(self, table: TrueTable) -> None:
        """Let the truth know what a table is known to have."""
        known = self.known.seen[table.name]
        table.seen = dict(known[-1][1]) if known else {}

    # ------------------------------------------------------------ what must be true

    def judge(self) -> None:
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
        assert not twice, f"bad records that are in the quarantine more than once: {twice}"
        for table in self.truth.tables.values():
            is_behind = table.name in behind
            self.truth.check(table, self._held(table), quarantined.keys(), is_behind=is_behind, away=self.away)
            newest = max(self.pipeline.snapshot_ids(table.name), default=0)
            self.known.seen[table.name].append((newest, dict(table.seen)))
            # A paused table is not written: what a rollback has left without its changelog gets it once it is resumed.
            is_whole = not is_behind or not self.pipeline.awaits_compaction(table.name)
            if table.kind is not Kind.LOG and is_whole:
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
            assert content == rows, f"the changelog of {name} does not lead to what it holds"
        self.known.bases[name] = (ids[-1], rows)
