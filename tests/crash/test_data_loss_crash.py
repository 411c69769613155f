"""`on_data_loss: continue` after losses: killed before any of its writes, the next start does the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.storage.file_io import LocalFileIO
from pipelines.checkpoint.book import Book, Cause, Entry, Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.reading import source_reader
from pipelines.storage import catalog_of
from pipelines.tables.own_tables import OwnTables
from sources.kafka.reader import KafkaReader
from sources.positions import Bounds

pytestmark = pytest.mark.crash
IDS = {"a": "2", "b": "1", "c": "1"}
HELD = {("a", 0): Bounds(0, 60, 60), ("b", 0): Bounds(9, 20, 20), ("c", 0): Bounds(0, 5, 5)}
"""a was recreated, b has lost offsets 7 and 8, c is shorter than what was read of it."""


class Killed(BaseException):
    """The process ends here."""


def config_of(root: Path) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {
                "kafka": {"bootstrap_servers": "b:1", "topics": {"include": ["a", "b", "c"]}},
                "format": "debezium-json",
                "on_data_loss": "continue",
            },
            "checkpoint": str(root / "cp"),
            "catalog": {"warehouse": str(root)},
            "otherwise": "create",
        }
    )


def checkpoint(root: Path) -> None:
    """Batch 0 is closed, batch 1 is planned; a table has been behind since the first one."""
    for batch, ends in enumerate([{"a": 50, "b": 7, "c": 8}, {"a": 55, "b": 7, "c": 9}]):
        text = json.dumps({topic: {"0": at} for topic, at in ends.items()})
        (root / "cp" / "offsets").mkdir(parents=True, exist_ok=True)
        (root / "cp" / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{text}')
    (root / "cp" / "commits").mkdir()
    (root / "cp" / "commits" / "0").write_text("v1\n{}")
    known = Checkpoint(config_of(root))
    Book(known).note_topics({"a": "1", "b": "1", "c": "1"})
    begin = json.dumps({"a": {"0": 10}, "b": {"0": 3}, "c": {"0": 8}})
    Book(known).put({"lake.t": Entry(pause=Pause("lake.t", Cause.FAILED, "why", 1, 0, begin))})


def go_on(root: Path) -> None:
    """What a start does before its query begins."""
    config = config_of(root)
    reader = source_reader(config, Checkpoint(config), OwnTables(config, catalog_of(config)))
    assert isinstance(reader, KafkaReader)
    reader._settings = replace(reader._settings, goes_on_after_loss=True)
    reader._go_on(IDS, HELD)
    reader._standing.note_topics(IDS)


def state(root: Path) -> tuple[Mapping[tuple[str, int], int] | None, list[dict[str, int]], Pause]:
    known = Checkpoint(config_of(root))
    offsets = [json.loads(known.offset_after(batch)) for batch in (0, 1)]
    return known.kafka_positions(), offsets, Book(known).pauses["lake.t"]


@contextmanager
def killed_before(monkeypatch: pytest.MonkeyPatch, step: int) -> Iterator[None]:
    """Kill the process before its ``step``-th write or deletion."""
    left = step
    with monkeypatch.context() as patched:
        for name in ("write", "delete"):
            done = getattr(LocalFileIO, name)

            def counted(io: LocalFileIO, *arguments: Any, done: Any = done, **words: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return done(io, *arguments, **words)

            patched.setattr(LocalFileIO, name, counted)
        yield


def test_it_is_done_once_wherever_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(whole := tmp_path / "whole")
    go_on(whole)
    expected = state(whole)
    assert expected[0] == {("b", 0): 7, ("c", 0): 5}
    assert json.loads(expected[2].begin or "") == {"b": {"0": 3}, "c": {"0": 5}}
    for step in range(99):
        checkpoint(root := tmp_path / str(step))
        try:
            with killed_before(monkeypatch, step):
                go_on(root)
        except Killed:
            go_on(root)
            go_on(root)
            assert state(root) == expected, step
        else:
            break
    assert step > 3
