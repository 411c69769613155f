"""Columns that are dropped, renamed and retyped at the source while a table follows them."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from paimon_table import (
    DescribeColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    apply_changes,
    create_schema,
)
from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.types import parse_type
from pipelines.config.schema_changes import PRESETS
from pipelines.tables.column_changes import column_differences
from pipelines.tables.renames import Renames, renames
from pipelines.tables.tables import PipelineTables
from pipelines.trial.ddl import alter_table
from sinks.commit.own_position import OwnReading
from sources.changes import RECORD_SCHEMA, ShownSchema
from sources.column_sources import OPTION
from sources.observed_columns import merged_schemas
from tests.support.avro_topics import AvroTopics
from tests.support.item_batches import drawn_value, records, typed
from tests.support.local_batches import dump_batches, pipeline_tables, reported_batches, shop_config
from tests.support.quarantined import record, run_batch, table, write_pipeline
from tests.support.rebuilt_tables import finish, job
from tests.support.replay import CAPTURES
from tests.support.replayed_topic import Topic
from tests.support.source_content import assert_equals_source, open_table

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("size", "in_avro"), [(1, False), (1000, False), (5, True)])
def test_captured_alter_tables_of_postgresql_are_followed(tmp_path: Path, size: int, in_avro: bool) -> None:
    """Columns were added, widened, renamed and dropped: the table has the columns and rows of the source."""
    words = {"drop": "drop", "rename": "apply"}
    tables = pipeline_tables(tmp_path, [{"match": {"table": "acct"}, "into": "lake.acct", "schema_changes": words}])
    batches = [
        batch.filter([topic.endswith(".acct") for topic in batch.column("topic").to_pylist()])
        for batch in dump_batches(CAPTURES / "evolve_schema.jsonl.gz", size)
    ]
    decoder = tables.config.decoder
    if in_avro:
        topics = AvroTopics()
        batches = [topics.batch(batch) for batch in batches]
        decoder = topics.decoder(tmp_path)

    reported_batches(tables, [batch for batch in batches if batch.num_rows], tmp_path, 0, decoder)

    table = open_table(tables, "acct")
    assert {*table.schema.column_names} == {"id", "title", "balance", "email", "flag"}
    assert_equals_source(table, "evolve", "acct", ["id"], set())


def two_partitions(*events: tuple[int, int, tuple[Any, Any]]) -> pa.RecordBatch:
    """Records as (partition, offset, event); the time of a record is its place among them."""
    batches = [records(event, first_offset=offset) for _, offset, event in events]
    rows = [row for batch in batches for row in batch.to_pylist()]
    start = datetime(2024, 1, 1, tzinfo=UTC)
    for number, (row, (partition, _, _)) in enumerate(zip(rows, events, strict=True)):
        row |= {"partition": partition, "timestamp": start + timedelta(seconds=number)}
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


AB = {"id": "int32", "a": "int32", "b": "string"}
AC = {"id": "int32", "a": "int32", "c": "string"}
A = {"id": "int32", "a": "int32"}


def at(key: int, types: dict[str, str], **row: Any) -> tuple[Any, Any]:
    return typed(key, {"id": key, **row}, types)


def run(root: Path, words: dict[str, str], *batches: pa.RecordBatch, first: int = 0, **rule: Any) -> PipelineTables:
    """Each batch in a process of its own."""
    config = pipeline_tables(root, [{**ITEMS, "schema_changes": words, **rule}]).config
    for number, batch in enumerate(batches, first):
        tables = PipelineTables(config, "tidemark-shop-test")
        reported_batches(tables, [batch], root, number, config.decoder)
    return tables


def reasons(root: Path) -> list[str]:
    files = sorted((root / "quarantine").rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


@pytest.mark.slow
def test_a_partition_that_is_behind_keeps_a_column_and_its_late_rows(tmp_path: Path) -> None:
    """One partition has rows without the column; the other one still brings values of it."""
    tables = run(
        tmp_path,
        {"drop": "drop"},
        two_partitions((0, 0, at(1, AB, a=1, b="x")), (1, 0, at(2, AB, a=2, b="y"))),
        two_partitions((0, 1, at(1, A, a=3))),
    )
    assert content(tables) == {1: {"id": 1, "a": 3, "b": None}, 2: {"id": 2, "a": 2, "b": "y"}}

    late = two_partitions((1, 1, at(2, AB, a=4, b="late")), (0, 2, at(1, A, a=3)))
    assert content(run(tmp_path, {"drop": "drop"}, late, first=2))[2] == {"id": 2, "a": 4, "b": "late"}

    after = two_partitions((0, 3, at(1, A, a=5)), (1, 2, at(2, A, a=6)))
    assert content(run(tmp_path, {"drop": "drop"}, after, first=3)) == {1: {"id": 1, "a": 5}, 2: {"id": 2, "a": 6}}


@pytest.mark.slow
def test_records_of_before_a_drop_bring_nothing_into_a_later_column_of_the_name(tmp_path: Path) -> None:
    """A replay brings old records again: what they have in the column belongs to the one that is gone."""
    root, words = tmp_path, {"drop": "drop"}
    old = records(at(1, AB, a=1, b="old"), at(2, AB, a=2, b="old"))
    gone = records(at(1, A, a=1), first_offset=2)
    again = records(at(1, AB, a=1, b="new"), first_offset=3)
    tables = run(root, words, old, gone)
    assert "b" not in open_table(tables, "items").schema.column_names
    assert content(run(root, words, again, first=2)) == {
        1: {"id": 1, "a": 1, "b": "new"},
        2: {"id": 2, "a": 2, "b": None},
    }

    beside = OwnReading(lambda _: {"replay": "r"}, by_offsets=False)
    config = tables.config
    replayed = PipelineTables(config, "tidemark-shop-replay", beside=beside)
    reported_batches(replayed, [old], root, 100, config.decoder)

    assert content(tables) == {1: {"id": 1, "a": 1, "b": None}, 2: {"id": 2, "a": 2, "b": None}}
    assert open_table(tables, "items").schema.column_names == ("id", "a", "b")


@pytest.mark.parametrize("words", [{"drop": "pause"}, {"drop": "keep_null"}])
def test_a_replay_of_records_of_before_a_column_takes_it_for_no_drop(
    tmp_path: Path, words: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    old = records(at(1, A, a=1))
    tables = run(tmp_path, words, old, records(at(2, AB, a=2, b="new"), first_offset=1))
    beside = OwnReading(lambda _: {"replay": "r"}, by_offsets=False)
    replayed = PipelineTables(tables.config, "tidemark-shop-replay", beside=beside)
    caplog.clear()

    reported_batches(replayed, [old], tmp_path, 100, tables.config.decoder)

    assert "have no column" not in caplog.text
    assert content(tables) == {1: {"id": 1, "a": 1, "b": None}, 2: {"id": 2, "a": 2, "b": "new"}}


@pytest.mark.slow
def test_a_renamed_column_keeps_its_values_and_those_of_partitions_behind(tmp_path: Path) -> None:
    words = {"rename": "apply"}
    first = two_partitions((0, 0, at(1, AB, a=1, b="x")), (1, 0, at(2, AB, a=2, b="y")))
    tables = run(tmp_path, words, first)
    field_id = open_table(tables, "items").schema.field("b").id

    renamed = two_partitions((1, 1, at(5, AB, a=5, b="v")), (0, 1, at(3, AC, a=3, c="z")))
    late, newer = (two_partitions((1, 2 + n, one)) for n, one in enumerate((at(4, AB, b="late"), at(2, AC, c="w"))))
    tables = run(tmp_path, words, renamed, late, newer, first=1)

    table = open_table(tables, "items")
    assert table.schema.field("c").id == field_id and not table.schema.has_column("b")
    assert {key: row["c"] for key, row in content(tables).items()} == {1: "x", 2: "w", 3: "z", 4: "late", 5: "v"}
    schemas = table.context.schemas
    told = [kind for n in range(1, len(schemas)) for kind, _ in column_differences(schemas[n - 1], schemas[n])]
    assert told == ["rename"]


@pytest.mark.parametrize(
    ("words", "types", "found"),
    [
        ({"rename": "apply"}, {"id": "int32", "a": "int32", "c": "string"}, {"id": 2, "a": 7, "c": "longer"}),
        ({"retype": "to_string"}, {**AB, "a": "string"}, {"id": 2, "a": "7", "b": "longer"}),
    ],
    ids=["renamed", "retyped"],
)
def test_a_row_that_moves_while_its_columns_change_takes_its_unsent_values_along(
    tmp_path: Path, words: dict[str, str], types: dict[str, str], found: dict[str, Any]
) -> None:
    """A batch ends between the delete of the old key and the row under the new one."""
    (_, delete), hidden = at(1, AB), "__debezium_unavailable_value"
    delete["payload"] |= {"op": "d", "before": {"id": 1}, "after": None}
    texts = {name: hidden for name, kind in types.items() if kind == "string"}
    left = records(at(1, AB, a=7, b="longer"), ({"id": 1}, delete), first_offset=1).to_pylist()
    came = records(at(2, types, **{"a": 7, **texts}), first_offset=3).to_pylist()
    left[1]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
    came[0]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]

    batches = (pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA) for rows in (left, came))
    tables = run(tmp_path, words, records(at(1, AB, a=1, b="long")), *batches)

    assert content(tables) == {2: found}


def test_without_a_schema_nobody_knows_what_a_former_name_means(tmp_path: Path) -> None:
    schemaless = ({"id": 5}, {**at(5, AB, a=5, b="?")[1]["payload"]})
    run(tmp_path, {"rename": "apply"}, records(at(1, AB, a=1, b="x")), records(at(1, AC, a=1, c="y"), first_offset=1))
    tables = run(tmp_path, {"rename": "apply"}, records(schemaless, first_offset=2), first=2)

    assert content(tables) == {1: {"id": 1, "a": 1, "c": "y"}}
    assert "had this name earlier" in reasons(tmp_path)[0]


@pytest.mark.parametrize(
    ("known", "shown", "expected"),
    [
        ("id a b", "id a c", Renames((("b", "c"),))),
        ("id a b", "id a", Renames()),
        ("id a b", "id a b c", Renames()),
        ("id a b z:STRING", "id a c z:STRING d", Renames((("b", "c"),))),
        ("id b:STRING", "id c", Renames()),  # another type
        ("id a b z", "c id a z", Renames()),  # another place
        ("id a b", "id a c d", Renames((), ((("b",), ("c", "d")),))),
        ("id a b", "id c", Renames((), ((("a", "b"), ("c",)),))),
        ("id a:STRING b", "id c d:STRING", Renames((), ((("a", "b"), ("d", "c")),))),
        ("id gone b", "id c", Renames((("b", "c"),))),
        ("id a b", "id a was", Renames()),  # a former name
    ],
)
def test_one_column_in_the_place_of_another_is_its_new_name(known: str, shown: str, expected: Renames) -> None:
    def columns(text: str) -> list[tuple[str, Any]]:
        parts = (part.partition(":") for part in text.split())
        return [(name, parse_type(t or "INT")) for name, _, t in parts]

    assert renames(columns(known), columns(shown), {"gone"}, {"was"}) == expected


def test_a_column_that_was_lost_before_is_not_renamed_to_a_later_one(tmp_path: Path) -> None:
    words = {"rename": "apply"}
    batches = [records(at(1, AB, a=1, b="x")), records(at(1, A, a=2), first_offset=1)]
    tables = run(tmp_path, words, *batches, records(at(2, AC, a=3, c="z"), first_offset=2))

    assert content(tables) == {1: {"id": 1, "a": 2, "b": None, "c": None}, 2: {"id": 2, "a": 3, "b": None, "c": "z"}}


def cut(events: list[tuple[Any, Any]], *sizes: int) -> list[pa.RecordBatch]:
    """Batches of these sizes."""
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [records(*events[first : first + n], first_offset=first) for first, n in zip(starts, sizes, strict=True)]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 3), (4,)])
def test_a_column_that_came_and_went_within_a_batch_is_not_renamed_to_a_later_one(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    events = [at(1, A, a=1), at(1, AB, a=1, b="x"), at(2, A, a=2), at(2, AC, a=3, c="z")]
    tables = run(tmp_path, {"rename": "apply"}, *cut(events, *sizes))

    assert content(tables) == {1: {"id": 1, "a": 1, "b": "x", "c": None}, 2: {"id": 2, "a": 3, "b": None, "c": "z"}}


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 2), (3,)])
@pytest.mark.parametrize("between", [("a", "int64"), ("n", "int32")], ids=["widened first", "renamed first"])
def test_a_column_that_was_widened_and_renamed_within_a_batch_keeps_its_values(
    tmp_path: Path, sizes: tuple[int, ...], between: tuple[str, str]
) -> None:
    name, kind = between
    second = at(2, {"id": "int32", name: kind}, **{name: 2})
    events = [at(1, A, a=1), second, at(3, {"id": "int32", "n": "int64"}, n=1 << 40)]
    tables = run(tmp_path, {"rename": "apply"}, *cut(events, *sizes))

    assert content(tables) == {key: {"id": key, "n": n} for key, n in ((1, 1), (2, 2), (3, 1 << 40))}


def test_schemas_that_alternate_count_a_few_times_and_the_newest_one_last() -> None:
    def shown(name: str, offset: int, partition: int = 0) -> ShownSchema:
        return ShownSchema(
            ((name, parse_type("INT")),), offset, partition, offset, {f"t/{partition}": (offset, offset)}
        )

    alternating = [shown("ab"[offset % 2], offset) for offset in range(100)]
    found = merged_schemas([*reversed(alternating), shown("a", 7, partition=1)])

    assert [(one.columns[0][0], one.offset) for one in found] == [
        ("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 98), ("b", 99),
    ]  # fmt: skip
    assert found[0].firsts == {"t/0": (0, 0), "t/1": (7, 7)}


class Namer:
    """A source table whose columns, all of one type, come, go, and change their names at random, in one partition."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.names = ["a", "b"]
        self.was: list[list[str]] = []
        self.found: list[dict[str, Any]] = []

    def history(self) -> list[dict[str, Any]]:
        self._write()
        for _ in range(self.r.randint(3, 9)):
            free = [name for name in "abcdef" if name not in self.names]
            match self.r.choice(["add", "rename", "back", "back"]):
                case "add" if free:
                    self.names = [*self.names, self.r.choice(free)]
                case "rename" if free:
                    new, at = self.r.choice(free), self.r.randrange(len(self.names))
                    self.names = [*self.names[:at], new, *self.names[at + 1 :]]
                case "back":
                    self.names = self.r.choice(self.was)
            self._write()
        return self.found

    def _write(self) -> None:
        offset, key = len(self.found), self.r.randrange(3)
        self.was.append(self.names)
        types = {"id": "int32", **dict.fromkeys(self.names, "string")}
        row = {"id": key, **{name: f"{name}{offset}" for name in self.names}}
        record_row = records(typed(key, row, types), first_offset=offset).to_pylist()[0]
        self.found.append(record_row | {"timestamp": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=offset)})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_renamed_columns_do_not_depend_on_where_batches_end(tmp_path: Path, seed: int) -> None:
    rows = Namer(seed).history()
    found = []
    for size in (1, 3, len(rows)):
        parts = [rows[at : at + size] for at in range(0, len(rows), size)]
        batches = [pa.RecordBatch.from_pylist(part, schema=RECORD_SCHEMA) for part in parts]
        tables = run(tmp_path / str(size), {"rename": "apply"}, *batches)
        rows_of_table = content(tables).items()
        found.append({key: {name: v for name, v in row.items() if v is not None} for key, row in rows_of_table})
        assert reasons(tmp_path / str(size)) == []
    assert found[1:] == found[:1] * 2


