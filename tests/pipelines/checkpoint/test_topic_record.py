"""Which topics a checkpoint was read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.topic_record import FILE, TopicRecord
from tests.support.local_batches import pipeline_tables


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """A checkpoint in which a batch was planned."""
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").touch()
    return Checkpoint(pipeline_tables(tmp_path, [{"match": {"table": "a"}, "into": "lake.a"}]).config)


def test_a_topic_with_another_id_is_found_by_later_runs_until_it_is_recorded(checkpoint: Checkpoint) -> None:
    TopicRecord(checkpoint).add({"a": "1", "b": "1"})
    TopicRecord(checkpoint).add({"c": "1"})

    later = TopicRecord(checkpoint)
    assert later.made_anew({"a": "2", "b": "1", "c": "1", "d": "9"}) == ["a"]
    assert later.made_anew({"b": "1"}) == []
    later.add({"a": "2"})
    assert TopicRecord(checkpoint).made_anew({"a": "2"}) == []


def test_a_checkpoint_without_a_record_or_without_batches_knows_no_topics(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    assert TopicRecord(checkpoint).made_anew({"a": "1"}) == []
    TopicRecord(checkpoint).add({"a": "1"})
    (tmp_path / "checkpoint" / "offsets" / "0").unlink()
    assert TopicRecord(checkpoint).made_anew({"a": "2"}) == []


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, checkpoint: Checkpoint) -> None:
    (tmp_path / "checkpoint" / FILE).write_text("{")
    with pytest.raises(CorruptFile, match=FILE):
        TopicRecord(checkpoint).made_anew({})
