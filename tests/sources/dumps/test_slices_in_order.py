"""Dump files read again come in the order in which the stream found them: the newest row of a key stays the newest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sources.dumps.dump_source import DumpPlanner, offset_text
from sources.dumps.settings import DumpSettings
from sources.dumps.slices import DumpSlices
from sources.topics import TopicSelection


def append(path: Path, *offsets: int) -> None:
    lines = (json.dumps({"topic": "t", "partition": 0, "offset": n, "payload": ""}) for n in offsets)
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


@pytest.fixture
def ends(tmp_path: Path) -> list[str]:
    """Where batches ended, of which the files came and grew against the order of their names."""
    planner = DumpPlanner(DumpSettings(str(tmp_path), TopicSelection(), 100))
    found = [offset_text({})]
    for name, offsets in [("m", (0, 1)), ("z", (2, 3)), ("a", (4,)), ("m", (5, 6)), ("y", (7, 8, 9))]:
        append(tmp_path / f"{name}.jsonl", *offsets)
        found.append(planner.latest_offset(found[-1]))
    return found[1:]


def offsets_read(path: Path, slices: DumpSlices, begin: str | None, limit: str, most: int) -> list[int]:
    read: list[int] = []
    planner = DumpPlanner(DumpSettings(str(path)))
    while (piece := slices.next(begin, limit, None, most)) is not None:
        for share in planner.shares(piece.begin or offset_text({}), piece.end):
            file, start, end = json.loads(share)
            read += [json.loads(line)["offset"] for line in Path(file).read_bytes()[start:end].splitlines()]
        begin = piece.end
    return read


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_batch_by_batch(tmp_path: Path, ends: list[str], most: int) -> None:
    slices = DumpSlices(DumpSettings(str(tmp_path)), lambda: ends)
    assert offsets_read(tmp_path, slices, None, ends[-1], most) == [*range(10)]
    assert offsets_read(tmp_path, slices, ends[1], ends[-1], most) == [*range(4, 10)]
    assert offsets_read(tmp_path, slices, ends[0], ends[2], most) == [2, 3, 4]


def test_ends_that_are_gone_leave_the_order_of_names(tmp_path: Path, ends: list[str]) -> None:
    slices = DumpSlices(DumpSettings(str(tmp_path)), lambda: ends[3:])
    assert offsets_read(tmp_path, slices, None, ends[-1], 1) == [4, 0, 1, 5, 6, 2, 3, 7, 8, 9]
