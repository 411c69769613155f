"""The document of tables: read back as it was written, changed in one step, and only where something is new."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from pipelines.checkpoint.book import CHECKED_AGAIN_S, Book, Cause, Entry, Pause, Ruleless
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.reached import Reached
from pipelines.tables.paused_tables import PausedTables
from sinks.commit.positions import FedBy, Position
from tests.support.local_batches import ALL_TABLES, pipeline_tables

BEGIN = json.dumps({"a": {"0": 5, "1": 7}, "b": {"0": 3}})
END = json.dumps({"a": {"0": 9}})
PAUSE = Pause(
    "lake.größe", Cause.FAILED, "refused", 10, 4, BEGIN, END, ("a", "b"), Reached(END, 2, 1_700_000_000_000, END)
)
A, B = (FedBy(topic, None, None, "t") for topic in "ab")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """A checkpoint in which a batch was planned."""
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text('v1\n{"batchTimestampMs":0}\n{}')
    return Checkpoint(pipeline_tables(tmp_path, ALL_TABLES).config)


def counted(book: Book, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the book writes from now on."""
    written: list[str] = []
    write = Checkpoint.write

    def noted(checkpoint: Checkpoint, name: str, data: bytes) -> None:
        written.append(name)
        write(checkpoint, name, data)

    monkeypatch.setattr(Checkpoint, "write", noted)
    return written


def test_all_that_it_says_is_read_back(checkpoint: Checkpoint) -> None:
    book = Book(checkpoint)
    book.put({PAUSE.table: Entry(1, 2, 3, ("a",), PAUSE, 9, (Ruleless(A, 2, BEGIN), Ruleless(B, 3, None)))})
    book.note_topics({"a": "1"})
    book.change(lambda contents: replace(contents, earlier=("lake.old",)))

    again = Book(checkpoint)

    assert again.contents == book.contents
    assert (again.pauses, again.topic_ids) == ({PAUSE.table: PAUSE}, {"a": "1"})
    assert (PAUSE.tries_again, PAUSE.position) == (True, END)


