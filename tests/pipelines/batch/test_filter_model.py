"""Filters and keys that change, with every order and history of rows: random histories against a fold of their events.

Events come in any order and again where the table orders them itself, and each batch runs twice, as after a kill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.column_rules import HIDDEN
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.source_content import open_table

Row = dict[str, Any]
Key = tuple[int, ...]
TYPES = {"id": "INT", "n": "INT", "amount": "INT", "status": "STRING", "note": "STRING"}
NOTHING: Row = dict.fromkeys(TYPES)
COLUMNS: Mapping[str, object] = {
    "types": {"id": "INT", "num": "INT", "amount": "INT", "status": "STRING", "remark": "STRING", "size": "BIGINT"},
    "rename": {"n": "num", "note": "remark"},
    "drop": ["status"],
    "replace": {"amount": "amount * 2"},
    "mask": {"note": {"show_last": 1}},
    "add": {"size": "length(note)"},
}
START_MS = 1_700_000_000_000
LATE = ("sequence", "order_by", "scd2")
WORDS: Mapping[str, Mapping[str, object]] = {
    "plain": {},
    "sequence": {},
    "order_by": {"order_by": "source_position"},
    "soft_delete": {"history": "soft_delete"},
    "scd2": {"history": "scd2"},
}
PRODUCERS = (
    {"changelog-producer": "lookup"},
    {"changelog-producer": "lookup", "num-levels": "2", "num-sorted-run.compaction-trigger": "1"},
    {"changelog-producer": "none", "full-compaction.delta-commits": "1"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
)


@dataclass(frozen=True)
class Event:
    """A change in the source; ``number`` tells its place there, whenever it arrives."""

    number: int
    op: str
    before: Row | None
    after: Row | None
    hides_note: bool = False

    def record(self, with_before: bool) -> dict[str, Any]:
        n, row = self.number, self.after or self.before
        assert row is not None
        source = {
            "db": "shop", "schema": "public", "table": "items", "connector": "postgresql", "ts_ms": START_MS + n,
            "lsn": 1000 + n, "sequence": json.dumps([str(990 + n), str(1000 + n)]),
        }  # fmt: skip
        before = self.before if with_before or self.before is None else {**dict.fromkeys(row), "id": row["id"]}
        before = before if with_before or self.op == "d" else None
        if before is not None and self.hides_note:
            before = {**before, "note": HIDDEN}
        after = {**self.after, "note": HIDDEN} if self.after is not None and self.hides_note else self.after
        value = {"op": self.op, "before": before, "after": after, "source": source}
        return {
            "topic": "shop.public.items", "partition": 0, "offset": n, "timestamp": 0, "headers": None,
            "key": json.dumps({"id": row["id"]}).encode(), "value": json.dumps(value).encode(),
        }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A word of the rule under a filter, and how the table is keyed."""

    word: str
    keyed_by: str
    """``id``; ``computed`` or ``stated`` (a column of the key changes, which is computed or a column of the source); or
    ``partition`` (a partition column beside the key changes).
    """
    options: Mapping[str, str]
    is_dynamic: bool = False
    is_changed: bool = False
    """Whether the table has other columns than the source."""
    is_filtered: bool = True

    @property
    def rule(self) -> dict[str, object]:
        rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
        if self.is_filtered:
            rule["where"] = "status = 'on'"
        columns: dict[str, Any] = dict(COLUMNS) if self.is_changed else {"types": TYPES}
        if self.keyed_by == "stated":
            rule["partition_by"], rule["primary_key"] = ["amount"], ["amount", "id"]
        elif self.keyed_by != "id":
            columns["add"] = {**columns.get("add", {}), "third": "amount % 3"}
            rule["partition_by"] = ["third"]
            rule["primary_key"] = ["third", "id"] if self.keyed_by == "computed" else ["id"]
        if self.is_moved:
            rule["before"] = "full"
        return {**rule, "columns": columns, **WORDS[self.word]}

    @property
    def table_options(self) -> dict[str, str]:
        is_dynamic = self.keyed_by == "partition" or (self.is_dynamic and self.word != "scd2")
        bucket = {"bucket": "-1" if is_dynamic else "1"}
        return {**bucket, **self.options, **({"sequence.field": self.number} if self.word == "sequence" else {})}

    @property
    def number(self) -> str:
        return "num" if self.is_changed else "n"

    @property
    def is_moved(self) -> bool:
        return self.keyed_by in ("computed", "stated")

    def shown(self, row: Row) -> Row:
        """A row of the source, or a mark with the key alone, as the table has it, beside what it has of its own."""
        found = dict(row)
        if self.keyed_by in ("computed", "partition"):
            found.setdefault("third", None if row["amount"] is None else row["amount"] % 3)
        if self.is_changed:
            amount, note = row["amount"], row["note"]
            found["num"], found["amount"] = row["n"], None if amount is None else amount * 2
            found["remark"] = None if note is None else "*" * (len(note) - 1) + (note[-1] if len(note) > 1 else "*")
            found["size"] = None if note is None else len(note)
        return found

    def key(self, row: Row) -> Key:
        if not self.is_moved:
            return (row["id"],)
        return (row["amount"] % 3 if self.keyed_by == "computed" else row["amount"], row["id"])

    def key_columns(self, key: Key) -> Row:
        return dict(zip(self.names_of_key, key, strict=True))

    @property
    def names_of_key(self) -> tuple[str, ...]:
        return ("id",) if not self.is_moved else ("third" if self.keyed_by == "computed" else "amount", "id")

    def effects(self, event: Event) -> Iterator[tuple[Key, Row | None]]:
        """What an event makes of keys of the table: a row, or none."""
        if event.after is None:
            assert event.before is not None
            yield self.key(event.before), None
            return
        key = self.key(event.after)
        has_moved = self.is_moved and event.before is not None and self.key(event.before) != key
        if has_moved and event.before is not None:
            yield self.key(event.before), None
        if event.after["status"] == "on" or not self.is_filtered:
            yield key, dict(event.after)
        elif self.word == "sequence" or not (event.op == "c" or (has_moved and self.word == "scd2")):
            yield key, None


