"""Documents of ours in a checkpoint: a damaged one is named with the way out, whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from pipelines.checkpoint import behind_marks, commit_counts, lock, replay_state, topic_record
from pipelines.checkpoint.behind_marks import BehindMarks
from pipelines.checkpoint.checkpoint import WAY_OUT, Checkpoint
from pipelines.checkpoint.commit_counts import CommitCounts
from pipelines.checkpoint.lock import held_checkpoints, holder_of
from pipelines.checkpoint.replay_state import Replays
from pipelines.checkpoint.topic_record import TopicRecord
from pipelines.config.config import PipelineConfig
from pipelines.tables import checkpoint_record
from pipelines.tables.checkpoint_record import CheckpointRecord
from tests.support.local_batches import ALL_TABLES, pipeline_tables

Reading = Callable[[PipelineConfig], object]

KINDS: dict[str, Reading] = {
    f"{behind_marks.DIRECTORY}/lake.a.json": lambda config: BehindMarks(Checkpoint(config)),
    f"{replay_state.DIRECTORY}/one.json": lambda config: Replays(Checkpoint(config)).all(),
    topic_record.FILE: lambda config: TopicRecord(Checkpoint(config)).ids,
    commit_counts.FILE: lambda config: CommitCounts(Checkpoint(config)).all,
    checkpoint_record.FILE: lambda config: CheckpointRecord(config, Checkpoint(config)),
}

DAMAGED = {
    "nothing": b"",
    "cut off": b'{"tables": {"lake.a": 1',
    "no object": b"null",
    "no text": b"\xff\xfe\xfd",
    "too deep": b"[" * 100_000,
}


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    """A pipeline whose checkpoint has planned a batch."""
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text('v1\n{"batchTimestampMs":0}\n{}')
    return pipeline_tables(tmp_path, ALL_TABLES).config


def _leave(config: PipelineConfig, name: str, content: bytes) -> None:
    file = Path(config.checkpoint) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_document_is_named_with_the_way_out(config: PipelineConfig, name: str, content: bytes) -> None:
    _leave(config, name, content)
    with pytest.raises(CorruptFile, match=re.escape(f"its file {name} is not what was written; {WAY_OUT}")):
        KINDS[name](config)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (commit_counts.FILE, b'{"lake.a": {"created_ms": 1e999, "count": 1, "topics": []}}'),
        (checkpoint_record.FILE, b'{"pipeline": "shop", "tables": {"lake.a": 1e999}}'),
    ],
)
def test_a_number_that_is_none_is_damage(config: PipelineConfig, name: str, content: bytes) -> None:
    _leave(config, name, content)
    with pytest.raises(CorruptFile, match=re.escape(f"its file {name} is not what was written")):
        KINDS[name](config)


@pytest.mark.parametrize("name", KINDS)
def test_what_was_never_written_is_no_damage(config: PipelineConfig, name: str) -> None:
    KINDS[name](config)


@pytest.mark.parametrize("name", [name for name in KINDS if "/" in name and name != commit_counts.FILE])
def test_other_files_beside_documents_are_passed_over(config: PipelineConfig, name: str) -> None:
    for other in (f".{Path(name).name}.crc", f".{Path(name).name}", "README"):
        _leave(config, f"{Path(name).parent}/{other}", b"")
    KINDS[name](config)


@pytest.mark.parametrize("file", ["metadata", "offsets/0"])
def test_a_file_of_spark_that_is_too_deep_is_named(config: PipelineConfig, file: str) -> None:
    _leave(config, "metadata", b'{"id": "7"}')
    _leave(config, file, b"v1\n{}\n" * (file != "metadata") + b"[" * 100_000)
    with pytest.raises(CorruptFile, match=f"its file {file} "):
        Checkpoint(config).check()


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_lock_that_is_not_as_written_is_that_of_another_process(config: PipelineConfig, content: bytes) -> None:
    with held_checkpoints([config]):
        _leave(config, lock.FILE, content)
        assert holder_of(config) == "another process"
