"""Dump files that come again: under another name, as a copy, from the start, or with another content."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from sources.dumps import dump_source
from sources.dumps.dump_file import HEAD_BYTES, head_text
from sources.dumps.dump_source import DumpPlanner, offset_text, positions_of
from sources.dumps.settings import DumpSettings
from sources.topics import TopicSelection

LINES = 3 * HEAD_BYTES // 60


def lines(begin: int, end: int, text: str = "") -> bytes:
    records = ({"topic": "t", "partition": 0, "offset": n, "payload": text} for n in range(begin, end))
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


class Dumps:
    """A directory, and the batches of a source that reads it; each planner is a restart."""

    def __init__(self, path: Path, suffix: str, limit: int) -> None:
        self.path, self.suffix, self.limit = path, suffix, limit
        self.offset = offset_text({})

    def put(self, name: str, text: bytes) -> Path:
        file = self.path / f"{name}.jsonl{self.suffix}"
        file.write_bytes(gzip.compress(text) if self.suffix else text)
        return file

    def read(self) -> int:
        """Plan batches until there are no more; how many lines these have."""
        planner = DumpPlanner(DumpSettings(str(self.path), TopicSelection(), self.limit))
        before = sum(position.records for position in positions_of(self.offset).values())
        while (end := planner.latest_offset(self.offset)) != self.offset:
            self.offset = end
        return sum(position.records for position in positions_of(self.offset).values()) - before


@pytest.fixture(params=["", ".gz"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[7, LINES, 100 * LINES])
def dumps(request: pytest.FixtureRequest, tmp_path: Path, suffix: str) -> Dumps:
    return Dumps(tmp_path, suffix, request.param)


@pytest.mark.parametrize("count", [1, 20, LINES])
def test_files_grow_and_others_come(dumps: Dumps, count: int) -> None:
    dumps.put("b", lines(0, count))
    assert dumps.read() == count
    dumps.put("b", lines(0, 2 * count))
    dumps.put("a", lines(2 * count, 3 * count))
    dumps.put("c", lines(3 * count, 4 * count))
    assert dumps.read() == 3 * count
    assert dumps.read() == 0


@pytest.mark.parametrize("count", [1, 20, LINES])
@pytest.mark.parametrize("name", ["a", "c"])
@pytest.mark.parametrize("how", ["renamed", "copied", "dumped again", "behind blank lines"])
def test_records_that_come_under_another_name_are_refused(dumps: Dumps, count: int, name: str, how: str) -> None:
    file = dumps.put("b", lines(0, count))
    dumps.read()
    if how == "renamed":
        file.rename(dumps.path / f"{name}.jsonl{dumps.suffix}")
    else:
        blank = b"\n \r\n" if how == "behind blank lines" else b""
        dumps.put(name, blank + lines(0, count + (5 if how == "dumped again" else 0)))
    before = dumps.offset
    with pytest.raises(
        CorruptFile, match=rf"{name}\.jsonl\S* begins with the same records as b\.jsonl.*restore its name"
    ):
        dumps.read()
    assert dumps.offset == before
    if how == "renamed":
        (dumps.path / f"{name}.jsonl{dumps.suffix}").rename(file)
    else:
        (dumps.path / f"{name}.jsonl{dumps.suffix}").unlink()
    assert dumps.read() == 0


def test_copies_are_refused_before_one_of_them_is_read_behind_the_other(tmp_path: Path) -> None:
    dumps = Dumps(tmp_path, "", 1000)
    for name in ("a", "b"):
        dumps.put(name, lines(0, 10))
    with pytest.raises(CorruptFile, match=r"b\.jsonl begins with the same records as a\.jsonl"):
        dumps.read()
    assert positions_of(dumps.offset) == {}


@pytest.mark.parametrize("text", [b"\n", b"{}\n", b"% Reached end of topic\n", b'{"topic": "t"}\n'], ids=repr)
def test_lines_that_are_no_records_tell_no_files_apart(dumps: Dumps, text: bytes) -> None:
    dumps.put("a", text)
    dumps.read()
    dumps.put("b", text + lines(0, 3))
    dumps.put("c", text + lines(3, 5))
    assert dumps.read() == 7


def test_many_small_files_are_planned_at_once(tmp_path: Path) -> None:
    """Every file is looked at once, whatever the number of those that were read; a bound on work, not on time."""
    dumps = Dumps(tmp_path, "", 500)
    for n in range(300):
        dumps.put(f"{n:04}", lines(n * 100, n * 100 + 1 + n % 20))
    with counted_reads() as reads:
        dumps.read()
    assert reads[0] <= 3 * 300


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """How often the head of a file is read."""
    count, read = [0], head_text

    def counting(path: str, size: int = HEAD_BYTES) -> bytes:
        count[0] += 1
        return read(path, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump_source, "head_text", counting)
        yield count


@pytest.mark.parametrize("count", [1, 20, LINES])
def test_another_content_under_the_name_is_refused(dumps: Dumps, count: int) -> None:
    dumps.put("b", lines(0, count))
    dumps.read()
    dumps.put("b", lines(0, 2 * count, "another text"))
    with pytest.raises(
        CorruptFile, match=rf"b\.jsonl\S* no longer has the beginning that it had when {count:,} of its lines were read"
    ):
        dumps.read()