def with_notes(case: Case, events: Sequence[Event]) -> list[Event]:
    """Events with the notes that were not sent: those of the rows that they change, if the table has these."""
    rows: dict[Key, Row] = {}
    found = []
    for event in events:
        if event.after is not None and event.before is not None and event.hides_note:
            held = rows.get(case.key(event.before), NOTHING)
            event = replace(event, after={**event.after, "note": held["note"]})
        rows = in_order(case, [event], rows)
        found.append(event)
    return found


def in_order(case: Case, events: Sequence[Event], before: Mapping[Key, Row] | None = None) -> dict[Any, Row]:
    """Each event changes what is there."""
    rows = dict(before or {})
    for event in events:
        for key, row in case.effects(event):
            if row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
    return rows


def by_position(case: Case, events: Sequence[Event]) -> dict[Any, Row]:
    return in_order(case, sorted(events, key=lambda event: event.number))


def by_sequence(case: Case, events: Sequence[Event]) -> dict[Any, Row]:
    """The highest number wins; a delete of the source has that of the row which it meets."""
    newest: dict[Key, tuple[int, Row | None]] = {}
    for event in events:
        for key, row in case.effects(event):
            number, _ = newest.get(key, (-1, None))
            if event.op == "d":
                newest[key] = number, None
            elif event.number >= number:
                newest[key] = event.number, row
    return {key: row for key, (_, row) in newest.items() if row is not None}


def soft_deleted(case: Case, events: Sequence[Event]) -> dict[Any, Row]:
    rows: dict[Key, Row] = {}
    for event in events:
        for key, row in case.effects(event):
            known = rows.get(key)
            is_open = known is not None and known["deleted_at"] is None
            if row is not None:
                rows[key] = {**row, "deleted_at": None}
            elif known is not None and is_open:
                rows[key] = {**known, "deleted_at": moment(event.number)}
    return rows


def versions(case: Case, events: Sequence[Event]) -> dict[Any, Row]:
    """A version holds until the next event of its key. A delete that ends none is a mark."""
    known: dict[Key, dict[int, tuple[Event, Row | None]]] = {}
    for event in events:
        for key, row in case.effects(event):
            known.setdefault(key, {})[event.number] = event, row
    found: dict[Any, Row] = {}
    for key, places in known.items():
        held: Row | None = None
        for number in sorted(places):
            event, row = places[number]
            end = {"valid_to": moment(number), "valid_to_offset": number, "is_current": False}
            values = None if held is None else {name: held[name] for name in TYPES}
            if event.op == "r" and row == values:
                continue  # a snapshot tells what is known
            begin = {"valid_from": moment(number), "valid_from_offset": number}
            if held is not None:
                held |= end
            elif row is None:
                found[*key, number] = {**NOTHING, **case.key_columns(key), **begin, **end}
            held = None
            if row is not None:
                held = {**row, **begin, "valid_to": None, "valid_to_offset": None, "is_current": True}
                found[*key, number] = held
    return found


