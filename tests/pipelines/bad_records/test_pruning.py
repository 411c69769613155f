"""What the quarantine forgets: records that are finished, their payloads and their entries, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from paimon_table import FilesystemCatalog
from paimon_table.storage.file_io import LocalFileIO
from pipelines.bad_records.facts import TableJudge
from pipelines.bad_records.log import Closed, Place, QuarantineLog, Sealed, stretches
from pipelines.bad_records.pruning import prune
from tests.support.command import tidemark
from tests.support.quarantined import (
    envelope,
    forget_the_past,
    letters,
    offsets_left,
    record,
    run_batch,
    write_pipeline,
)

WIDE = 3_000_000_000


def filled(root: Path) -> Path:
    file = write_pipeline(root, {"sequence.field": "v"})
    wide = [record(offset, envelope(offset, WIDE, v=offset)) for offset in (4, 5)]
    run_batch(root, file, 0, record(1, envelope(1, 1, v=1)), *wide)
    return file


def pruned(root: Path) -> tuple[int, int]:
    """How many files of records and how many entries are left."""
    prune(letters(root).log, TableJudge(FilesystemCatalog(LocalFileIO(), f"{root}/warehouse")))
    place = root / "checkpoint-quarantine"
    return len([*place.rglob("*.jsonl")]), len([*(place / "log").iterdir()])


def applied(root: Path) -> Path:
    file = filled(root)
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "columns:" not in line))
    assert tidemark("quarantine", "retry", file).returncode == 0
    return file


def test_open_records_stay(tmp_path: Path) -> None:
    filled(tmp_path)
    assert pruned(tmp_path) == (1, 1)
    assert offsets_left(tmp_path) == [4, 5]


def test_applied_records_stay_as_long_as_their_table_can_be_rolled_back(tmp_path: Path) -> None:
    applied(tmp_path)
    before = len([*(tmp_path / "checkpoint-quarantine" / "log").iterdir()])
    assert pruned(tmp_path) == (1, before)
    run_batch(tmp_path, tmp_path / "shop.yaml", 1, record(9, envelope(9, 9, v=9)))
    forget_the_past(tmp_path)
    assert pruned(tmp_path) == (0, 1)
    assert offsets_left(tmp_path) == []


def test_a_record_of_a_recreated_topic_keeps_its_payload(tmp_path: Path) -> None:
    """A mirror recreates a topic with the offsets and times that its records had."""
    log = QuarantineLog(LocalFileIO(), str(tmp_path / "checkpoint-quarantine"))
    lines = json.dumps({"topic": "t", "partition": 0, "offset": 7, "ts": 1_000}).encode() + b"\n"
    old, new = (Place("t", topic_id, 0, 7, 1_000) for topic_id in ("old", "new"))
    for number, place in enumerate((old, new)):
        log.io.mkdirs(f"{log.path}/q/batch-{number}")
        log.io.write(f"{log.path}/q/batch-{number}/a.jsonl", lines)
        log.append(Sealed(step=f"q/batch-{number}", bad={"a.jsonl": stretches([place])}))
    log.append(Closed(why="dropped", places=stretches([old])))
    prune(log, TableJudge(FilesystemCatalog(LocalFileIO(), f"{tmp_path}/warehouse")))
    assert [file.parent.name for file in tmp_path.rglob("*.jsonl")] == ["batch-1"]


def test_an_entry_that_closes_a_record_stays_with_the_one_that_opens_it(tmp_path: Path) -> None:
    filled(tmp_path)
    log = letters(tmp_path).log
    first, second = letters(tmp_path).facts().places()
    log.append(Closed(why="dropped", places=stretches([first])))
    log.append(Closed(why="dropped", places=stretches([first])))
    assert pruned(tmp_path) == (1, 3)
    assert offsets_left(tmp_path) == [second.offset]
    (file,) = (tmp_path / "checkpoint-quarantine").rglob("*.jsonl")
    assert len(file.read_text().splitlines()) == 1