def test_what_is_not_new_costs_no_write(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book(checkpoint)
    written = counted(book, monkeypatch)
    for _ in range(3):
        book.note_commits({"lake.a": Entry(1, 2, 3, ("a",)), "lake.b": Entry(1, 5, 3, ("a",))})
        book.note_topics({"a": "1"})
    assert len(written) == 2


def test_a_second_process_is_noticed_without_a_read_for_each_batch(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, reads, read = [0.0], list[str](), Checkpoint.read
    book = Book(checkpoint, lambda: now_s[0])
    monkeypatch.setattr(Checkpoint, "read", lambda *args: (reads.append(args[1]), read(*args))[1])
    for commits in range(1, 50):
        book.note_commits({"lake.a": Entry(1, commits)})
        now_s[0] += 1
    assert not reads
    Book(checkpoint).put({"lake.b": Entry(2, 1)})

    with pytest.raises(ConfigError, match="two processes use one checkpoint"):  # a decision looks at once
        book.put({"lake.a": replace(book.entry("lake.a"), pause=PAUSE)})
    book.note_commits({"lake.a": Entry(1, 50)})
    Book(checkpoint).put({"lake.b": Entry(2, 1)})
    now_s[0] += CHECKED_AGAIN_S
    with pytest.raises(ConfigError, match="two processes use one checkpoint"):
        book.note_commits({"lake.a": Entry(1, 51)})


def test_threads_do_not_lose_each_others_changes(checkpoint: Checkpoint) -> None:
    book = Book(checkpoint)

    def count(table: str) -> None:
        for commits in range(1, 20):
            book.note_commits({table: Entry(1, commits)})

    threads = [threading.Thread(target=count, args=(f"lake.t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.commits for entry in Book(checkpoint).tables.values()} == {19}
    assert len(Book(checkpoint).tables) == 4


def test_commits_do_not_become_fewer_but_for_a_table_that_was_made_anew(checkpoint: Checkpoint) -> None:
    book = Book(checkpoint)
    for found in (Entry(1, 5, 9), Entry(1, 3, 4)):
        book.note_commits({"lake.a": found})
    assert book.entry("lake.a") == Entry(1, 5, 9)
    book.note_commits({"lake.a": Entry(2, 1, 1)})
    assert book.entry("lake.a") == Entry(2, 1, 1)
    assert Entry(1, 5, 9, ("a",)).written_as(1) == Entry(1, 5, 9, ("a",))
    assert Entry(1, 5, 9, ("a",)).written_as(2) == Entry(2)


def test_a_recreated_topic_is_found_by_later_runs_until_it_is_noted(checkpoint: Checkpoint) -> None:
    Book(checkpoint).note_topics({"a": "1", "b": "1"})
    Book(checkpoint).note_topics({"c": "1"})

    later = Book(checkpoint)
    assert later.recreated_topics({"a": "2", "b": "1", "c": "1", "d": "9"}) == ["a"]
    assert later.recreated_topics({"b": "1"}) == []
    later.note_topics({"a": "2"})
    assert Book(checkpoint).recreated_topics({"a": "2"}) == []


def test_a_checkpoint_without_batches_knows_its_pipeline_alone(tmp_path: Path, checkpoint: Checkpoint) -> None:
    book = Book(checkpoint)
    assert (book.has_file, book.contents.pipeline) == (False, "shop")
    book.note_topics({"a": "1"})
    book.put({"lake.a": Entry(pause=replace(PAUSE, table="lake.a"))})
    (tmp_path / "checkpoint" / "offsets" / "0").unlink()

    again = Book(checkpoint)
    assert (again.has_file, again.tables, again.recreated_topics({"a": "2"})) == (True, {}, [])


@pytest.mark.parametrize("letter", ["T", "é", "订"])
@pytest.mark.parametrize("length", [20, 80, 240])
def test_names_of_any_length_have_a_quarantine_of_their_own(letter: str, length: int) -> None:
    names = [f"lake.{letter * length}{end}" for end in "ab"]
    owners = ["2a2d3a6b-7c9b-4a53-9d7b-0f7b3a3e0d11" + replace(PAUSE, table=name).aside_name for name in names]
    assert len({*owners}) == 2 and max(map(len, owners)) <= 255


def test_partitions_that_have_lost_their_end_are_read_from_there(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    book = Book(checkpoint)
    pause = replace(PAUSE, begin='{"a":{"0":3,"1":7}}', after=None, reached=None)
    book.put({PAUSE.table: Entry(pause=pause, ruleless=(Ruleless(A, 2, BEGIN), Ruleless(B, 2, None)))})

    book.move({("a", 0): 5, ("a", 1): 5, ("b", 0): 2})

    assert book.pauses[PAUSE.table].position == '{"a":{"0":3,"1":5}}'
    begins = [one.begin for one in Book(checkpoint).entry(PAUSE.table).ruleless]
    assert begins == ['{"a":{"0":5,"1":5},"b":{"0":2}}', None]
    assert not caplog.records


def test_partitions_of_recreated_topics_begin_anew(checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture) -> None:
    book = Book(checkpoint)
    book.put({PAUSE.table: Entry(pause=PAUSE, ruleless=(Ruleless(A, 2, BEGIN),))})
    assert book.places() == {("a", 0), ("a", 1), ("b", 0)}

    book.move({("a", 0): None, ("x", 1): None})

    (text,) = [record.getMessage() for record in caplog.records]
    at = json.loads(END)["a"]["0"]
    assert text == (
        f"topic a partition 0 was recreated: records from offset {at} on that table {PAUSE.table} had not read are lost"
    )
    entry = Book(checkpoint).entry(PAUSE.table)
    assert entry.pause is not None and entry.pause.reached is not None
    assert json.loads(entry.pause.begin or "") == json.loads(entry.ruleless[0].begin or "")
    assert json.loads(entry.pause.begin or "") == {"a": {"1": 7}, "b": {"0": 3}}
    assert (entry.pause.after, entry.pause.position, entry.pause.reached.end) == ("{}", "{}", "{}")


@pytest.mark.parametrize("by_number", [True, False])
def test_slices_that_a_table_may_have_are_told_from_later_ones(by_number: bool) -> None:
    """By number a slice is planned before it is read; else it may be in the table before that is noted."""

    def may_have(entry: Entry, since_ms: int, number: int) -> bool:
        return entry.may_have(since_ms, number, by_number=by_number)

    entry = Entry(pause=replace(PAUSE, reached=None))
    assert may_have(entry, 9, 5) and not may_have(entry, 11, 0)
    assert not may_have(entry, 10, 0)
    begun = replace(entry, pause=replace(PAUSE, reached=Reached("{}", 4, 20)))
    assert may_have(begun, 10, 3) and not may_have(begun, 10, 5)
    assert may_have(begun, 10, 4) is not by_number
    planned = replace(entry, pause=replace(PAUSE, reached=Reached("{}", 4, 20, "{}")))
    assert may_have(planned, 10, 4) and not may_have(planned, 10, 5)
    assert may_have(entry.resumed(), 10, 5) and not may_have(entry.resumed(), 11, 0)


class Batches:
    """Batch 3 is closed, batch 4 is planned."""

    closed_batch, planned_batch = 3, 4

    def offset_before(self, batch_id: int) -> str | None:
        return f"before {batch_id}"

    def offset_after(self, batch_id: int) -> str:
        return f"after {batch_id}"


@pytest.mark.parametrize(
    ("how", "batch", "begin", "after"),
    [
        ({}, 4, "before 4", None),
        ({"is_running": True}, 4, "before 4", "after 4"),
        ({"is_running": True, "is_appended": True}, 5, "before 5", None),
        ({"from_start": True}, 4, None, None),
    ],
    ids=["before its batch", "in its batch", "behind its rows", "from the first record"],
)
def test_a_table_is_paused_where_it_misses_records(
    checkpoint: Checkpoint, how: Any, batch: int, begin: str | None, after: str | None
) -> None:
    paused = PausedTables(Book(checkpoint), Batches(), lambda: 77)
    paused.pause("lake.a", Cause.FAILED, "full", 4, ["b", "a"], **how)
    expected = Pause("lake.a", Cause.FAILED, "full", 77, batch, begin, after, ("a", "b"))
    assert Book(checkpoint).pauses == {"lake.a": expected}


def test_a_paused_table_keeps_its_place_and_takes_the_newest_reason(checkpoint: Checkpoint) -> None:
    paused = PausedTables(Book(checkpoint), Batches())
    first = paused.pause("lake.a", Cause.FAILED, "full", 1, ["a"])
    assert paused.pause("lake.a", Cause.ASKED, "by hand", 4, ["b"]) == replace(
        first, cause=Cause.ASKED, reason="by hand"
    )
    paused.add_topics("lake.a", ["c"])
    paused.note("lake.a", Reached("{}", 1, 1))
    assert (paused.pauses["lake.a"].topics, paused.pauses["lake.a"].position) == (("a", "c"), "{}")
    assert (paused.tables, paused.ruleless) == (frozenset({"lake.a"}), frozenset())


def test_a_table_without_a_rule_keeps_its_reason_and_its_sources_their_place(checkpoint: Checkpoint) -> None:
    book = Book(checkpoint)
    paused = PausedTables(book, Batches())
    book.put(
        {"lake.a": Entry(1, 3, pause=replace(PAUSE, table="lake.a", has_rule=False), ruleless=(Ruleless(B, 1, END),))}
    )
    assert paused.pauses == {} and paused.ruleless == frozenset({"lake.a"})
    assert paused.pause("lake.a", Cause.ASKED, "by hand", 4, []).reason == "refused"

    paused.resume("lake.a", [A, B])

    resumed = Entry(1, 3, paused_ms=10, ruleless=(Ruleless(B, 1, END), Ruleless(A, 4, END)))
    assert Book(checkpoint).entry("lake.a") == resumed


def test_cuts_of_a_partition_are_kept_until_its_topic_is_recreated(checkpoint: Checkpoint) -> None:
    """``find_cuts`` takes the longest history that some table has noted."""
    book = Book(checkpoint)
    book.note_topics({"t": "first"})
    book.cut({("t", 0): 30})
    book.cut({("t", 0): 40, ("t", 1): 5})
    assert Book(checkpoint).topic_ids == {"t": "first", "t/0": "30,40", "t/1": "5"}
    book.note_topics({"t": "second"})
    assert book.topic_ids == {"t": "second"}

    told = [
        Position("u", {}, topics={"t": "second", "t/0": "7"}),
        Position("u", {}, topics={"t": "second", "t/0": "7,6", "s": "other", "s/0": "1"}),
    ]
    book.find_cuts(told, {"t": "second"})
    assert book.cuts == {"t/0": "7,6"}