PAUSES: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, str], str]] = {
    "rename": ({"rename": "pause"}, {}, AC, "schema_changes: {rename: pause}"),
    "freeze": (dict(PRESETS["freeze"]), {}, AC, "schema_changes: {rename: pause}"),
    "unclear": ({"rename": "pause"}, {}, {**AC, "d": "string"}, "c, d of the same type"),
    "renamed, named by an option": ({"rename": "apply"}, {"options": {"sequence.field": "b"}}, AC, "sequence.field"),
    "dropped, named by an option": ({"drop": "drop"}, {"options": {"sequence.field": "b"}}, A, "sequence.field"),
    "dropped, named by the rule": ({"drop": "drop"}, {"columns": {"rename": {"b": "bb"}}}, A, "the rule names it"),
    "retyped, named by an option": (
        {"retype": "new_column"}, {"options": {"sequence.field": "a"}}, {**AB, "a": "string"}, "sequence.field",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PAUSES)
def test_a_change_that_is_no_option_pauses_the_table_before_it(tmp_path: Path, case: str) -> None:
    words, rule, types, told = PAUSES[case]
    row: dict[str, Any] = {name: "8" if kind == "string" else 8 for name, kind in types.items() if name != "id"}
    tables = run(tmp_path, words, records(at(1, AB, a=1, b="x")), **rule)
    before = open_table(tables, "items").schema

    with pytest.raises(SchemaChangeRefused, match=told):
        run(tmp_path, words, records(at(2, types, **row), first_offset=1), first=1, **rule)

    assert open_table(tables, "items").schema == before


@pytest.mark.slow
def test_a_retyped_column_goes_on_beside_and_its_late_rows_too(tmp_path: Path) -> None:
    """What the source's column feeds is in the table alone: each batch has a process and a checkpoint of its own."""
    words = {"retype": "new_column"}
    text = {**AB, "a": "string"}
    late = records(at(3, AB, a=33, b="late"), first_offset=2)
    back = records(at(4, AB, a=44, b="back"), at(5, text, a="five", b="v"), first_offset=3)
    tables = run(
        tmp_path, words, records(at(1, AB, a=1, b="x")), records(at(2, text, a="two"), first_offset=1), late, back
    )

    rows = {key: (row["a"], row["a_v2"]) for key, row in content(tables).items()}
    assert rows == {1: (1, None), 2: (None, "two"), 3: (None, "33"), 4: (None, "44"), 5: (None, "five")}
    assert [str(f.type) for f in open_table(tables, "items").schema.fields] == [
        "INT NOT NULL",
        "INT",
        "STRING",
        "STRING",
    ]

    odd = records(at(6, {**AB, "a": "double"}, a=1.5), first_offset=5)
    tables = run(tmp_path, {"retype": "cast"}, odd, first=4)
    assert content(tables)[6] == {"id": 6, "a": None, "b": None, "a_v2": "1.5"}


@pytest.mark.parametrize(
    ("word", "renamed"), [("keep_null", {}), ("drop", {}), ("pause", {}), ("keep_null", {"a": "aa"})]
)
def test_a_column_that_another_one_continues_is_not_a_lost_one(
    tmp_path: Path, word: str, renamed: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    words, text, flag = {"retype": "new_column", "drop": word}, {**AB, "a": "string"}, {**AB, "a": "boolean"}
    second = records(at(2, text, a="two", b="x"), first_offset=1)
    third = records(at(3, flag, a=True, b="x"), first_offset=2)
    rule: dict[str, Any] = {"columns": {"rename": renamed}} if renamed else {}
    tables = run(tmp_path, words, records(at(1, AB, a=1, b="x")), second, third, **rule)

    names = [f"{renamed.get('a', 'a')}{suffix}" for suffix in ("", "_v2", "_v3")]
    rows = {key: tuple(row[name] for name in names) for key, row in content(tables).items()}
    assert rows == {1: (1, None, None), 2: (None, "two", None), 3: (None, None, True)}
    assert "no column" not in caplog.text


def test_a_column_that_gets_another_type_and_is_dropped_in_one_batch_goes_on_beside(tmp_path: Path) -> None:
    batch = records(
        at(2, {**AB, "a": "string"}, a="two", b="x"), at(3, {"id": "int32", "b": "string"}, b="x"), first_offset=1
    )
    tables = run(tmp_path, {"retype": "new_column"}, records(at(1, AB, a=1, b="x")), batch)
    assert {key: (row["a"], row["a_v2"]) for key, row in content(tables).items()} == {
        1: (1, None),
        2: (None, "two"),
        3: (None, None),
    }


def test_a_new_type_of_one_of_several_source_tables_moves_no_column_of_the_others(tmp_path: Path) -> None:
    """The word comes from `defaults`: in the rule it is refused."""
    rule: dict[str, object] = {**ITEMS, "match": {"table": "items.*"}, "merge_sources": "disjoint_keys"}
    config = shop_config(tmp_path, [rule], {}, defaults={"schema_changes": {"retype": "new_column"}})
    text = at(2, {**AB, "a": "string"}, a="two", b="x")
    text[1]["payload"]["source"]["table"] = "items2"
    wide = at(3, {**AB, "a": "int64"}, a=1 << 40, b="x")
    for number, one in enumerate([at(1, AB, a=1, b="x"), text, wide]):
        batch = records(one, first_offset=number)
        tables = PipelineTables(config, "tidemark-shop-test")
        reported_batches(tables, [batch], tmp_path, number, config.decoder)
    assert {key: row["a"] for key, row in content(tables).items()} == {1: 1, 3: 1 << 40}
    assert "column a INT" in reasons(tmp_path)[0]


def test_a_lost_column_whose_values_are_in_two_columns_is_not_dropped(tmp_path: Path) -> None:
    words = {"retype": "new_column", "drop": "drop"}
    second = records(at(2, {**AB, "a": "string"}, a="two", b="x"), first_offset=1)
    run(tmp_path, words, records(at(1, AB, a=1, b="x")), second)
    with pytest.raises(SchemaChangeRefused, match=r"columns a, a_v2 of the table .* Set keep_null and resume"):
        run(tmp_path, words, records(at(3, {"id": "int32", "b": "string"}, b="x"), first_offset=2), first=2)


@pytest.mark.slow
def test_comments_follow_the_newest_schema(tmp_path: Path) -> None:
    def described(key: int, comment: str | None) -> tuple[Any, Any]:
        event = at(key, A, a=key)
        column = event[1]["schema"]["fields"][0]["fields"][1]
        column |= {} if comment is None else {"doc": comment}
        return event

    def comment_of(tables: PipelineTables) -> str | None:
        return open_table(tables, "items").schema.field("a").description

    tables = run(tmp_path, {}, two_partitions((0, 0, described(1, "old")), (1, 0, described(2, "new"))))
    assert comment_of(tables) == "new"
    assert comment_of(run(tmp_path, {}, records(described(3, None), first_offset=1), first=1)) == "new"
    assert (
        comment_of(run(tmp_path, {"comment": "ignore"}, records(described(3, "x"), first_offset=2), first=2)) == "new"
    )
    told = run(tmp_path, {}, records(described(3, "last"), first_offset=3), first=3)
    assert comment_of(told) == "last"


def test_an_added_column_with_a_default_pauses_where_older_rows_would_lack_it(tmp_path: Path) -> None:
    event = at(2, AB, a=2, b="x")
    event[1]["schema"]["fields"][0]["fields"][2]["default"] = "none"
    tables = run(tmp_path, {"default": "pause"}, records(at(1, A, a=1)))

    with pytest.raises(SchemaChangeRefused, match="default: pause"):
        run(tmp_path, {"default": "pause"}, records(event, first_offset=1), first=1)
    assert content(run(tmp_path, {}, records(event, first_offset=1), first=1))[1] == {"id": 1, "a": 1, "b": None}
    assert content(tables)[2]["b"] == "x"


def test_a_default_is_seen_in_whichever_partition_of_a_batch_it_is(tmp_path: Path) -> None:
    event = at(2, AB, a=2, b="x")
    event[1]["schema"]["fields"][0]["fields"][2]["default"] = "none"
    run(tmp_path, {"default": "pause"}, records(at(1, A, a=1)))

    both = two_partitions((0, 1, event), (1, 0, at(3, AB, a=3, b="y")))
    for batch in (both, both.take(pa.array([1, 0]))):
        with pytest.raises(SchemaChangeRefused, match="default: pause"):
            run(tmp_path, {"default": "pause"}, batch, first=1)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"columns": {"add": {"twice": "a * 2"}}}, "twice: a \\* 2"),
        ({"columns": {"add": {"t": "truncate(a, 10)"}}}, "columns: t: .* a text to its beginning"),
        ({"where": "CAST(truncate(a, 10) AS INTEGER) < 20"}, "where: .* a text to its beginning"),
    ],
)
def test_an_expression_that_a_new_type_breaks_pauses_before_the_column_changes(
    tmp_path: Path, rule: dict[str, Any], told: str
) -> None:
    tables = run(tmp_path, {"retype": "to_string"}, records(at(1, A, a=1)), **rule)
    before = open_table(tables, "items").schema

    with pytest.raises(ConfigError, match=told):
        batch = records(at(2, {**A, "a": "string"}, a="2"), first_offset=1)
        run(tmp_path, {"retype": "to_string"}, batch, first=1, **rule)

    assert open_table(tables, "items").schema == before


