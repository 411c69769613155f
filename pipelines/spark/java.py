"""The Java that Spark will start, checked before Spark fails in its own words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from paimon_table.errors import ConfigError

SUPPORTED_VERSIONS = (17, 21)
"""Java versions that Spark 4 runs on."""

_ADVICE = "install Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java(environment: Mapping[str, str] | None = None) -> str:
    """The Java that Spark uses: that of JAVA_HOME, or else the first on the PATH.

    Raises ConfigError if Java is missing or unsupported, with one line that says what to install or set.
    """
    variables = os.environ if environment is None else environment
    home = variables.get("JAVA_HOME")
    if home:
        executable = str(Path(home) / "bin" / "java")
        if not os.access(executable, os.X_OK):
            raise ConfigError(f"Java: JAVA_HOME is {home}, which has no bin/java; correct it, or {_ADVICE}")
    else:
        found = shutil.which("java", path=variables.get("PATH"))
        if found is None:
            raise ConfigError(f"Java: there is no java on the PATH and JAVA_HOME is not set; {_ADVICE}")
        executable = found
    major = _major_version(executable)
    if major not in SUPPORTED_VERSIONS:
        where = f"{executable} (from {'JAVA_HOME' if home else 'the PATH'})"
        what = f"is Java {major}" if major else "does not start"
        raise ConfigError(f"Java: {where} {what}, Spark needs 17 or 21; set JAVA_HOME to one of these, or {_ADVICE}")
    return executable


def _major_version(executable: str) -> int | None:
    """The output of ``java -version``; None if it fails, as the placeholder of macOS does."""
    try:
        shown = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(shown.stderr + shown.stdout)
    return int(match[1]) if match else None
