"""The check for Java says in one line what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines.spark.java import check_java


def fake_java(directory: Path, prints: str, code: int = 0) -> Path:
    """A `java` that prints a version; the check only looks at what `java -version` says."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{prints}' >&2\nexit {code}\n")
    executable.chmod(0o755)
    return executable


@pytest.mark.parametrize("prints", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS'])
def test_java_17_and_21_are_accepted(tmp_path: Path, prints: str) -> None:
    executable = fake_java(tmp_path, prints)
    found = check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert found == str(executable)


@pytest.mark.parametrize(
    ("prints", "told"),
    [
        ('openjdk version "1.8.0_392"', "is Java 8, Spark needs 17 or 21"),
        ('openjdk version "25" 2025-09-16', "is Java 25, Spark needs 17 or 21"),
        ("The operation could not be completed", "does not start, Spark needs 17 or 21"),
    ],
)
def test_another_version_is_refused_with_advice(tmp_path: Path, prints: str, told: str) -> None:
    fake_java(tmp_path, prints)
    with pytest.raises(ConfigError) as refusal:
        check_java({"PATH": f"{tmp_path}/bin"})
    assert told in str(refusal.value)
    assert "install Java 17 or 21" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_no_java_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no java on the PATH and JAVA_HOME is not set; install Java"):
        check_java({"PATH": str(tmp_path)})


def test_a_wrong_java_home_is_told_even_when_the_path_has_java(tmp_path: Path) -> None:
    fake_java(tmp_path, 'openjdk version "17"')
    with pytest.raises(ConfigError, match=r"JAVA_HOME is .*nowhere, which has no bin/java"):
        check_java({"JAVA_HOME": f"{tmp_path}/nowhere", "PATH": f"{tmp_path}/bin"})
