"""What the independent readers need, made once in .cache: pypaimon's own environment and Java Paimon's class path."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import venv
from importlib.resources import files
from pathlib import Path

from tests.stack.jars import resolve
from tests.stack.paths import CACHE_DIR, StackUnavailable

LOCK_FILE = Path(__file__).with_name("requirements-pypaimon.lock")
_BORROWED = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "rocksdbjni-*")


def java_class_path() -> list[Path]:
    """Paimon's bundle first, then classes of the pyspark wheel (Hadoop, logging, RocksDB), then PostgreSQL's driver."""
    spark_jars = Path(str(files("pyspark"))) / "jars"
    borrowed = [jar for pattern in _BORROWED for jar in sorted(spark_jars.glob(f"{pattern}.jar"))]
    return [*sorted(resolve("paimon").glob("*.jar")), *borrowed, *sorted(resolve("postgresql").glob("*.jar"))]


def pypaimon_python() -> Path:
    """Interpreter of the environment that the lock file describes; installed anew when the lock file has changed."""
    directory = CACHE_DIR / "pypaimon-venv"
    stamp = directory / "installed-lock.sha256"
    wanted = f"{hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()} {sys.version_info[:2]}"
    CACHE_DIR.mkdir(exist_ok=True)
    with (CACHE_DIR / "pypaimon-venv.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(directory, ignore_errors=True)
            _install(directory)
            stamp.write_text(wanted)
    return directory / "bin" / "python"


def _install(directory: Path) -> None:
    print("tidemark tests: installing pypaimon into its own environment", file=sys.stderr, flush=True)
    venv.create(directory, with_pip=True)
    python = str(directory / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK_FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StackUnavailable(
            f"cannot install pypaimon; check the network and pip's settings. pip said: {done.stderr}"
        )
