"""`tidemark pause`, `resume` and `reload` of a pipeline that does not run."""

from __future__ import annotations

from pathlib import Path

from pipelines.config.config_file import load_pipeline
from pipelines.control.requests import Requests
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


def test_a_pause_waits_for_the_next_start_and_a_reload_needs_none(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    paused = tidemark("pause", file, "--table", "lake.orders")
    assert (paused.returncode, waiting(file)) == (0, ["pause"])

    reloaded = tidemark("reload", file)
    assert "pipeline shop does not run; its next start takes the file as it is then" in reloaded.stdout
    assert (reloaded.returncode, waiting(file)) == (0, ["pause"])
