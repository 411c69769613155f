"""Where the tests keep what they download or build once, and the Java that they start."""

import os
import shutil
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parents[2]
CACHE_DIR = PROJECT_DIR / ".cache"
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""For JVMs that end with their tests: they never get back what the second compiler and the verifier of classes take."""


class StackUnavailable(RuntimeError):
    """A part of the local stack cannot be had here; the text says what to do."""


def java_command() -> str:
    """Return the Java that Spark would start: JAVA_HOME's, else the PATH's."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise StackUnavailable("no java on the PATH and no JAVA_HOME: install a Java 17 or 21 runtime")
    return found
