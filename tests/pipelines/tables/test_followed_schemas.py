"""Columns that are dropped, renamed and retyped at the source while a table follows them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from paimon_table import Table
from pipelines.tables.tables import PipelineTables
from sources.column_sources import OPTION, ColumnSources
from tests.pipelines.tables.test_schema_changes import drawn_value, typed
from tests.support.item_batches import records
from tests.support.local_batches import pipeline_tables, reported_batches
from tests.support.source_content import open_table

WORDS = {"drop": "drop", "rename": "apply", "retype": "new_column"}
PAIMON = {"int32": "INT", "string": "STRING"}
ITEMS: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}


class Source:
    """A source table under ALTER TABLE, and the rows of its Paimon table as a plain fold of what happened."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.types = {"id": "int32", "a": "int32", "b": "string"}
        self.rows: dict[int, dict[str, Any]] = {}
        self.columns = ["id", "a", "b"]
        self.stored = {name: name for name in self.types}
        """The column of the table that a column of the source goes into."""
        self.dropped: list[str] = []
        self.fresh = 0

    @property
    def free(self) -> list[str]:
        """Columns that a rename or a drop may take."""
        return [name for name in self.types if name != "id" and self.stored[name] == name]

    def alter(self) -> None:
        what = self.r.choice(["add", "drop", "rename", "rename"])
        if what == "add" or not self.free:
            # A name that was dropped in an earlier batch may come again: it is another column.
            name = self.dropped.pop() if self.dropped and self.r.random() < 0.5 else self._new_name()
            self.types[name] = self.r.choice(["int32", "string"])
            self.columns.append(name)
            self.stored[name] = name
            return
        old = self.r.choice(self.free)
        if what == "drop":
            del self.types[old], self.stored[old]
            self.columns.remove(old)
            for row in self.rows.values():
                row.pop(old, None)
            return
        new = self._new_name()
        self.types = {new if name == old else name: t for name, t in self.types.items()}
        self.columns[self.columns.index(old)] = new
        self.stored = {new if name == old else name: new if name == old else to for name, to in self.stored.items()}
        self.rows = {k: {new if n == old else n: v for n, v in row.items()} for k, row in self.rows.items()}

    def retype(self) -> None:
        """An INT of the source becomes a text; the table has a column beside it for that."""
        names = [name for name in self.free if self.types[name] == "int32"]
        if names:
            name = self.r.choice(names)
            self.types[name] = "string"
            self.stored[name] = f"{name}_v2"
            self.columns.append(f"{name}_v2")

    def _new_name(self) -> str:
        self.fresh += 1
        return f"n{self.fresh}"

    def write(self) -> tuple[Any, Any]:
        key = self.r.randrange(5)
        row = {name: drawn_value(self.r, kind) for name, kind in self.types.items()} | {"id": key}
        self.rows[key] = {self.stored[name]: value for name, value in row.items()}
        return typed(key, row, self.types)

    @property
    def content(self) -> dict[int, dict[str, Any]]:
        return {key: {name: row.get(name) for name in self.columns} for key, row in self.rows.items()}


def content(tables: PipelineTables) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in open_table(tables, "items").to_arrow().to_pylist()}


def test_any_history_of_ddl_gives_the_rows_of_a_plain_fold(tmp_path: Path) -> None:
    """Several changes may fall into one batch; every third batch a new process begins, some run twice."""
    for seed in range(4):
        r, root = random.Random(seed), tmp_path / str(seed)
        source, offset = Source(r), 0
        config = pipeline_tables(root, [{**ITEMS, "schema_changes": WORDS}]).config
        events = [source.write()]
        for batch in range(8):
            names = {*source.types}
            if batch and r.random() < 0.25:  # a new table has a type that all records of its batch fit
                source.retype()
                events.append(source.write())
            else:
                for _ in range(r.randint(0, 4)):
                    if r.random() < 0.5:
                        source.alter()
                    events.append(source.write())
            if batch % 3 == 0:
                tables = PipelineTables(config, "tidemark-shop-test")
            part = records(*events, first_offset=offset) if events else None
            if part is not None:
                quarantine, _ = reported_batches(tables, [part], root, batch, config.decoder)
                if r.random() < 0.2:
                    again = PipelineTables(config, "tidemark-shop-test")
                    reported_batches(again, [part], root, batch, config.decoder)

                assert content(tables) == source.content, f"seed {seed}, batch {batch}"
            source.dropped += sorted(names - {*source.types} - {*source.columns})
            offset, events = offset + len(events), []
        assert not list(Path(quarantine.path).rglob("*.jsonl")), f"seed {seed}"
