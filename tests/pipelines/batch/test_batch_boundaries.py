"""Tables do not depend on where batches end: random histories in one batch, record by record, and in between.

Rows change, move to other keys, go, and leave out large values that did not change, as Debezium writes that.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.storage.file_io import LocalFileIO
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from tests.support.column_rules import HIDDEN
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.source_content import open_table

Row = dict[str, Any]
START_MS = 1_700_000_000_000
TYPES = {"id": "INT", "n": "INT", "a": "INT", "big": "STRING"}
LAST = {"fields.default-aggregate-function": "last_non_null_value", "ignore-delete": "true"}
MIXED = {"fields.a.aggregate-function": "sum", "fields.n.aggregate-function": "max", "ignore-delete": "true"}
WORDS: dict[str, tuple[Mapping[str, object], Mapping[str, str]]] = {
    "plain": ({}, {}),
    "filter": ({"where": "a IS NULL OR a <> 3"}, {}),
    "soft_delete": ({"history": "soft_delete"}, {}),
    "scd2": ({"history": "scd2", "where": "a IS NULL OR a <> 3"}, {}),
    "order_by": ({"order_by": "source_position"}, {}),
    "sequence": ({}, {"sequence.field": "n"}),
    "partial-update": ({}, {"merge-engine": "partial-update", "ignore-delete": "true"}),
    "sequence-group": ({}, {"merge-engine": "partial-update", "fields.n.sequence-group": "a,big"}),
    "aggregation": ({"before": "full"}, {"merge-engine": "aggregation", **MIXED}),
    "last value": ({"before": "full"}, {"merge-engine": "aggregation", "sequence.field": "n", **LAST}),
    "first-row": ({}, {"merge-engine": "first-row", "ignore-delete": "true"}),
}
PARTIAL = ("partial-update", "sequence-group")


EXCHANGES = (
    ("2", "2>1", "2"),
    ("2", "2>1", "1>2", "1"),
    ("2", "2>>1", "1>2", "2>1", "2"),
)


class Source:
    """A source table and the records of its changes in one partition; ``is_whole``: with whole old rows."""

    def __init__(self, seed: int, *, has_moves: bool, is_whole: bool = False) -> None:
        self.r = random.Random(seed)
        self.has_moves, self.is_whole = has_moves, is_whole
        self.changes_per_ms = self.r.choice([1, 3])
        self.rows: dict[int, Row] = {}
        self.records: list[Row] = []

    def history(self, count: int) -> list[Row]:
        while len(self.records) < count:
            key, what = self.r.randrange(4), self.r.random()
            old = self.rows.get(key)
            if old is not None and what < 0.2:
                self._record("d", self.rows.pop(key), None)
                self._tombstone(key)
            elif old is not None and what < 0.45 and self.has_moves:
                self._move(
                    old, self.r.choice([other for other in range(4) if other != key]), is_sent=self.r.random() < 0.3
                )
            else:
                is_sent = old is None or old["big"] is None or self.r.random() < 0.5
                self.rows[key] = new = self._row(key, self._large() if is_sent or old is None else old["big"])
                self._record("c" if old is None else "u", old, new, is_sent=is_sent)
        return self.records

    def scripted(self, steps: Sequence[str]) -> list[Row]:
        """Inserts (`1`), and rows that move to another key, without their large value (`1>2`) or with a new one
        (`1>>2`)."""
        for step in steps:
            key, *others = map(int, step.replace(">>", ">").split(">"))
            if others:
                self._move(self.rows[key], others[0], is_sent=">>" in step)
            else:
                self.rows[key] = self._row(key, f"b{len(self.records)}")
                self._record("c", None, self.rows[key])
        return self.records

    def _move(self, old: Row, key: int, *, is_sent: bool) -> None:
        if key in self.rows:
            return
        self._record("d", self.rows.pop(old["id"]), None, newkey=key)
        self._tombstone(old["id"])
        is_sent = is_sent or old["big"] is None
        self.rows[key] = self._row(key, self._large() if is_sent else old["big"])
        self._record("c", None, self.rows[key], is_sent=is_sent, oldkey=old["id"])

    def _row(self, key: int, large: str | None) -> Row:
        return {"id": key, "n": len(self.records), "a": self.r.choice([None, 1, 2, 3]), "big": large}

    def _large(self) -> str | None:
        return self.r.choice([None, f"b{len(self.records)}"])

    def _record(self, op: str, old: Row | None, new: Row | None, *, is_sent: bool = True, **keys: int) -> None:
        offset, row = len(self.records), new or old or {}
        time_ms = START_MS + offset // self.changes_per_ms
        source = {
            "db": "shop", "schema": "public", "table": "items", "connector": "postgresql", "ts_ms": time_ms,
            "lsn": 1000 + offset, "sequence": json.dumps([str(990 + offset), str(1000 + offset)]),
        }  # fmt: skip
        if not self.is_whole:
            old = {**dict.fromkeys(TYPES), "id": row["id"]} if op == "d" else None
        after = new if new is None or is_sent else {**new, "big": HIDDEN}
        headers = [
            {"key": f"__debezium.{name}", "value": json.dumps({"id": key}).encode()} for name, key in keys.items()
        ]
        self._add(row["id"], {"op": op, "before": old, "after": after, "source": source}, headers)

    def _tombstone(self, key: int) -> None:
        if self.r.random() < 0.4:
            self._add(key, None, [])

    def _add(self, key: int, value: Row | None, headers: list[Row]) -> None:
        offset = len(self.records)
        self.records.append({
            "topic": "shop.public.items", "partition": 0, "offset": offset, "headers": headers,
            "timestamp": datetime.fromtimestamp((START_MS + offset) / 1000, UTC),
            "key": json.dumps({"id": key}).encode(),
            "value": None if value is None else json.dumps(value).encode(),
        })  # fmt: skip


def content(root: Path, rule: Mapping[str, object], options: Mapping[str, str], parts: Sequence[Sequence[Row]]) -> Any:
    """The rows of the table after these batches; no record is bad."""
    config = shop_config(root, [{"match": {"table": "items"}, "into": "lake.items", **rule}], options)
    tables = PipelineTables(config, "tidemark-shop-test")
    settings = task_settings(root, Quarantine(LocalFileIO(), str(root / "quarantine")), config.decoder)
    batches = [pa.RecordBatch.from_pylist(part, schema=RECORD_SCHEMA) for part in parts]
    assert not any(report.quarantined_reasons for report in processed(tables, batches, settings))
    table = open_table(tables, "items")
    names = [name for name in table.schema.column_names if not name.startswith("_tidemark")]
    return sorted(table.to_arrow().select(names).to_pylist(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("word", WORDS)
def test_a_table_does_not_depend_on_where_batches_end(tmp_path: Path, word: str, seed: int) -> None:
    rule, options = WORDS[word]
    r = random.Random(f"{word} {seed}")
    producer = r.choice(["none", "lookup"] if word == "first-row" else ["none", "lookup", "full-compaction"])
    is_whole = "before" in rule or (word in PARTIAL and producer != "none") or r.random() < 0.3
    rule = {**rule, "columns": {"types": TYPES}, **({"before": "full"} if is_whole else {})}
    bucket = r.choice(["1", "2"] if word == "scd2" else ["1", "2", "-1"])
    options = {**options, "bucket": bucket, "changelog-producer": producer}
    options |= {"full-compaction.delta-commits": "1"} if producer == "full-compaction" else {}
    source = Source(r.randrange(1 << 30), has_moves=word != "first-row", is_whole=is_whole)
    records = source.history(r.randint(8, 18))

    cuts = sorted({0, len(records), *r.sample(range(len(records)), 3)})
    splits = {"one": [records], "each": [[record] for record in records]}
    splits["some"] = [records[begin:end] for begin, end in pairwise(cuts)]
    found = {how: content(tmp_path / how, rule, options, parts) for how, parts in splits.items()}

    assert found["one"] == found["each"]
    assert found["some"] == found["each"]
    if word in ("plain", "soft_delete", "order_by", "sequence"):
        assert live(found["each"]) == sorted(source.rows.values(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["plain", "soft_delete"])
@pytest.mark.parametrize("steps", EXCHANGES, ids=str)
def test_rows_that_exchange_few_keys_have_their_values_however_batches_are_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, word: str, steps: Sequence[str]
) -> None:
    """In up to three batches and record by record. Each value is known, so no warning reports one."""
    source = Source(0, has_moves=True)
    records = source.scripted(steps)
    rule, options = {**WORDS[word][0], "columns": {"types": TYPES}}, {"bucket": "1", "changelog-producer": "none"}

    within = range(1, len(records))
    for places in (places for count in (0, 1, 2, len(within)) for places in combinations(within, count)):
        parts = [records[begin:end] for begin, end in pairwise((0, *places, len(records)))]
        found = content(tmp_path / repr(places), rule, options, parts)
        assert live(found) == sorted(source.rows.values(), key=repr), [len(part) for part in parts]
    assert "source did not send" not in caplog.text


def live(rows: Sequence[Row]) -> list[Row]:
    """The rows that are not marked as deleted, without the mark."""
    return [{name: row[name] for name in TYPES} for row in rows if row.get("deleted_at") is None]
