"""Suggested commands work when they are copied, wherever Tidemark was started from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.report.summary import own_command, short_path


def test_the_bare_word_where_the_path_leads_to_this_command(tmp_path: Path) -> None:
    script = tmp_path / "tidemark"
    script.touch()
    assert own_command(str(script), which=lambda _: str(script)) == "tidemark"


def test_the_command_of_an_environment_that_is_not_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / ".venv/bin/tidemark"
    script.parent.mkdir(parents=True)
    script.touch()
    other = tmp_path / "tidemark"
    other.touch()
    assert own_command(str(script), which=lambda _: None) == ".venv/bin/tidemark"
    assert own_command(str(script), which=lambda _: str(other)) == ".venv/bin/tidemark"
    assert own_command(str(other), which=lambda _: None) == "./tidemark"


def test_a_module_is_called_by_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = str(tmp_path / "tidemark/__main__.py")
    assert own_command(started, f"{tmp_path}/my env/python", lambda _: None) == "'my env/python' -m tidemark"
    assert own_command(started, "/usr/bin/python", lambda _: "/usr/bin/python") == "python -m tidemark"


def test_tables_below_the_working_directory_are_named_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_path(f"{tmp_path}/my lake/a.db/t") == "'my lake/a.db/t'"
    assert short_path("s3://lake/a.db/t") == "s3://lake/a.db/t"
    assert short_path("/elsewhere/t") == "/elsewhere/t"
