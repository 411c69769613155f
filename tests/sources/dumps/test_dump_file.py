"""Positions in dump files: whole lines only, plain or compressed, growing or torn."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.errors import CorruptFile
from sources.dumps.dump_file import DumpFile, FilePosition, advanced, line_boundary
from sources.dumps.dump_records import record_batches_from_dump, records_of_text


def lines(count: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in range(count))


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.jsonl.zst"])
def test_steps_cover_a_file_without_gap_or_overlap(tmp_path: Path, name: str) -> None:
    import pyarrow as pa

    path, text = tmp_path / name, lines(1000)
    codec = {"gz": "gzip", "st": "zstd"}.get(name[-2:])
    path.write_bytes(text if codec is None else pa.compress(text, codec, asbytes=True))
    file = DumpFile(str(path))

    read, position = b"", FilePosition()
    while (end := advanced(file, position, 300)).records > position.records:
        read += file.read(position.bytes, end.bytes - position.bytes)
        position = end

    assert read == text
    assert (position.bytes, position.records) == (len(text), 1000)


def test_a_torn_compressed_file_gives_its_whole_lines_and_later_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl.gz"
    whole = gzip.compress(lines(50_000))
    path.write_bytes(whole[: len(whole) // 2])
    file = DumpFile(str(path))

    first = advanced(file, FilePosition(), 1_000_000)
    path.write_bytes(whole)
    second = advanced(file, first, 1_000_000)

    assert 0 < first.records < 50_000
    assert second.records == 50_000


def test_a_compressed_file_that_lost_lines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(gzip.compress(lines(10)))

    with pytest.raises(CorruptFile, match="only grow"):
        DumpFile(str(path)).read(10_000, 10)


@pytest.mark.slow
@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.integers(1, 200))
def test_boundaries_cut_between_lines(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], step: int) -> None:
    path = tmp_path_factory.mktemp("dump") / "d.jsonl"
    text = b"".join(b"x" * size + b"\n" for size in sizes)
    path.write_bytes(text)
    file = DumpFile(str(path))

    cuts = [0]
    while cuts[-1] < len(text):
        cuts.append(line_boundary(file, min(cuts[-1] + step, len(text)), len(text)))

    assert cuts[-1] == len(text)
    assert all(text[:cut].endswith(b"\n") for cut in cuts[1:])
    assert len(set(cuts)) == len(cuts)


def test_broken_lines_are_told_by_file_and_position() -> None:
    good = json.dumps({"topic": "t", "partition": 0, "offset": 5}).encode()

    batch = records_of_text(b"\n".join([good, b"oops", good, b'{"topic":"t"}']), "f.jsonl", 1000)

    assert batch.select(["topic", "partition", "offset", "value"]).to_pylist() == [
        {"topic": "t", "partition": 0, "offset": 5, "value": None},
        {"topic": "malformed:f.jsonl", "partition": -1, "offset": 1000 + len(good) + 1, "value": b"oops"},
        {"topic": "t", "partition": 0, "offset": 5, "value": None},
        {"topic": "malformed:f.jsonl", "partition": -1, "offset": 1000 + 2 * len(good) + 7, "value": b'{"topic":"t"}'},
    ]


def test_binary_records_come_from_base64(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    record = {"topic": "t", "partition": 0, "offset": 0, "key_b64": "/wA=", "payload_b64": None, "headers": ["h", "v"]}
    path.write_text(json.dumps(record))

    (batch,) = record_batches_from_dump(str(path))

    row = batch.to_pylist()[0]
    assert (row["key"], row["value"], row["headers"]) == (b"\xff\x00", None, [{"key": "h", "value": b"v"}])