@pytest.mark.parametrize(
    ("rule", "keys", "told"),
    [
        ({"schema_changes": {"rename": "apply", "add": "ignore"}}, {}, "Tidemark sees no new column names"),
        ({"schema_changes": {"rename": "apply"}, "merge_sources": "same_rows"}, {}, "one of several source tables"),
        ({"schema_changes": {"drop": "drop"}, "merge_sources": "same_rows"}, {}, "one of several source tables"),
        ({"schema_changes": {"retype": "new_column"}, "merge_sources": "same_rows"}, {}, "one of several source"),
        ({"schema_changes": {"retype": "new_column"}, "history": "soft_delete"}, {}, "keeps the columns of the source"),
        ({"schema_changes": {"rename": "apply"}}, {"format": "maxwell-json"}, "those of maxwell-json have none"),
        ({"schema_changes": {"default": "pause"}}, {"format": "json"}, "those of json have none"),
        ({"schema_changes": {"drop": "drop"}}, {"format": "json"}, "records of json may omit NULL values"),
        ({"schema_changes": {"drop": "drop"}}, {"format": "maxwell-json"}, "no record shows a dropped column"),
    ],
)
def test_words_without_effect_are_refused(
    tmp_path: Path, rule: dict[str, Any], keys: dict[str, str], told: str
) -> None:
    source = {"files": {"path": str(tmp_path)}, "format": "debezium-json", **keys}
    with pytest.raises(ValidationError, match=told):
        shop_config(tmp_path, [{**ITEMS, **rule}], {}, source=source)


