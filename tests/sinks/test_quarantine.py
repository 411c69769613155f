"""Lines and files of the quarantine: every bad record once, whole, private, in the form of a dump."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.ids import Offset
from paimon_table.storage.file_io import LocalFileIO
from sinks.quarantine import Quarantine, record_line
from sources.changes import QuarantineRow
from sources.dumps.dump_records import records_of_text

CONTENT = st.none() | st.binary() | st.text().map(str.encode)


def bad(topic: str = "t", offset: int = 0, value: bytes = b"?") -> QuarantineRow:
    return QuarantineRow(topic, 0, Offset(offset), 1, "broken", None, value)


def lines(quarantine: Quarantine, batch_id: int) -> list[dict[str, object]]:
    files = sorted(Path(quarantine.directory(batch_id)).iterdir())
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_topics_whose_readable_names_meet_leave_all_their_records(tmp_path: Path) -> None:
    quarantine = Quarantine(LocalFileIO(), str(tmp_path))

    for stretch, topic in enumerate(["a/b", "a b", "a_b"]):
        quarantine.add(0, stretch, [bad(topic)])

    assert sorted(str(line["topic"]) for line in lines(quarantine, 0)) == ["a b", "a/b", "a_b"]


def test_overlapping_dumps_leave_all_their_records(tmp_path: Path) -> None:
    for task in (0, 1):
        quarantine = Quarantine(LocalFileIO(), str(tmp_path), task)
        for stretch in (0, 1):
            quarantine.add(0, stretch, [bad(value=f"{task} {stretch}".encode())])

    assert sorted(str(line["payload"]) for line in lines(quarantine, 0)) == ["0 0", "0 1", "1 0", "1 1"]


def test_a_task_that_is_tried_again_writes_the_same_file_and_another_run_another(tmp_path: Path) -> None:
    quarantine = Quarantine(LocalFileIO(), str(tmp_path))
    quarantine.add(0, 0, [bad()])
    quarantine.add(0, 0, [bad()])
    assert len(lines(quarantine, 0)) == 1

    replace(quarantine, run="2").add(0, 0, [bad(value=b"again")])
    assert sorted(str(line["payload"]) for line in lines(quarantine, 0)) == ["?", "again"]


def test_topics_of_any_length_and_alphabet_have_a_file(tmp_path: Path) -> None:
    quarantine = Quarantine(LocalFileIO(), str(tmp_path))

    for stretch, topic in enumerate(["x" * 249, "Ω" * 249, "malformed:" + "/directory" * 300]):
        quarantine.add(0, stretch, [bad(topic, 2**63 - 1)])

    assert {len(str(line["topic"])) for line in lines(quarantine, 0)} == {249, 3010}


def test_local_files_and_directories_are_private(tmp_path: Path) -> None:
    quarantine = Quarantine(LocalFileIO(private=True), f"{tmp_path}/q/id")

    quarantine.add(7, 0, [bad()])

    made = list(tmp_path.rglob("*"))
    assert len(made) == 4
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}


@pytest.mark.slow
@settings(deadline=None)
@given(CONTENT, CONTENT, st.lists(st.tuples(st.text(), CONTENT), max_size=3), st.none() | st.integers(-1, 2**52))
def test_a_line_is_read_as_the_record_that_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp_ms: int | None
) -> None:
    row = QuarantineRow("t", 3, Offset(9), timestamp_ms, "why", key, value, tuple(headers))

    text = json.dumps(record_line(row), ensure_ascii=False).encode()
    batch = records_of_text(text, "f", 0)
    (read,) = batch.drop_columns(["timestamp"]).to_pylist()

    assert (read["topic"], read["partition"], read["offset"]) == ("t", 3, 9)
    assert (read["key"], read["value"]) == (key, value)
    assert [(h["key"], h["value"]) for h in read["headers"] or ()] == headers
    moment = batch.column("timestamp").cast("int64")[0].as_py()
    assert moment == (None if timestamp_ms is None else timestamp_ms * 1000)
