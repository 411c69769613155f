"""`tidemark pause`, `resume` and `reload` of a pipeline that does not run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines.checkpoint.book import Book, Cause, Entry, Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.control import table_commands
from pipelines.control.asking import ask
from pipelines.control.requests import Requests
from pipelines.control.table_commands import ask_for_table
from tests.support.command import tidemark

PIPELINE = """
version: 1
name: shop
source: { files: { path: dump.jsonl }, format: debezium-json }
checkpoint: state
catalog: { warehouse: w }
tables:
  - { match: { table: orders }, into: lake.orders }
"""


def pipeline(directory: Path) -> Path:
    (directory / "dump.jsonl").write_text("")
    file = directory / "shop.yaml"
    file.write_text(PIPELINE)
    return file


def waiting(file: Path) -> list[str]:
    return [request.command for request in Requests.of(load_pipeline(file)).waiting()]


def test_a_misspelt_table_is_refused_without_a_run(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    for command in ("pause", "resume"):
        refused = tidemark(command, file, "--table", "lake.order")
        assert refused.returncode == 2
        assert "pipeline shop has no table 'lake.order'; did you mean 'lake.orders'?" in refused.stderr
    assert waiting(file) == []


def test_a_table_that_was_paused_before_its_first_snapshot_can_be_resumed(tmp_path: Path) -> None:
    """No rule names it: the checkpoint alone knows it."""
    file = pipeline(tmp_path)
    file.write_text(PIPELINE[: PIPELINE.index("tables:")] + "otherwise: create\n")
    (tmp_path / "state" / "offsets").mkdir(parents=True)
    (tmp_path / "state" / "offsets" / "0").write_text("v1\n{}\n{}\n")  # a batch was planned
    pause = Pause("public.orders", Cause.FAILED, "no key", since_ms=1, batch=0, begin=None)
    Book(Checkpoint(load_pipeline(file))).put({"public.orders": Entry(pause=pause)})

    resumed = tidemark("resume", file, "--table", "public.orders")

    assert (resumed.returncode, waiting(file)) == (0, ["resume"]), resumed.stderr


def test_a_table_that_no_rule_writes_any_more_is_refused_without_a_run(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    (tmp_path / "state" / "offsets").mkdir(parents=True)
    (tmp_path / "state" / "offsets" / "0").write_text("v1\n{}\n{}\n")  # a batch was planned
    away = Pause("lake.old", Cause.FAILED, "no rule", since_ms=1, batch=0, begin=None, has_rule=False)
    book = Book(Checkpoint(load_pipeline(file)))
    book.change(lambda contents: replace(contents, earlier=(), tables={"lake.old": Entry(created_ms=1, pause=away)}))

    refused = tidemark("resume", file, "--table", "lake.old")

    assert (refused.returncode, waiting(file)) == (2, []), refused.stdout


def test_a_pause_waits_for_the_next_start_and_a_reload_needs_none(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    paused = tidemark("pause", file, "--table", "lake.orders")
    assert (paused.returncode, waiting(file)) == (0, ["pause"])

    reloaded = tidemark("reload", file)
    assert "pipeline shop does not run; its next start reads the file" in reloaded.stdout
    assert (reloaded.returncode, waiting(file)) == (0, ["pause"])


def test_who_does_not_take_a_request_is_told_apart_from_who_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pipeline(tmp_path)
    process = ExitStack()
    process.enter_context(held_checkpoints([load_pipeline(file)]))
    for is_ending, told in ((False, "is starting, waits for its source or storage, or is busy"), (True, "has ended")):

        def asks(config: PipelineConfig, command: str, arguments: Mapping[str, str], ends: bool = is_ending) -> object:
            if ends:
                process.close()
            return ask(config, command, arguments, wait_s=0.5, sleep=lambda _: None)

        monkeypatch.setattr(table_commands, "ask", asks)
        ask_for_table(file, "pause", "lake.orders", lambda _: ["lake.orders"])
        assert told in capsys.readouterr().out
    assert waiting(file) == ["pause", "pause"]


def test_a_table_that_is_not_there_is_not_asked_for_of_who_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pipeline(tmp_path)
    monkeypatch.setattr(table_commands, "ask", lambda *given: ask(*given, wait_s=0.5, sleep=lambda _: None))
    with (
        held_checkpoints([load_pipeline(file)]),
        pytest.raises(ConfigError, match=r"is starting, .* yet\. Nothing was changed: .* did you mean 'lake\.orders'"),
    ):
        ask_for_table(file, "pause", "lake.order", lambda _: ["lake.orders"])
    assert waiting(file) == []
