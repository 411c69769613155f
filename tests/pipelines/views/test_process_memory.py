"""Memory of processes as /proc tells it: of a tree that the test writes, and of real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pipelines.views.process_memory import memory_by_kind, started_ticks

PAGE = os.sysconf("SC_PAGE_SIZE")


def process(proc: Path, pid: int, name: str, pages: int, children: str = "", files: int = 3) -> None:
    (proc / f"{pid}/task/{pid}").mkdir(parents=True)
    (proc / f"{pid}/fd").mkdir()
    for number in range(files):
        (proc / f"{pid}/fd/{number}").touch()
    (proc / f"{pid}/comm").write_text(f"{name}\n")
    (proc / f"{pid}/statm").write_text(f"{pages * 9} {pages} 1 1 0 1 0\n")
    (proc / f"{pid}/task/{pid}/children").write_text(children)


def test_the_jvm_and_what_it_started_are_told_apart_from_other_children(tmp_path: Path) -> None:
    process(tmp_path, 10, "tidemark", 100, "11 15 ")
    process(tmp_path, 11, "java", 1000, "12 ", files=50)
    process(tmp_path, 12, "python3", 10, "13 14 ")
    process(tmp_path, 13, "python3", 20)
    process(tmp_path, 14, "python3", 30)
    process(tmp_path, 15, "sh", 7)
    found = memory_by_kind(10, str(tmp_path))
    assert {kind: (use.resident_bytes // PAGE, use.processes) for kind, use in found.items()} == {
        "driver": (100, 1),
        "jvm": (1000, 1),
        "workers": (60, 3),
    }
    assert found["jvm"].open_files == 50


def test_a_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    process(tmp_path, 10, "tidemark", 100, "11 ")
    process(tmp_path, 11, "java", 1000, "12 13 ")
    process(tmp_path, 13, "python3", 20)
    assert memory_by_kind(10, str(tmp_path))["workers"].processes == 1


def test_there_is_nothing_to_tell_without_proc(tmp_path: Path) -> None:
    assert memory_by_kind(10, str(tmp_path / "none")) == {}
    assert started_ticks(10, str(tmp_path / "none")) is None


def test_this_process_takes_memory() -> None:
    use = memory_by_kind()["driver"]
    assert use.resident_bytes > 1 << 20 and use.open_files >= 3


def test_the_start_of_a_process_is_told_while_it_runs() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = started_ticks(child.pid)
    assert began is not None and began == started_ticks(child.pid)
    child.communicate(b"\n")
    assert started_ticks(child.pid) is None
