"""Dump files that are cut short, or still being written: told, and read on once they are whole."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.errors import CorruptFile
from sources.dumps.dump_file import HEAD_BYTES, FilePosition, Rest
from sources.dumps.dump_source import DumpPlanner, positions_of
from sources.dumps.settings import DumpSettings
from sources.dumps.unfinished import UnfinishedFiles

LINES = b"".join(
    b'{"topic":"t","partition":0,"offset":%d,"payload":"%x"}\n' % (n, n * 7919 % 10007) for n in range(20_000)
)


def packed(name: str) -> bytes:
    codec = {".gz": "gzip", ".zst": "zstd"}[Path(name).suffix]
    return bytes(pa.compress(LINES, codec, asbytes=True))


def drained(planner: DumpPlanner, start: str) -> str:
    while (end := planner.latest_offset(start)) != start:
        start = end
    return start


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.jsonl.zst"])
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.5, 0.99999])
def test_a_compressed_file_that_was_cut_short_is_told_until_it_is_whole(
    tmp_path: Path, name: str, share: float
) -> None:
    file, whole = tmp_path / name, packed(name)
    file.write_bytes(whole[: int(len(whole) * share)])
    settings = DumpSettings(str(tmp_path), max_records_per_batch=6000)
    planner = DumpPlanner(settings)

    end = drained(planner, planner.initial_offset())
    read = positions_of(end).get(name, FilePosition()).records
    again = DumpPlanner(settings)
    assert drained(again, end) == end

    told = f"nothing after line {read:,}" if read else "nothing"
    for looked in (planner, again):
        (text,) = looked.unfinished.words
        assert text.startswith(
            f"{file}: its compressed stream is incomplete, and {told} could be read; replace it with the whole"
        )

    file.write_bytes(whole)
    assert positions_of(drained(again, end))[name].records == 20_000
    assert again.unfinished.words == []


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz"])
def test_a_last_line_that_is_not_whole_is_told(tmp_path: Path, name: str) -> None:
    pack = gzip.compress if name.endswith("gz") else bytes
    file, (first, second) = tmp_path / name, LINES.splitlines(keepends=True)[:2]
    contents = (first[:30], first + second[:30], first + second[:-1], LINES, LINES + b" \n ", LINES + b" \n oops")
    planner = DumpPlanner(DumpSettings(str(tmp_path)))

    texts = []
    end = planner.initial_offset()
    for content in contents:
        file.write_bytes(pack(content))
        end = drained(planner, end)
        texts.append([text.partition(" on, is")[0] for text in planner.unfinished.words])

    places = [0, len(first), None, None, None, len(LINES) + 2]
    assert texts == [[] if at is None else [f"{file}: its last line, from byte {at:,}"] for at in places]


def test_a_gzip_stream_that_is_damaged_is_refused(tmp_path: Path) -> None:
    whole = bytearray(packed("d.jsonl.gz"))
    whole[-7] ^= 0xFF  # of the checksum
    (tmp_path / "d.jsonl.gz").write_bytes(whole)
    planner = DumpPlanner(DumpSettings(str(tmp_path)))

    with pytest.raises(CorruptFile, match=r"d\.jsonl\.gz cannot be read: .*; restore or remove it"):
        drained(planner, planner.initial_offset())


def test_offsets_stay_as_they_are_without_more_lines(tmp_path: Path) -> None:
    """Another text would be a batch without records."""
    (tmp_path / "d.jsonl").write_bytes(LINES)
    planner = DumpPlanner(DumpSettings(str(tmp_path)))

    end = drained(planner, planner.initial_offset())
    assert drained(DumpPlanner(DumpSettings(str(tmp_path))), end) == end

    assert json.loads(end)["files"]["d.jsonl"]["head"] == zlib.crc32(LINES[:HEAD_BYTES])


def test_the_log_has_a_file_that_stays_unfinished_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    seen = UnfinishedFiles(lambda: clock[0])
    for moment, lines in ((0, 5), (50, 9), (100, 9), (111, 9), (500, 9)):
        clock[0] = moment
        seen.look("/d/a.gz", FilePosition(lines * 10, lines), Rest.CUT)
        told = len(caplog.records)
        assert told == (moment >= 111)

    assert "/d/a.gz: its compressed stream is incomplete, and nothing after line 9" in caplog.text


def test_a_torn_last_line_that_is_cut_off_is_told_no_more(tmp_path: Path) -> None:
    file = tmp_path / "d.jsonl"
    whole = LINES[: LINES.index(b"\n", 1000) + 1]
    file.write_bytes(whole + b'{"topic":"t","part')
    planner = DumpPlanner(DumpSettings(str(tmp_path)))
    end = drained(planner, planner.initial_offset())
    assert len(planner.unfinished.words) == 1

    file.write_bytes(whole)
    again = DumpPlanner(DumpSettings(str(tmp_path)))
    assert drained(again, end) == end
    assert again.unfinished.words == []