def moment(number: int) -> datetime:
    return datetime.fromtimestamp((START_MS + number) / 1000, UTC)


def expected(case: Case, batches: Sequence[Sequence[Event]]) -> dict[Any, Row]:
    folds = {
        "sequence": by_sequence, "order_by": by_position, "soft_delete": soft_deleted, "plain": in_order,
        "scd2": versions,
    }  # fmt: skip
    rows = folds[case.word](case, with_notes(case, [event for batch in batches for event in batch]))
    return {key: case.shown(row) for key, row in rows.items()}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    word = draw(st.sampled_from([*WORDS]))
    by_partition = ["partition"] if word in ("plain", "soft_delete") else []
    keyed_by = draw(st.sampled_from(["id", "computed", "stated", *by_partition]))
    producer, is_filtered = draw(st.sampled_from(PRODUCERS)), keyed_by in ("id", "partition") or draw(st.booleans())
    return Case(word, keyed_by, producer, draw(st.booleans()), draw(st.booleans()), is_filtered)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Case, list[list[Event]]]:
    """A case, and its batches; the first one makes the table."""
    case = draw(cases())
    is_late = case.word in LATE and draw(st.booleans())
    rows: dict[int, Row] = {}
    events: list[Event] = []
    amounts = st.integers(0, 1 if case.is_moved else 4)  # few keys, so that rows come back to theirs
    for number in range(1, draw(st.integers(1, 16)) + 1):
        key, is_delete = draw(st.integers(0, 2)), draw(st.integers(0, 4)) == 0
        old = rows.get(key)
        if old is not None and is_delete:
            events.append(Event(number, "d", rows.pop(key), None))
            continue
        status, note = draw(st.sampled_from(["on", "on", "off"])), draw(st.sampled_from([None, "a", "bc"]))
        rows[key] = {"id": key, "n": number, "amount": draw(amounts), "status": status, "note": note}
        is_unsent = not (is_late or old is None or note is None or note != old["note"])
        is_read = draw(st.booleans()) and not (case.is_moved or is_unsent or (is_late and case.word == "scd2"))
        op = "c" if old is None else "r" if is_read else "u"
        events.append(Event(number, op, old, rows[key], is_unsent))
    if is_late:
        events = [*draw(st.permutations(events)), *draw(st.lists(st.sampled_from(events), max_size=4))]
        if case.word != "scd2":  # the last ones are still on their way
            events = events[: draw(st.integers(1, len(events)))]
    first = {"id": 9, "n": 0, "amount": 0, "status": "on", "note": "x"}
    batches = [[Event(0, "c", None, first)]]
    while events:
        size = draw(st.integers(1, 6))
        batches.append(events[:size])
        events = events[size:]
    return case, batches


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_a_table_whose_rows_leave_their_keys_is_the_fold_of_their_events(drawn: tuple[Case, list[list[Event]]]) -> None:
    case, batches = drawn
    with TemporaryDirectory() as directory:
        root = Path(directory)
        config = shop_config(root, [case.rule], case.table_options)
        for number, events in enumerate(batches):
            records = [event.record(with_before=case.is_moved) for event in events]
            batch = pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA)
            for _ in range(2):  # the second time in a new process
                tables = PipelineTables(config, "tidemark-shop-test")
                processed(tables, [batch], task_settings(root, decoder=config.decoder), number)

        wanted, table = expected(case, batches), open_table(tables, "items")
        names = [name for name in table.schema.column_names if not name.startswith("_tidemark")]
        assert sorted(table.to_arrow().select(names).to_pylist(), key=repr) == sorted(
            ({name: row[name] for name in names} for row in wanted.values()), key=repr
        )
        if case.options["changelog-producer"] != "none":
            told = replay_strictly((rows for _, rows in table.changes()), table.schema.primary_keys)
            assert sorted(({n: r[n] for n in names} for r in told.values()), key=repr) == sorted(
                table.to_arrow().select(names).to_pylist(), key=repr
            )
