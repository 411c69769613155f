"""The comparison itself, on few events and with Tidemark alone: nothing is installed, and no number counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.side_by_side.__main__ import main
from benchmarks.side_by_side.results import load

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.stack]


def compare(directory: Path) -> int:
    options = ["--events", "2000", "--workloads", "uniform,append", "--ready-only"]
    return main([*options, "--home", str(directory), "--results", str(directory / "results.json")])


def test_the_tables_of_tidemark_are_what_the_events_make(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = compare(tmp_path)

    told = capfd.readouterr()
    assert code == 0, told.out + told.err
    runs = load(tmp_path / "results.json").runs
    assert [(run.system, run.workload, run.topic.events) for run in runs] == [
        ("tidemark", "uniform", 2000),
        ("tidemark", "append", 2000),
    ]
    assert told.out.count("left out, because it is not set up") == 3
