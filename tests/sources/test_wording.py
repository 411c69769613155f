"""Words of messages that name many things."""

from __future__ import annotations

from sources.wording import counted, first_of


def test_names_that_are_left_out_are_counted() -> None:
    names = [f"t{number}" for number in range(5)]
    assert first_of(names, 5) == names
    assert first_of(names, 3) == ["t0", "t1", "t2", "and 2 more"]
    assert first_of(names, 4, "tables")[-1] == "and 1 more table"
    assert first_of(names, 3, "tables")[-1] == "and 2 more tables"
    assert first_of([], 3) == []


def test_one_thing_has_no_plural() -> None:
    assert (counted(1, "file"), counted(1200, "file")) == ("1 file", "1,200 files")
