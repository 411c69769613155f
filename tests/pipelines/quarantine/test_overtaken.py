"""A retry applies records that nothing has overtaken, and no others, where the order of records decides."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.quarantine import overtaken
from tests.support.command import tidemark
from tests.support.quarantined import (
    envelope,
    forget_the_past,
    offsets_left,
    record,
    rows_of,
    run_batch,
    table,
    write_pipeline,
)

WIDE = 3_000_000_000
"""Beyond INT, which the column is declared as at first."""

Kind = Literal["good", "delete", "bad"]
Op = tuple[int, Kind]
"""A key, and what a record does to its row."""


def value(key: int, kind: Kind, offset: int) -> bytes:
    n = offset + (WIDE if kind == "bad" else 0)
    if kind != "delete":
        return envelope(key, n)
    event = json.loads(envelope(key, 0))
    return json.dumps({**event, "before": event["after"], "after": None, "op": "d"}).encode()


class Played:
    """Batches of records, the bad ones in quarantine, and the file as it should have been from the start."""

    def __init__(self, root: Path, batches: list[list[Op]], producer: str = "none") -> None:
        self.root, self.file = root, write_pipeline(root, {"changelog-producer": producer})
        self.good: dict[int, tuple[int, int | None]] = {}
        """By offset the key and what its row has."""
        self.bad: dict[int, tuple[int, int]] = {}
        self.batch_of: dict[int, int] = {}
        offset = 0
        for number, ops in enumerate(batches):
            rows = []
            for key, kind in ops:
                rows.append(record(offset, value(key, kind, offset), key=key))
                self.batch_of[offset] = number
                if kind == "bad":
                    self.bad[offset] = key, offset + WIDE
                else:
                    self.good[offset] = key, None if kind == "delete" else offset
                offset += 1
            run_batch(root, self.file, number, *rows)
        assert offsets_left(root) == sorted(self.bad)
        self.file.write_text("".join(line for line in self.file.read_text().splitlines(True) if "columns:" not in line))

    def retry(self) -> str:
        done = tidemark("quarantine", "retry", self.file)
        return done.stdout + done.stderr

    def in_order(self) -> dict[int, int]:
        """What the table holds if every record that is not open came at its place."""
        rows: dict[int, int] = {}
        left = offsets_left(self.root)
        applied = {offset: of for offset, of in self.bad.items() if offset not in left}
        for _, (key, n) in sorted({**self.good, **applied}.items()):
            if n is None:
                rows.pop(key, None)
            else:
                rows[key] = n
        return rows

    def must_stay(self) -> list[int]:
        """The records whose keys a good record of their own batch, or of a later one, has too."""
        of_good = [(self.batch_of[offset], key) for offset, (key, _) in self.good.items()]
        return [o for o, (key, _) in self.bad.items() if any(k == key and b >= self.batch_of[o] for b, k in of_good)]


BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(("good", "good", "delete", "bad"))), min_size=1, max_size=5),
    min_size=2,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(BATCHES, st.sampled_from(("none", "lookup", "input")))
def test_a_retry_leaves_the_table_as_if_its_records_had_come_in_order(batches: list[list[Op]], producer: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        played = Played(Path(name), [[(9, "good")], *batches], producer)
        told = played.retry()
        assert offsets_left(played.root) == played.must_stay(), told
        assert rows_of(played.root) == played.in_order(), told


NEVER: list[list[Op]] = [[(1, "good")], [(2, "bad"), (3, "good")], [(3, "delete"), (1, "good")]]


@pytest.mark.slow
def test_a_key_that_the_table_never_had_needs_no_word(tmp_path: Path) -> None:
    played = Played(tmp_path, NEVER)
    assert "retried 1 record: 1 is in its table" in played.retry()
    assert rows_of(tmp_path) == {1: 4, 2: 1 + WIDE}


@pytest.mark.slow
def test_a_row_that_was_deleted_since_does_not_come_back(tmp_path: Path) -> None:
    played = Played(tmp_path, [[(1, "good")], [(2, "bad")], [(2, "good"), (3, "good")], [(2, "delete")]])
    assert "1 stays in the quarantine" in played.retry()
    assert (rows_of(tmp_path), offsets_left(tmp_path)) == ({1: 0, 3: 3}, [1])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["expired", "overwritten", "too many"])
def test_where_the_history_is_not_there_the_record_stays(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(tmp_path, NEVER)
    if how == "expired":
        forget_the_past(tmp_path)
    elif how == "overwritten":
        emptied = tidemark("table", "truncate", f"{tmp_path}/warehouse/lake.db/orders", "--yes")
        assert emptied.returncode == 0, emptied.stderr
    else:
        monkeypatch.setattr(overtaken, "MOST_SNAPSHOTS", 1)
    assert "1 record not retried: table lake.orders has no sequence.field" in played.retry()
    assert offsets_left(tmp_path) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("leaving", [envelope(1, 7).replace(b'"c"', b'"u"'), value(1, "delete", 7)], ids=["u", "d"])
def test_a_version_that_a_filter_has_ended_since_finds_its_end(tmp_path: Path, leaving: bytes) -> None:
    file = write_pipeline(tmp_path)
    file.write_text(file.read_text().replace("    into:", "    history: scd2\n    where: n <> 7\n    into:"))
    run_batch(tmp_path, file, 0, record(0, envelope(9, 1), key=9), record(1, value(1, "bad", 1), key=1))
    run_batch(tmp_path, file, 1, record(7, leaving, key=1))
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "columns:" not in line))

    tidemark("quarantine", "retry", file)

    rows = {row["id"]: (row["n"], row["is_current"]) for row in table(tmp_path).to_arrow().to_pylist()}
    assert (rows, offsets_left(tmp_path)) == ({9: (1, True), 1: (1 + WIDE, False)}, [])


TRUNCATE = {**json.loads(envelope(0, 0)), "after": None, "op": "t"}


@pytest.mark.slow
@pytest.mark.parametrize("first", [[], [(9, "good")]], ids=["an empty table", "a table with rows"])
def test_a_row_from_before_a_truncate_does_not_come_back(tmp_path: Path, first: list[Op]) -> None:
    file = write_pipeline(tmp_path)
    file.write_text(file.read_text().replace("    into:", "    schema_changes: { truncate: apply }\n    into:"))
    gone = {**record(7, json.dumps(TRUNCATE).encode()), "key": None}
    rows = [record(offset, value(key, kind, offset), key=key) for offset, (key, kind) in enumerate(first)]
    run_batch(tmp_path, file, 0, *rows, record(5, value(1, "bad", 5), key=1))
    run_batch(tmp_path, file, 1, gone, record(8, value(2, "bad", 8), key=2))
    run_batch(tmp_path, file, 2, record(9, value(3, "bad", 9), key=3), record(10, value(4, "good", 10), key=4))
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "columns:" not in line))

    tidemark("quarantine", "retry", file)

    assert rows_of(tmp_path) == {3: 9 + WIDE, 4: 10}
    assert offsets_left(tmp_path) == [5, 8]  # of one batch, in which nothing tells them apart


def test_a_row_that_changed_later_in_the_same_batch_is_not_undone(tmp_path: Path) -> None:
    played = Played(tmp_path, [[(9, "good")], [(2, "bad"), (2, "good")]])
    assert "1 stays in the quarantine" in played.retry()
    assert (rows_of(tmp_path), offsets_left(tmp_path)) == ({9: 0, 2: 2}, [1])
