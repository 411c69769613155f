"""Documents of ours in a checkpoint: a damaged one is named with the way out, whoever reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import CorruptFile, UnsupportedFeature
from pipelines.checkpoint import lock, replay_state
from pipelines.checkpoint.book import FILE, Book, Cause, Entry, Pause, Ruleless
from pipelines.checkpoint.checkpoint import WAY_OUT, Checkpoint
from pipelines.checkpoint.document import FORMAT, NEWEST
from pipelines.checkpoint.lock import Holder, held_checkpoints, holder_of
from pipelines.checkpoint.reached import Reached
from pipelines.checkpoint.replay_state import (
    Counts,
    Kind,
    Point,
    Rebuild,
    Replays,
    ReplayState,
    Switch,
)
from pipelines.config.config import PipelineConfig
from pipelines.control import requests as requests_of
from pipelines.control.requests import Answer, Requests, State
from pipelines.quarantine.applying import Applied
from sinks.commit.positions import FedBy
from tests.support.local_batches import ALL_TABLES, pipeline_tables

Reading = Callable[[PipelineConfig], object]

KINDS: dict[str, Reading] = {
    FILE: lambda config: Book(Checkpoint(config)).contents,
    f"{replay_state.DIRECTORY}/one.json": lambda config: Replays(Checkpoint(config)).all(),
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
    with pytest.raises(
        CorruptFile, match=re.escape(f"its file {name} does not have the content that Tidemark wrote; {WAY_OUT}")
    ):
        KINDS[name](config)


def _text(value: object) -> bytes:
    entry = {"created_ms": 1, "commits": 2, "topics": ["t"], "pause": {**PAUSE}}
    return json.dumps({"pipeline": "shop", "tables": {"lake.a": {**entry, **value}}}).encode()  # type: ignore[dict-item]


PAUSE = {"table": "lake.a", "cause": "failed", "reason": "full", "since_ms": 1, "batch": 2, "begin": None}
REACHED = {"position": None, "number": 0, "at_ms": 1, "end": "{}"}


@pytest.mark.parametrize(
    "change",
    [
        {"created_ms": 1e999},
        {"created_ms": True},
        {"commits": -1},
        {"topics": "abc"},
        {"topics": [1]},
        {"pause": {}},
        {"pause": {**PAUSE, "table": ["a"]}},
        {"pause": {**PAUSE, "batch": "7"}},
        {"pause": {**PAUSE, "begin": {"a": 1}}},
        {"pause": {**PAUSE, "cause": "moods"}},
        {"pause": {**PAUSE, "reached": {**REACHED, "number": -2}}},
        {"ruleless": [{"batch": 1, "begin": None}]},
    ],
)
def test_a_value_of_another_kind_is_damage(config: PipelineConfig, change: dict[str, object]) -> None:
    _leave(config, FILE, _text({"pause": {**PAUSE, "reached": REACHED}}))
    assert Book(Checkpoint(config)).pauses["lake.a"].reached is not None
    _leave(config, FILE, _text(change))
    with pytest.raises(CorruptFile, match=re.escape(f"its file {FILE} does not have the content that Tidemark wrote")):
        Book(Checkpoint(config))


def _written(config: PipelineConfig) -> dict[str, dict[str, Any]]:
    """A document of each kind, as this version writes it."""
    checkpoint = Checkpoint(config)
    pause = Pause("lake.a", Cause.FAILED, "full", 1, 2, None, reached=Reached(None, 0, 1, "{}"))
    ruleless = Ruleless(FedBy("t", "shop", None, "a"), 3, "{}")
    book = Book(checkpoint)
    book.put({"lake.a": Entry(1, 2, 0, ("t",), pause, 0, (ruleless,))})
    book.note_topics({"t": "id"})
    switch, counts = Switch("user", 1, "tag", 2, 3), Counts(1, 2)
    rebuild = Rebuild("branch", {}, "rules", 1, False, switch, counts)
    begin, reached = Point(Kind.EARLIEST), Reached(None, 0, 1, "{}")
    Replays(checkpoint).put(ReplayState("one", "lake.a", begin, begin, ("t",), reached=reached, rebuild=rebuild))
    return {name: json.loads((Path(config.checkpoint) / name).read_bytes()) for name in KINDS}


def _with_more(value: Any) -> Any:
    """What a newer version may add: a field in every object of ours."""
    if not isinstance(value, dict):
        return value
    more = {name: inner if name in NAMED else _with_more(inner) for name, inner in value.items()}
    return more if "lake.a" in value else {**more, "newer": "x"}


NAMED = ("options", "topics", "cuts", "offsets", "formats")
"""Fields whose keys are names of options, topics or partitions."""


@pytest.mark.parametrize("name", KINDS)
def test_fields_of_newer_versions_are_passed_over(config: PipelineConfig, name: str) -> None:
    document = _written(config)[name]
    before = KINDS[name](config)
    _leave(config, name, json.dumps(_with_more(document)).encode())
    assert KINDS[name](config) == before


@pytest.mark.parametrize("name", KINDS)
def test_a_document_of_a_newer_version_asks_for_an_upgrade(config: PipelineConfig, name: str) -> None:
    document = _written(config)[name]
    _leave(config, name, json.dumps({**document, FORMAT: NEWEST + 1, "unknown": {}}).encode())

    with pytest.raises(UnsupportedFeature) as raised:
        KINDS[name](config)

    told = str(raised.value)
    assert told.startswith(f"file {name} of checkpoint {config.checkpoint} was written by a newer Tidemark (format 2;")
    assert "upgrade" in told
    assert raised.value.public_text == told


def test_a_request_of_a_newer_version_is_refused_with_that(config: PipelineConfig) -> None:
    requests = Requests.of(config)
    request = requests.leave("pause", {"table": "lake.a"})
    path = Path(config.checkpoint) / requests_of.DIRECTORY / f"{request.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), FORMAT: 2}))

    assert requests.waiting() == []

    answer = requests.answer_to(request.id)
    assert answer is not None and answer.state is State.REFUSED
    assert "was written by a newer Tidemark" in answer.text


def test_an_answer_of_a_newer_version_is_told_as_that(config: PipelineConfig) -> None:
    requests = Requests.of(config)
    request = requests.leave("pause", {"table": "lake.a"})
    requests.answer(request.id, Answer(State.DONE, "paused", {"more": 1}))
    path = Path(config.checkpoint) / requests_of.DIRECTORY / f"{request.id}.answer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), FORMAT: 2}))

    with pytest.raises(UnsupportedFeature, match="was written by a newer Tidemark"):
        requests.answer_to(request.id)


def test_what_a_newer_pipeline_says_of_a_slice_is_understood() -> None:
    applied = Applied(3, 2, 1, {"tombstones": 1}, {"it is broken": 1})
    assert Applied.from_details({**asdict(applied), "of_a_newer_version": 7}) == applied


@pytest.mark.parametrize("name", KINDS)
def test_what_was_never_written_is_no_damage(config: PipelineConfig, name: str) -> None:
    KINDS[name](config)


@pytest.mark.parametrize("name", KINDS)
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
        assert holder_of(config) == Holder("another process")
