"""What `tidemark run` prints, as a process of its own, in a project that has packages with the names of ours."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline
from tidemark.own_packages import PACKAGES

pytestmark = pytest.mark.spark

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S.*")


def test_a_run_tells_what_it_does_without_the_noise_of_the_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('somebody else')\n")
    monkeypatch.chdir(tmp_path)
    write_dump(tmp_path / "dumps", [History("orders", seed=9).extend(200)])
    (tmp_path / "dumps" / "broken.jsonl").write_text("no JSON\n")
    file = write_pipeline(tmp_path, tmp_path / "dumps")

    done = run_once(file, {"PYTHONPATH": os.pathsep.join([".", *filter(None, [os.environ.get("PYTHONPATH")])])})

    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    for words in ("starting Spark", "started in", "shop: reads 2 files", "begins at the earliest", "shop: batch 0: 2"):
        assert words in done.stderr
    quarantine = f"{tmp_path}/checkpoint-quarantine"
    assert f"1 quarantined in {quarantine}: 1 " in done.stderr
    assert f"1 could not be decoded and are in {quarantine}: 1 " in done.stdout
    assert " table scan warehouse/lake.db/orders --limit 10" in done.stdout


def test_what_the_jvm_said_is_shown_when_spark_does_not_start(tmp_path: Path) -> None:
    write_dump(tmp_path / "dumps", [History("orders", seed=9).extend(2)])
    file = write_pipeline(tmp_path, tmp_path / "dumps")
    file.write_text(file.read_text().replace("spark.driver.memory: 1g", "spark.driver.memory: 1k"))

    done = run_once(file)

    assert done.returncode == 1
    told, *jvm = done.stderr[done.stderr.index("Spark did not start") :].splitlines()
    assert "JAVA_GATEWAY_EXITED" in told
    assert any(line.startswith("  ") and "Too small maximum heap" in line for line in jvm), done.stderr
    assert "Traceback" not in done.stderr