def test_a_plan_shows_renamed_dropped_and_described_columns() -> None:
    before = create_schema([(name, parse_type("INT")) for name in ("id", "a", "b", "c")], ["id"])
    changes: list[SchemaChange] = [
        RenameColumn("a", "aa"),
        DropColumn("b"),
        DescribeColumn("c", "it's c"),
        SetOption(OPTION, "{}"),
    ]

    assert alter_table("lake.items", before, apply_changes(before, changes, 0), {}) == [
        "ALTER TABLE `lake`.`items` RENAME `a` TO `aa`;",
        "ALTER TABLE `lake`.`items` DROP (`b`);",
        "ALTER TABLE `lake`.`items` MODIFY (`c` INT COMMENT 'it''s c');",
    ]


@pytest.mark.slow
def test_a_rebuild_reads_records_under_their_own_schemas(tmp_path: Path) -> None:
    """Former names mean their column until they come again, and values of a dropped column go nowhere."""
    file = write_pipeline(tmp_path)
    file.write_text(f"{file.read_text()}    schema_changes: {{ rename: apply, drop: drop }}\n")

    def line(offset: int, types: dict[str, str], **row: Any) -> dict[str, Any]:
        key, value = typed(offset % 2, {"id": offset % 2, "n": offset, **row}, {"id": "int32", "n": "int32", **types})
        value["payload"]["source"]["table"] = "orders"
        return record(offset, json.dumps(value).encode(), key=key["id"])

    text, number = "string", "int64"
    history = [
        line(0, {"b": text, "gone": number}, b="zero", gone=1),
        line(1, {"b": text, "gone": number}, b="one", gone=2),
        line(2, {"c": text}, c="two"),
        line(4, {"c": text, "gone": text}, c="four", gone="again"),
        line(6, {"c": text, "gone": text, "b": text}, c="six", gone="again", b="new"),
    ]
    for batch, one in enumerate(([0, 1], [2], [3], [4])):
        run_batch(tmp_path, file, batch, *(history[n] for n in one))
    expected = [
        {"id": 0, "n": 6, "c": "six", "gone": "again", "b": "new"},
        {"id": 1, "n": 1, "c": "one", "gone": None, "b": None},
    ]
    assert table(tmp_path).to_arrow().sort_by("id").to_pylist() == expected

    done = finish(job(Topic(tmp_path, history, closed=5), allows_missing=True, most=1))

    assert done.rebuild is not None and done.rebuild.switch is not None
    assert table(tmp_path).to_arrow().sort_by("id").to_pylist() == expected


