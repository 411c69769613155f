"""The rows of a table do not depend on how its records are cut into batches, nor on kills and restarts between them.

The records come late and again, leave values out, and come from several source tables into one row.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.config.config import PipelineConfig
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA

Row = dict[str, Any]
Record = dict[str, Any]
HIDDEN = "__debezium_unavailable_value"
START_MS = 1_700_000_000_000
TYPES = {"id": "INT", "n": "INT", "part": "INT", "note": "STRING", "body": "STRING"}


@dataclass
class Source:
    """A table that changes at random, and the records of its changes; ``note`` and ``body`` may be unsent."""

    r: random.Random
    table: str = "items"
    prefix: str = ""
    """Of the columns behind the key."""
    is_partitioned: bool = False
    """Whether each partition is a table: a row that moves to another one is deleted and created."""
    deletes: bool = True
    rows: dict[int, Row] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    number: int = 0

    def after(self, steps: int) -> Source:
        """The source, some changes later."""
        for self.number in range(1, steps + 1):
            self._step(self.r.randrange(4))
        return self

    def _step(self, key: int) -> None:
        old = self.rows.get(key)
        if old is not None and self.deletes and self.r.random() < 0.25:
            self._delete(key)
            return
        new: Row = {"id": key, "n": self.number, "part": self.r.randrange(3)}
        for name in ("note", "body"):
            stays = old is not None and self.r.random() < 0.6
            new[name] = old[name] if old is not None and stays else f"{name[0]}{self.number}"
        if old is not None and self.is_partitioned and old["part"] != new["part"]:
            self._delete(key)
            old = None
        self.rows[key] = new
        unsent = [name for name in ("note", "body") if old is not None and old[name] == new[name]]
        self._emit("u" if old else "c", new, None, {**new, **dict.fromkeys(unsent, HIDDEN)})

    def _delete(self, key: int) -> None:
        old = self.rows.pop(key)
        self._emit("d", old, {**dict.fromkeys(old), "id": key}, None)

    def _emit(self, op: str, row: Row, before: Row | None, after: Row | None) -> None:
        n, key = self.number, json.dumps({"id": row["id"]}).encode()
        place = {"lsn": 1000 + n, "sequence": json.dumps([str(990 + n), str(1000 + n)]), "ts_ms": START_MS + n}
        table = f"p{row['part']}" if self.is_partitioned else self.table
        source = {"db": "shop", "schema": "public", "table": table, "connector": "postgresql", **place}
        value = {"op": op, "before": self._named(before), "after": self._named(after), "source": source}
        topic = f"shop.public.{self.table}"
        self.records.append({"topic": topic, "partition": 0, "key": key, "value": json.dumps(value).encode()})

    def _named(self, row: Row | None) -> Row | None:
        return None if row is None else {n if n == "id" else self.prefix + n: value for n, value in row.items()}


@dataclass(frozen=True)
class Play:
    """Rules, their options, and the records in the order in which they come."""

    rules: Sequence[Mapping[str, object]]
    records: Sequence[Record]
    options: Mapping[str, str] = field(default_factory=dict)


def late_and_again(r: random.Random, records: Sequence[Record]) -> list[Record]:
    """Some records come later than others, and some once more, as from a killed connector."""
    keyed = [(number + (r.randint(1, 6) if r.random() < 0.3 else 0), number) for number in range(len(records))]
    found: list[Record] = []
    for _, number in sorted(keyed):
        found.append(records[number])
        if r.random() < 0.2:
            found += found[-r.randint(1, 4) :]
    return found


def ordered(r: random.Random) -> Play:
    word = r.choice(["sequence", "order_by", "soft order_by", "soft sequence", "soft"])
    rule: dict[str, object] = {"match": {"table": "items"}, "columns": {"types": TYPES}}
    rule |= {"order_by": "source_position"} if "order_by" in word else {}
    rule |= {"history": "soft_delete"} if "soft" in word else {}
    options = {"sequence.field": "n"} if "sequence" in word else {}
    return Play([rule], late_and_again(r, Source(r).after(20).records), options)


def partitioned(r: random.Random) -> Play:
    """Partitions of a table, each a source table of its own, in one topic."""
    rule = {"match": {"table": "p."}, "merge_sources": "same_rows", "columns": {"types": TYPES}}
    return Play([rule], Source(r, is_partitioned=True).after(20).records)


def grouped(r: random.Random) -> Play:
    """Two source tables, each with columns of its own in the row."""
    types = {**TYPES, **{f"b_{name}": t for name, t in TYPES.items() if name != "id"}}
    shared = {"merge_sources": "same_rows", "primary_key": ["id"], "columns": {"types": types}}
    options = {"merge-engine": "partial-update", "fields.n.sequence-group": "part,note,body"}
    options |= {"fields.b_n.sequence-group": "b_part,b_note,b_body"}
    records = late_and_again(r, Source(r, deletes=False).after(12).records)
    records += Source(r, "others", "b_", deletes=False).after(12).records
    r.shuffle(records)
    return Play([{"match": {"table": name}, **shared} for name in ("items", "others")], records, options)


def placed(records: Sequence[Record]) -> list[Record]:
    """The records with offsets and times of this order."""
    offsets: dict[str, int] = {}
    found = []
    for number, record in enumerate(records):
        offsets[record["topic"]] = offset = offsets.get(record["topic"], -1) + 1
        time = (START_MS + 1000 * number) * 1000
        found.append({**record, "offset": offset, "timestamp": time, "headers": None})
    return found


def rows_of(root: Path, play: Play, sizes: Sequence[int], r: random.Random) -> list[Row]:
    """The rows behind batches of these sizes, some of them killed, some in a process of their own."""
    topics = sorted({record["topic"] for record in play.records})
    source = {"kafka": {"bootstrap_servers": "localhost:9", "topics": topics}, "format": "debezium-json"}
    document: dict[str, object] = {"version": 1, "name": "shop", "source": source, "checkpoint": str(root / "state")}
    document |= {"catalog": {"warehouse": str(root)}, "defaults": {"options": {"bucket": "2", **play.options}}}
    document["tables"] = [{"into": "lake.items", **rule} for rule in play.rules]
    pipeline, rest = TrialPipeline(PipelineConfig.model_validate(document), root / "trial"), placed(play.records)
    for size in sizes:
        records = pa.RecordBatch.from_pylist(rest[:size], schema=RECORD_SCHEMA)
        rest = rest[size:]
        (pipeline.run_killed if r.random() < 0.2 else pipeline.run)(records)
        if r.random() < 0.2:
            pipeline.restart()
    assert (pipeline.quarantined, pipeline.paused) == ([], {})
    table = pipeline.tables["lake.items"]
    names = [name for name in table.schema.column_names if not name.startswith("_tidemark")]
    return sorted(table.to_arrow().select(names).to_pylist(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [ordered, partitioned, grouped])
def test_rows_do_not_depend_on_batches(tmp_path: Path, kind: Callable[[random.Random], Play], seed: int) -> None:
    r = random.Random(seed)
    play = kind(r)
    count, sizes = len(play.records), list[int]()
    while sum(sizes) < count:
        sizes.append(min(r.randint(1, 6), count - sum(sizes)))

    assert rows_of(tmp_path / "cut", play, sizes, r) == rows_of(tmp_path / "whole", play, [count], r)
