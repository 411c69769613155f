"""Marks of tables that are behind: read back as they were written, damaged ones are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from pipelines.checkpoint.behind_marks import DIRECTORY, BehindMark, BehindMarks, Cause, SlicePlan
from pipelines.checkpoint.checkpoint import Checkpoint
from tests.support.local_batches import ALL_TABLES, pipeline_tables

BEGIN = json.dumps({"a": {"0": 5, "1": 7}, "b": {"0": 3}})
END = json.dumps({"a": {"0": 9}})
MARK = BehindMark(
    "lake.größe", Cause.FAILED, "refused", 1, 4, BEGIN, END, ("a", "b"), SlicePlan(2, None, END, 1_700_000_000_000)
)


def _checkpoint(directory: Path) -> Checkpoint:
    offsets = directory / "checkpoint" / "offsets" / "0"
    offsets.parent.mkdir(parents=True, exist_ok=True)
    offsets.write_text('v1\n{"batchTimestampMs":0}\n{}')
    return Checkpoint(pipeline_tables(directory, ALL_TABLES).config)


def test_a_mark_is_read_back_with_all_that_it_says(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path)
    BehindMarks(checkpoint).put(MARK)

    marks = BehindMarks(checkpoint)
    assert marks.all == {MARK.table: MARK}
    assert (MARK.is_behind, MARK.tries_again, MARK.position) == (True, True, END)
    marks.add_topics(MARK.table, ["c"])
    assert BehindMarks(checkpoint).all[MARK.table].topics == ("a", "b", "c")


@pytest.mark.parametrize("letter", ["T", "é", "订"])
@pytest.mark.parametrize("length", [20, 80, 240])
def test_names_of_any_length_have_marks_of_their_own(tmp_path: Path, letter: str, length: int) -> None:
    checkpoint = _checkpoint(tmp_path)
    names = [f"lake.{letter * length}{end}" for end in "ab"]
    for name in names:
        BehindMarks(checkpoint).put(replace(MARK, table=name))
    assert sorted(BehindMarks(checkpoint).all) == names
    owners = ["2a2d3a6b-7c9b-4a53-9d7b-0f7b3a3e0d11" + replace(MARK, table=name).aside_name for name in names]
    assert len({*owners}) == 2 and max(map(len, owners)) <= 255


def test_partitions_that_have_lost_their_end_are_read_from_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = _checkpoint(tmp_path)
    known = BehindMarks(checkpoint)
    known.put(replace(MARK, begin='{"a":{"0":3,"1":7}}', after=None, slice=None))

    known.move({("a", 0): 5, ("a", 1): 5, ("b", 0): 2})

    assert known.all[MARK.table].position == '{"a":{"0":3,"1":5}}'
    assert not caplog.records


def test_partitions_of_topics_made_anew_begin_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = _checkpoint(tmp_path)
    known, other = BehindMarks(checkpoint), BehindMarks(checkpoint)
    known.put(MARK)
    other.reload()

    other.move({("a", 0): None, ("x", 1): None})

    (told,) = [record.getMessage() for record in caplog.records]
    at = json.loads(END)["a"]["0"]
    assert told.startswith(
        f"table {MARK.table}: topic a partition 0 is another one now: what the old one had from offset {at}"
    )
    known.reload()
    mark = known.all[MARK.table]
    assert mark.begin is not None
    assert json.loads(mark.begin) == {"a": {"1": 7}, "b": {"0": 3}}
    assert (mark.after, mark.position) == ("{}", "{}")
    assert mark.slice is not None
    assert mark.slice.begin is None


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "{}",
        lambda _: "null",
        lambda _: "[" * 100_000,
        lambda text: json.dumps({**json.loads(text), "table": ["a"]}),
        lambda text: json.dumps({**json.loads(text), "batch": "7"}),
        lambda text: json.dumps({**json.loads(text), "begin": {"a": 1}}),
        lambda text: json.dumps({**json.loads(text), "topics": "abc"}),
        lambda text: json.dumps({**json.loads(text), "topics": [1]}),
        lambda text: text.replace('"number": 2', '"number": -2'),
    ],
)
def test_a_damaged_mark_is_named(tmp_path: Path, change: Callable[[str], str]) -> None:
    checkpoint = _checkpoint(tmp_path)
    BehindMarks(checkpoint).put(MARK)
    (file,) = (tmp_path / "checkpoint" / DIRECTORY).glob("*.json")
    file.write_text(change(file.read_text()))
    with pytest.raises(CorruptFile, match=r"tidemark/behind/.*is not what was written"):
        BehindMarks(checkpoint)


def test_a_mark_tells_the_slices_that_it_has_planned_from_later_ones() -> None:
    mark = BehindMark("lake.t", Cause.ASKED, "by hand", 10, 3, None)
    assert mark.has_planned(9, 5) and not mark.has_planned(11, 0)
    assert not mark.has_planned(10, 0)
    begun = replace(mark, slice=SlicePlan(4, None, "{}", 20))
    assert begun.has_planned(10, 4) and not begun.has_planned(10, 5)
    assert replace(mark, cause=Cause.JOINED).has_planned(10, 5)