def test_older_records_of_another_partition_rename_and_retype_nothing_back(tmp_path: Path) -> None:
    """The table was made with the newest schema; another partition still has rows of the one before."""
    words, text = {"rename": "apply", "retype": "new_column"}, {**AC, "a": "string"}
    first = two_partitions((0, 0, at(1, text, a="one", c="x")))
    tables = run(tmp_path, words, first, two_partitions((1, 0, at(2, AB, a=2, b="y")), (0, 1, at(3, text, a="three"))))

    assert open_table(tables, "items").schema.column_names == ("id", "a", "c", "b")
    assert content(tables)[2] == {"id": 2, "a": "2", "c": None, "b": "y"}
    assert content(tables)[3]["a"] == "three"


@pytest.mark.parametrize("words", [{}, "freeze", "lenient", {"rename": "apply"}, {"rename": "pause"}], ids=str)
@pytest.mark.parametrize(
    "columns", [{"mask": {"a": {"show_last": 1}}}, {"drop": ["a"]}, {"add": {"c": "a + 1"}}], ids=str
)
def test_a_restart_finds_what_the_first_batch_stored_of_the_rule(
    tmp_path: Path, words: object, columns: object, caplog: pytest.LogCaptureFixture
) -> None:
    rule = {**ITEMS, "columns": columns, "schema_changes": words}
    types = {"id": "int32", "a": "int32", "b": "string"}
    for number in range(2):
        batch = records(typed(number, {"id": number, "a": 10 + number, "b": "x"}, types), first_offset=number)
        tables = pipeline_tables(tmp_path, [rule])
        reported_batches(tables, [batch], tmp_path, number, tables.config.decoder)

    stored = open_table(tables, "items")
    assert len(stored.context.schemas) == 1
    assert stored.to_arrow().num_rows == 2
    assert "mask" not in caplog.text
