"""Runs JavaWriter.java: Java Paimon's core writer as the peer of the engine benchmark.

Needs a JDK (``java`` with the module jdk.compiler), because the source file is compiled when it starts.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.environment import java_class_path

SOURCE = Path(__file__).with_name("JavaWriter.java")
JVM_OPTIONS = ("-Xmx4g", "-XX:+UseSerialGC", "-Duser.timezone=UTC")


def is_available() -> bool:
    """Whether the installed Java can compile."""
    java = shutil.which("java")
    if java is None:
        return False
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    return "jdk.compiler@" in modules.stdout


def commit_seconds(
    table: Path,
    scratch: Path,
    commits: int,
    rows_per_commit: int,
    keys: int,
    *,
    in_halves: bool = False,
    full_every: int = 0,
    different_rows: int = 2**63 - 1,
) -> Sequence[float]:
    """Write ``commits`` commits into an existing table; the seconds of each, rows not counted.

    After ``different_rows`` rows the same ones come again. Inherits the CPU affinity of this process.
    CalledProcessError when Java fails; its messages are on stderr.
    """
    class_path = ":".join(str(jar) for jar in java_class_path())
    halves = str(in_halves).lower()
    arguments = (table, scratch, commits, rows_per_commit, keys, halves, full_every, different_rows)
    command = ["java", *JVM_OPTIONS, "-cp", class_path, str(SOURCE), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [int(words[1]) / 1e9 for words in lines if words[:1] == ["commit"]]
