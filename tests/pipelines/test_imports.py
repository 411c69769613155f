"""What the commands import: those that people wait for at every keystroke load neither Spark nor Arrow."""

from __future__ import annotations

import pytest

from tests.support.imports import imported_by


@pytest.mark.slow
@pytest.mark.parametrize("command", [(), ("--help",), ("run", "--help"), ("table", "scan", "--help"), ("version",)])
def test_help_loads_neither_spark_nor_arrow(command: tuple[str, ...]) -> None:
    assert imported_by(*command) == (0, set())


@pytest.mark.slow
@pytest.mark.parametrize("file", ["configs/quickstart.yaml", "configs/shop.yaml"])
def test_validate_loads_neither_spark_nor_arrow(file: str) -> None:
    assert imported_by("validate", file) == (0, set())


@pytest.mark.slow
def test_mistakes_are_told_without_spark_and_arrow() -> None:
    assert imported_by("validate", "tests/pipelines/config/broken/combinations.yaml") == (2, set())
    assert imported_by("validate", "tests/pipelines/config/broken/storage.yaml") == (2, set())


@pytest.mark.slow
def test_the_schema_of_pipeline_files_is_printed_without_them() -> None:
    assert imported_by("schema") == (0, set())
