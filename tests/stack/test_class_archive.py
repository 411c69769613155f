"""The archives of classes that the JVMs of tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.stack import class_archive


def test_an_archive_is_used_where_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert "SharedArchiveFile" not in class_archive.jvm_options()
    class_archive._of_spark().touch()
    assert f"-XX:SharedArchiveFile={tmp_path}/spark-classes-" in class_archive.jvm_options()


def test_another_java_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = class_archive._of_spark()
    (tmp_path / "java").touch()
    monkeypatch.setattr(class_archive, "java_command", lambda: str(tmp_path / "java"))
    assert class_archive._of_spark() != here
