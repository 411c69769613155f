"""What the commands import: those that people wait for at every keystroke load neither Spark nor Arrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "botocore", "rich.console")
RUN = """
import sys
from tidemark.__main__ import main
sys.argv = ["tidemark", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def imported_by(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command, and the heavy modules that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    modules = set(done.stderr.split())
    assert "pipelines.cli" in modules, done.stderr
    return done.returncode, modules & {*HEAVY}


@pytest.mark.parametrize("command", [(), ("--help",), ("run", "--help"), ("table", "scan", "--help"), ("version",)])
def test_help_loads_neither_spark_nor_arrow(command: tuple[str, ...]) -> None:
    assert imported_by(*command) == (0, set())


@pytest.mark.parametrize("file", ["configs/quickstart.yaml", "configs/shop.yaml"])
def test_validate_loads_neither_spark_nor_arrow(file: str) -> None:
    assert imported_by("validate", file) == (0, set())


def test_mistakes_are_told_without_spark_and_arrow() -> None:
    assert imported_by("validate", "tests/pipelines/config/broken/combinations.yaml") == (2, set())
    assert imported_by("validate", "tests/pipelines/config/broken/storage.yaml") == (2, set())


def test_the_schema_of_pipeline_files_is_printed_without_them() -> None:
    assert imported_by("schema") == (0, set())
