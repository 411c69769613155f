"""`tidemark status` of a process that runs, was stopped, failed, was killed, or never ran."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import stat
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest
from rich.console import Console

from paimon_table.errors import ConfigError
from pipelines.catchup.shown_standing import Standing
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.checkpoint.reached import Reached
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config_file import load_pipeline
from pipelines.http import state_file
from pipelines.http.document import document
from pipelines.http.state_file import kept_state, read_state, state_path
from pipelines.http.status import holder_by_process, status
from pipelines.http.status_view import status_view
from pipelines.views.run_state import RunState
from pipelines.views.table_shape import TableShape
from pipelines.views.table_views import Phase, RunView
from tests.pipelines.http.files import pipeline_file
from tests.pipelines.http.looked_at import looked_at, tell
from tests.pipelines.http.runs import HOSTILE, LONG, pipeline, run, table
from tests.support.command import TIDEMARK, tidemark
from tests.support.pipeline_run import wait_until
from tests.support.waiting import seconds


def has_state(file: Path) -> bool:
    return state_path(load_pipeline(file)).exists()


@pytest.mark.slow
def test_a_running_pipeline_is_shown_and_what_stood_last_when_it_was_stopped(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    with looked_at(file) as process:
        wait_until(lambda: has_state(file), 30, "the first state")
        done = tidemark("status", file)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("shop  ") and f"process {process.pid} on" in done.stdout
        (state,) = json.loads(tidemark("status", file, "--json").stdout)
        assert (state["pid"], state["holder"].split(" (")[0].split(" on")[0]) == (process.pid, f"process {process.pid}")
        tell(process, "stop")
    done = tidemark("status", file)
    assert done.returncode == 1
    assert "shop  not running: it was stopped" in done.stdout
    assert "this was its state then" in done.stdout


def test_a_command_that_works_on_the_checkpoint_is_not_taken_for_the_pipeline(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    config = load_pipeline(file)
    state = RunState([config])
    state.pipelines["shop"].put_table("lake.orders", Standing.RUNNING)
    with kept_state([config], state):
        state.end()
    replay = ReplayState(
        "r1", "lake.orders", Point(Kind.EARLIEST), None, ("t",), reached=Reached('{"t":{"0":42}}'), record_count=40
    )
    Replays(Checkpoint(config)).put(replay)
    found = json.loads(state_path(config).read_text())
    state_path(config).write_text(json.dumps({**found, "pid": found["pid"] + 1}))

    with held_checkpoints([config], "rebuilds lake.orders"):
        done = tidemark("status", file)

    assert done.returncode == 1
    assert f"process {os.getpid()} on" in done.stdout
    assert ", which rebuilds lake.orders, uses its checkpoint" in done.stdout
    assert "shop  not running: it was stopped" in done.stdout
    assert (
        "replay of lake.orders: 40 records read so far, 0 rows written since the start, next at t-0: 42" in done.stdout
    )


@pytest.mark.slow
def test_a_terminal_follows_the_state_until_the_run_ends(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    with looked_at(file) as process:
        wait_until(lambda: has_state(file), 30, "the first state")
        terminal, own_side = pty.openpty()
        command = Popen([*TIDEMARK, "status", str(file)], stdin=own_side, stdout=own_side, stderr=own_side)
        os.close(own_side)
        seen = b""
        with contextlib.suppress(OSError):  # the terminal is closed when the command ends
            while part := os.read(terminal, 65_536):
                seen += part
                if seen.count(b"shop") >= 2 and process.poll() is None:
                    tell(process, "stop")
        assert command.wait(seconds(60)) == 1
        os.close(terminal)
    text = seen.decode(errors="replace")
    assert "running" in text and "not running: it was stopped" in text


@pytest.mark.slow
def test_a_failure_is_shown_with_its_reason(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    with looked_at(file) as process:
        tell(process, "fail pipeline shop: the disk is full")
    done = tidemark("status", file, "--once")
    assert (done.returncode, "not running: it failed" in done.stdout) == (1, True)
    assert "pipeline shop: the disk is full" in done.stdout


@pytest.mark.slow
def test_a_process_that_was_killed_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    with looked_at(file) as process:
        wait_until(lambda: has_state(file), 30, "the first state")
        process.kill()
        process.wait(seconds(60))
    done = tidemark("status", file)
    assert (done.returncode, "the process was killed, or its machine stopped" in done.stdout) == (1, True)


@pytest.mark.slow
def test_all_pipelines_of_this_user_are_found_without_a_file(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path, "found-without-file")
    with looked_at(file):
        wait_until(lambda: has_state(file), 30, "the first state")
        found = json.loads(tidemark("status", "--json").stdout)
        assert "found-without-file" in [p["name"] for state in found for p in state["pipelines"]]


def test_a_pipeline_that_never_ran_is_told_as_that(tmp_path: Path) -> None:
    done = tidemark("status", pipeline_file(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("pipeline shop does not run, and has not run here yet")


@pytest.mark.slow
def test_pipelines_with_other_temporary_files_are_not_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service with PrivateTmp leaves its list of pipelines, and its state on S3, in a directory of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigError, match=f"temporary files go to {tmp_path}.*PrivateTmp.*tidemark status FILE"):
        status([], once=True, as_json=False)
    spark = {"spark.hadoop.fs.s3.impl": "com.example.FileSystem"}
    file = pipeline_file(tmp_path, checkpoint="s3://lake/shop", warehouse="s3://lake/warehouse", spark=spark)
    with pytest.raises(ConfigError, match=r"has no state here: .* does not exist.*PrivateTmp.*its page"):
        status([file], once=True, as_json=False)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pipelines": 1}', "[" * 100_000])
def test_a_file_that_is_no_state_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    assert read_state(tmp_path / "state.json") is None


def test_the_state_is_private_and_is_written_once_more_at_the_end(tmp_path: Path) -> None:
    config = load_pipeline(pipeline_file(tmp_path))
    state = RunState([config])
    state_path(config).parent.mkdir(parents=True, mode=0o700)
    state_path(config).with_name(".state.json.part").write_text("what a killed run has left")
    state_path(config).with_name(".state.json.part").chmod(0o600)
    with kept_state([config], state):
        wait_until(state_path(config).exists, 30, "the first state")
        state.end("pipeline shop: the disk is full")
    found = read_state(state_path(config))
    assert found is not None and found["pipelines"][0]["phase"] == "failed"
    assert stat.S_IMODE(state_path(config).stat().st_mode) == 0o600
    assert stat.S_IMODE(state_path(config).parent.stat().st_mode) == 0o700
    assert [path.name for path in state_path(config).parent.iterdir()] == ["state.json"]


@pytest.mark.slow
def test_a_state_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_pipeline(pipeline_file(tmp_path))
    (tmp_path / "shop-checkpoint").write_text("no directory")
    monkeypatch.setattr("pipelines.http.state_file.EVERY_S", 0.01)
    tries: list[object] = []
    write = state_file._write
    monkeypatch.setattr(state_file, "_write", lambda *given: (tries.append(given), write(*given)))
    with kept_state([config], RunState([config])):
        wait_until(lambda: len(tries) > 3, 30, "some tries")
    told = [r.getMessage() for r in caplog.records if "tidemark status" in r.getMessage()]
    assert len(told) == 1


def test_the_state_of_a_checkpoint_on_object_storage_lies_on_this_machine(tmp_path: Path) -> None:
    spark = {"spark.hadoop.fs.s3.impl": "com.example.FileSystem"}
    file = pipeline_file(tmp_path, checkpoint="s3://lake/shop", warehouse="s3://lake/warehouse", spark=spark)
    path = state_path(load_pipeline(file))
    assert path.name.startswith("shop-") and path.parent.name == "state"


def test_where_no_lock_tells_the_process_that_wrote_the_state_does() -> None:
    own = json.loads(json.dumps(document(run())))
    own.update(pid=os.getpid(), host=os.uname().nodename, time_s=time.time())
    assert holder_by_process(own) == f"process {os.getpid()} on {os.uname().nodename}"
    assert holder_by_process({**own, "host": "elsewhere", "pid": 1 << 30}) is not None
    assert holder_by_process({**own, "pid": 1 << 30}) is None
    assert holder_by_process({**own, "time_s": time.time() - 3600}) is None
    assert holder_by_process({**own, "pipelines": [{**own["pipelines"][0], "phase": "ended"}]}) is None


def text_of(view: RunView, holder: str | None = "process 4711 on host", width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)
    console.print(status_view([(json.loads(json.dumps(document(view))), holder)], view.time_s))
    out = console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def test_what_is_shown_of_a_running_pipeline() -> None:
    text = text_of(run())
    assert "shop  running, 1 table paused  for 15 min, process 4711 on host" in text
    assert "400 records read since the start, 25 behind (12 s), 8 in quarantine, 1.5 MB of files to read" in text
    assert ", batch 4 runs for 2 s" in text
    lines = [line.split() for line in text.splitlines()]
    paused, running = [line for line in lines if line and line[0] in ("lake.orders", "lake.items")][:2]
    assert (paused[0], paused[1], running[0], running[1]) == ("lake.items", "paused", "lake.orders", "running,")
    assert paused[2] == "250"
    assert "lake.items is paused: column id: BIGINT is narrower than TEXT" in text
    assert "1 retry: commit conflict" in text
    assert "bad records of lake.orders: 1 in quarantine, 2 added since the start: value is not JSON" in text
    assert "shop.old, and 1 more" in text
    assert text.index("bad records ×2") < text.index("paused          lake.items: column id")  # newest first
    assert (
        "replay of lake.orders: 12,000 records read so far, about 3,000 left, 11,000 rows written since the start,"
        " next at shop.orders-0: 42, last slice 10 s ago"
    ) in text
    assert "running, replay" in text
    assert "17 offsets were lost before they were read" in text
    assert "tidemark 1.2.3, Spark 4.0.0, driver 268 MB, jvm 1.1 GB" in text
    assert "█" in text


def test_a_paused_table_says_for_how_long_and_no_zeros_before_it_was_looked_at() -> None:
    unseen = replace(table(standing=Standing.PAUSED), since_s=700.0, snapshot_id=0, shape=TableShape())
    lone = replace(pipeline(), tables=(unseen,), bad_records=(), events=())
    (line,) = [line for line in text_of(run(lone)).splitlines() if "lake.orders" in line]
    assert "paused for 5 min" in line and "250" in line and " 0" not in line


def test_hostile_names_do_not_steer_the_terminal() -> None:
    bad = replace(pipeline(reason=f"\x1b[2J{HOSTILE}"), tables=(table(HOSTILE), table(LONG), table("[red]x[/red]")))
    text = text_of(run(bad))
    assert not {"\x1b", "\u202e", "\r"} & set(text)
    assert "\\u202e" in text and "\\x1b[2J" in text and "[red]x[/red]" in text
    assert len(text) < 20_000


def test_many_tables_are_cut() -> None:
    many = replace(pipeline(), tables=tuple(table(f"lake.t{n:03}") for n in range(300)))
    assert "and 260 more" in text_of(run(many))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_width_of_a_terminal_will_do(width: int) -> None:
    assert all(len(line) <= width for line in text_of(run(), width=width).splitlines())


def test_a_run_that_has_just_started_is_shown() -> None:
    new = replace(pipeline(phase=Phase.STARTING), last_batches=(), tables=(), places=(), running_batch=None)
    assert "no batch yet" in text_of(run(new))
