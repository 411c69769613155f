"""A former name of a renamed column that the source uses again for another column."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.tables.tables import PipelineTables
from sinks.commit.own_position import OwnReading
from sources.changes import RECORD_SCHEMA
from tests.support.item_batches import drawn_value, records, typed
from tests.support.local_batches import pipeline_tables, reported_batches
from tests.support.source_content import open_table

ITEMS: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
WORDS = {"rename": "apply", "drop": "drop"}
START = datetime(2024, 1, 1, tzinfo=UTC)
PARTITIONS = 3
Record = dict[str, Any]


class Source:
    """A source table under ALTER TABLE: its records by partition, and its rows as a plain fold.

    Partition 0 gets a record after each ALTER TABLE and is read at once; the others lag behind.
    """

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.types = {"id": "int32", "a": "int32", "b": "string"}
        self.rows: dict[int, Record] = {}
        self.read: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.unread: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.free: list[str] = []
        """Names that another column may get: former ones, and dropped ones that no partition brings any more."""
        self.former: dict[str, set[str]] = {}
        self.left: list[str] = []
        """Former names of dropped columns, which the next batch sets free."""
        self.dropped: list[str] = []
        self.pending: set[str] = set()
        """The types of dropped columns: another one of such a type may be taken for their new name."""
        self.count = self.fresh = 0

    def alter(self) -> None:
        columns = [name for name in self.types if name != "id"]
        what = self.r.choice(["add", "add", "drop", "rename", "rename"])
        if what == "rename" and not self.dropped:
            old = self.r.choice(columns)
            new = self._name(0.3, self.former.get(old, set()))  # a name that is taken back changes nothing
            self.types = {new if name == old else name: t for name, t in self.types.items()}
            self.rows = {k: {new if n == old else n: v for n, v in row.items()} for k, row in self.rows.items()}
            self.former[new] = self.former.pop(old, set()) | {old}
            self.free.append(old)
        elif what == "drop" and len(columns) > 1:
            old = self.r.choice(columns)
            self.pending.add(self.types.pop(old))
            for row in self.rows.values():
                row.pop(old, None)
            self.dropped.append(old)
            former = self.former.pop(old, set())
            self.left += sorted(former.intersection(self.free))
            self.free = [name for name in self.free if name not in former]
        else:
            kinds = [kind for kind in ("int32", "int64", "string") if kind not in self.pending]
            if kinds:
                name = self._name(0.7)
                self.types[name] = self.r.choice(kinds)
        self.write(0)

    def _name(self, again: float, but: Collection[str] = ()) -> str:
        free = [name for name in self.free if name not in but]
        if free and self.r.random() < again:
            name = self.r.choice(free)
            self.free.remove(name)
            for names in self.former.values():
                names.discard(name)
            return name
        self.fresh += 1
        return f"n{self.fresh}"

    def write(self, partition: int) -> None:
        key = partition + PARTITIONS * self.r.randrange(3)
        row = {name: drawn_value(self.r, kind) for name, kind in self.types.items()} | {"id": key}
        self.rows[key] = row
        place = len(self.read[partition]) + len(self.unread[partition])
        self.unread[partition].append(record(partition, place, self.count, typed(key, row, self.types)))
        self.count += 1

    def batch(self, *, is_all: bool = False) -> pa.RecordBatch:
        found: list[Record] = []
        for partition, waiting in enumerate(self.unread):
            size = len(waiting) if is_all or partition == 0 else self.r.randint(0, len(waiting))
            found += waiting[:size]
            self.read[partition] += waiting[:size]
            del waiting[:size]
        self.free, self.left = self.free + self.left, []
        return batch_of(found)

    def behind_all(self) -> list[pa.RecordBatch]:
        """All partitions have rows with the columns of now."""
        batches = [self.batch(is_all=True)]
        for partition in range(PARTITIONS):
            self.write(partition)
        self.free, self.dropped, self.pending = self.free + self.dropped, [], set()
        return [*batches, self.batch(is_all=True)]

    @property
    def content(self) -> dict[int, Record]:
        return {key: {name: row.get(name) for name in self.types} for key, row in self.rows.items()}


def record(partition: int, offset: int, seconds: int, event: tuple[Any, Any]) -> Record:
    row: Record = records(event, first_offset=offset).to_pylist()[0]
    return row | {"partition": partition, "timestamp": START + timedelta(seconds=seconds)}


def batch_of(rows: list[Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def content(tables: PipelineTables) -> dict[int, Record]:
    return {row["id"]: row for row in open_table(tables, "items").to_arrow().to_pylist()}


def cut(r: random.Random, partitions: list[list[Record]]) -> list[pa.RecordBatch]:
    """All records again, in other batches."""
    rest, found = [list(rows) for rows in partitions], []
    while any(rest):
        part = []
        for rows in rest:
            size = r.randint(0, 6)
            part += rows[:size]
            del rows[:size]
        if part:
            found.append(batch_of(part))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_names_that_come_again_mean_what_they_meant_in_each_record(tmp_path: Path, seed: int) -> None:
    """At the end a replay brings all records again, in other batches."""
    r = random.Random(seed)
    source = Source(r)
    config = pipeline_tables(tmp_path, [{**ITEMS, "schema_changes": WORDS}]).config
    for partition in range(PARTITIONS):
        source.write(partition)
    tables, number = PipelineTables(config, "tidemark-shop-test"), 0

    def run(tables: PipelineTables, batches: list[pa.RecordBatch]) -> None:
        nonlocal number
        for batch in batches:
            quarantine, _ = reported_batches(tables, [batch], tmp_path, number, config.decoder)
            assert not list(Path(quarantine.path).rglob("*.jsonl"))
            number += 1

    run(tables, [source.batch(is_all=True)])
    for step in range(10):
        for _ in range(r.randint(1, 4)):
            if r.random() < 0.5:
                source.alter()
            else:
                source.write(r.randrange(PARTITIONS))
        run(tables, [source.batch()])
        if r.random() < 0.3:
            run(tables, source.behind_all())
            assert content(tables) == source.content, step
        if r.random() < 0.3:
            tables = PipelineTables(config, "tidemark-shop-test")
    run(tables, source.behind_all())
    assert content(tables) == source.content
    columns = open_table(tables, "items").schema.column_names

    beside = OwnReading(lambda _: {"replay": "r"}, by_offsets=False)
    run(PipelineTables(config, "tidemark-shop-replay", beside=beside), cut(r, source.read))
    assert content(tables) == source.content
    assert open_table(tables, "items").schema.column_names == columns


AB = {"id": "int32", "a": "int32", "b": "string"}
AC = {"id": "int32", "a": "int32", "c": "string"}
ABC = {**AC, "b": "string"}
A = {"id": "int32", "a": "int32"}


def at(place: str, types: dict[str, str], seconds: int | None, **row: Any) -> Record:
    """A record at partition and offset, whose key is its partition."""
    partition, offset = map(int, place.split("/"))
    found = record(partition, offset, seconds or 0, typed(partition, {"id": partition, "a": 1, **row}, types))
    return found if seconds is not None else {**found, "timestamp": None}


def bare(found: Record) -> Record:
    return {**found, "value": json.dumps(json.loads(found["value"])["payload"]).encode()}


def played(root: Path, *batches: list[Record], first: int = 0, **rule: Any) -> PipelineTables:
    """Each batch in a process of its own."""
    rule = {**ITEMS, "schema_changes": {"rename": "apply"}, **rule}
    config = pipeline_tables(root, [rule]).config
    for number, rows in enumerate(batches, first):
        tables = PipelineTables(config, "tidemark-shop-test")
        reported_batches(tables, [batch_of(rows)], root, number, config.decoder)
    return tables


def values(tables: PipelineTables, *columns: str) -> dict[int, list[Any]]:
    return {key: [row.get(name, "-") for name in columns] for key, row in sorted(content(tables).items())}


def reasons(root: Path) -> list[str]:
    files = sorted((root / "quarantine").rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


RENAMED = [at("0/0", AB, 0, b="b0"), at("1/0", AB, 0, b="b1"), at("2/0", AB, 0, b="b2")], [at("0/1", AC, 10, c="c0")]


@pytest.mark.slow
@pytest.mark.parametrize("both", [10, None], ids=["in the same millisecond", "without Kafka's time"])
def test_offsets_tell_what_a_former_name_means_where_no_time_does(tmp_path: Path, both: int | None) -> None:
    tables = played(
        tmp_path,
        *RENAMED,
        [at("1/1", AB, both, b="late"), at("0/2", ABC, both, c="c", b="new")],
        [at("2/1", AB, both, b="late"), at("2/2", ABC, both, c="c", b="new"), at("2/3", AB, both, b="newer")],
    )

    assert values(tables, "b", "c") == {0: ["new", "c"], 1: [None, "late"], 2: ["newer", None]}


@pytest.mark.slow
def test_a_former_name_of_a_column_that_was_lost_means_another_one_from_there_on(tmp_path: Path) -> None:
    tables = played(
        tmp_path,
        *RENAMED,
        [at("0/2", A, 20)],
        [at("0/3", AB, 30, b="new"), at("1/1", AB, 5, b="late"), at("2/1", AB, 31, b="newer")],
    )

    assert values(tables, "b", "c") == {0: ["new", None], 1: [None, "late"], 2: ["newer", None]}


@pytest.mark.slow
def test_a_record_without_a_schema_has_the_meaning_of_its_place(tmp_path: Path) -> None:
    new, old = bare(at("0/3", ABC, 30, c="c", b="new")), bare(at("1/1", AB, 5, b="old"))
    tables = played(tmp_path, *RENAMED, [at("0/2", ABC, 20, c="c", b="b")], [new, old])

    assert values(tables, "b", "c") == {0: ["new", "c"], 1: [None, "b1"], 2: [None, "b2"]}
    assert "had this name earlier" in reasons(tmp_path)[0]


@pytest.mark.slow
def test_no_mask_is_passed_by_under_a_former_name(tmp_path: Path) -> None:
    """A new column is masked, and its name is a former one of an open column; then it is the other way round."""
    root, late = tmp_path, at("1/1", AB, 5, b="late")
    hidden: dict[str, Any] = {"columns": {"mask": {"b": "redact"}}}
    played(root, *RENAMED)
    tables = played(root, [at("0/2", AB, 20, b="secret"), at("1/1", AB, 5, b="late")], first=2, **hidden)
    assert values(tables, "b", "c") == {0: ["-", "c0"], 1: ["-", "b1"], 2: ["-", "b2"]}
    assert [("name c under columns.mask" in reason) for reason in reasons(root)] == [True, True]

    tables = played(root, [at("0/3", ABC, 30, c="c", b="secret"), at("2/1", AB, 31, b="secret")], first=3, **hidden)
    assert values(tables, "b", "c") == {0: ["***", "c"], 1: [None, "b1"], 2: ["***", None]}

    masked: dict[str, Any] = {"columns": {"mask": {"c": "redact"}}}
    tables = played(root, [at("0/4", ABC, 40, c="secret", b="open"), late], first=4, **masked)
    assert values(tables, "b", "c") == {0: ["open", "***"], 1: [None, "***"], 2: ["***", None]}


@pytest.mark.slow
def test_each_source_table_of_a_log_has_its_own_former_names(tmp_path: Path) -> None:
    def other(place: str, types: dict[str, str], seconds: int, **row: Any) -> Record:
        found = at(place, types, seconds, **row)
        value = found["value"].replace(b'"table": "items"', b'"table": "others"')
        return {**found, "topic": "shop.public.others", "value": value}

    log: dict[str, Any] = {
        "match": {"table": "items|others"},
        "mode": "append",
        "on_change": "log",
        "options": {"bucket": "-1"},
    }
    played(tmp_path, *RENAMED, **log)
    tables = played(
        tmp_path,
        [other("0/0", AB, 5, b="its own"), at("1/1", AB, 5, b="late")],
        [at("0/2", ABC, 20, c="c", b="new"), other("0/1", AB, 6, b="its own"), at("2/1", AB, 7, b="late")],
        [at("2/2", AB, 30, b="new")],
        first=2,
        **log,
    )

    found = [(row["b"], row["c"]) for row in open_table(tables, "items").to_arrow().to_pylist()]
    assert {b for b, c in found if c is None} == {"its own", "new"}
    assert [c for b, c in found if b is None] == ["b0", "b1", "b2", "c0", "late", "late"]
    assert ("new", "c") in found and len(found) == 10


@pytest.mark.slow
def test_a_row_from_before_a_column_came_does_not_show_that_it_is_lost(tmp_path: Path) -> None:
    """Each batch is the first one of a process."""
    late = at("1/1", A, 5)
    start = [at(f"{partition}/0", A, 0) for partition in range(3)]
    tables = played(tmp_path / "added", start, [at("0/1", AB, 10, b="b")], [late], [at("0/2", AC, 20, c="c")])
    assert values(tables, "b", "c") == {0: ["-", "c"], 1: ["-", None], 2: ["-", None]}

    renamed = [at("0/1", AB, 10, b="b")], [at("0/2", AC, 20, c="c")], [late], [at("2/1", AB, 12, b="late")]
    tables = played(tmp_path / "renamed", start, *renamed)
    assert values(tables, "b", "c") == {0: ["-", "c"], 1: ["-", None], 2: ["-", "late"]}

    first = [*start, at("0/1", AB, 10, b="b")]
    tables = played(tmp_path / "in the first batch", first, [late], [at("0/2", AC, 20, c="c")])
    assert values(tables, "b", "c") == {0: ["-", "c"], 1: ["-", None], 2: ["-", None]}

    tables = played(tmp_path / "older than the table", [at("0/1", AB, 10, b="b")], [late], [at("0/2", AC, 20, c="c")])
    assert values(tables, "b", "c") == {0: ["-", "c"], 1: ["-", None]}

    tables = played(tmp_path / "together", start, [at("0/1", AB, 10, b="b")], [late, at("0/2", AC, 20, c="c")])
    assert values(tables, "b", "c") == {0: ["-", "c"], 1: ["-", None], 2: ["-", None]}


@pytest.mark.slow
@pytest.mark.parametrize("drop", ["keep_null", "drop"])
def test_a_lost_column_that_comes_again_can_be_renamed(tmp_path: Path, drop: str) -> None:
    start = [at(f"{partition}/0", AB, 0, b="b") for partition in range(3)]
    again = [at("0/1", A, 10)], [at("1/1", AB, 5, b="late")], [at("0/2", AB, 20, b="again")], [at("0/3", AC, 30, c="c")]
    tables = played(tmp_path, start, *again, schema_changes={"rename": "apply", "drop": drop})

    assert values(tables, "b", "c") == {0: ["-", "c"], 1: ["-", "late"], 2: ["-", "b"]}


def test_a_lost_column_has_not_come_again_by_an_older_row(tmp_path: Path) -> None:
    start = [at(f"{partition}/0", AB, 0, b="b") for partition in range(3)]
    tables = played(tmp_path, start, [at("0/1", A, 10)], [at("1/1", AB, 5, b="late")], [at("0/2", AC, 30, c="c")])

    assert values(tables, "b", "c") == {0: [None, "c"], 1: ["late", None], 2: ["b", None]}


@pytest.mark.slow
def test_a_loss_is_known_although_another_partition_is_behind(tmp_path: Path) -> None:
    """A former name that comes again behind it is another column, also of another type."""
    types, start = {"id": "int32", "a": "int32", "b": "int64"}, [at(f"{n}/0", AB, 0, b="b") for n in range(3)]
    lost = [at("1/1", AC, 15, c="late"), at("0/2", A, 20)]
    tables = played(tmp_path, start, [at("0/1", AC, 10, c="c")], lost, [at("0/3", types, 30, b=7)])

    assert reasons(tmp_path) == []
    assert values(tables, "b", "c") == {0: [7, None], 1: [None, "late"], 2: [None, "b"]}


def test_columns_that_are_new_and_renamed_in_one_batch_have_the_order_of_the_source(tmp_path: Path) -> None:
    """A later rename is known by this order."""
    added, renamed = {**AB, "d": "string"}, {**AC, "d": "string"}
    start = [at("0/0", A, 0), at("1/0", A, 0)]
    tables = played(tmp_path, start, [at("0/1", AB, 10), at("0/2", added, 20), at("0/3", renamed, 30)])

    assert open_table(tables, "items").schema.column_names == ("id", "a", "c", "d")
