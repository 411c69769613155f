"""The environments of the systems: Python packages from the registry that pip uses, jars through the Ivy of pyspark.

Each is in a directory of its own below a home that may outlive the checkout. A stamp names its content, so a new
version is installed at the next start. ``TIDEMARK_IVY_SETTINGS`` and the settings of pip name mirrors.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.stack.jars import Artifact, JarSet, fetch_into
from tests.stack.paths import StackUnavailable

STAMP = "installed.txt"


class NotSetUp(Exception):
    """An environment cannot be made here; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The packages that one system needs besides Java."""

    name: str
    packages: tuple[str, ...] = ()
    """Requirements of pip, each with its exact version."""
    jars: tuple[Artifact, ...] = ()
    """Exactly these, without what their poms name."""
    with_dependencies: bool = True
    """Whether pip installs what the packages require."""

    def directory(self, home: Path) -> Path:
        return home / self.name

    def python(self, home: Path) -> Path:
        return self.directory(home) / "venv" / "bin" / "python"

    def site_packages(self, home: Path) -> Path:
        found = sorted((self.directory(home) / "venv" / "lib").glob("python*/site-packages"))
        return found[0]

    def jar_directory(self, home: Path) -> Path:
        return self.directory(home) / "jars"

    def is_set_up(self, home: Path) -> bool:
        """Whether it is there with just these versions."""
        stamp = self.directory(home) / STAMP
        return stamp.exists() and stamp.read_text() == self.stamp

    def set_up(self, home: Path) -> None:
        """Install it, if it is not there; NotSetUp if pip or Ivy cannot."""
        if self.is_set_up(home):
            return
        directory = self.directory(home)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._install_packages(home)
        if self.jars:
            digest = hashlib.sha256(self.stamp.encode()).hexdigest()[:12]
            try:
                fetch_into(JarSet(self.name, digest, self.jars, transitive=False), self.jar_directory(home))
            except StackUnavailable as error:
                raise NotSetUp(f"{self.name}: {error}") from error
        (directory / STAMP).write_text(self.stamp)

    def _install_packages(self, home: Path) -> None:
        venv.create(self.directory(home) / "venv", with_pip=True)
        if not self.packages:
            return
        options = () if self.with_dependencies else ("--no-deps",)
        command = [str(self.python(home)), "-m", "pip", "install", "--quiet", *options, *self.packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotSetUp(
                f"{self.name}: pip cannot install {' '.join(self.packages)}; check the network and the settings of pip,"
                f" or leave the system out with --systems. pip said:\n{done.stderr}"
            )

    @property
    def stamp(self) -> str:
        """Names its content."""
        python = f"python {sys.version_info.major}.{sys.version_info.minor}"
        jars = (f"{jar.group}:{jar.name}:{jar.version}" for jar in self.jars)
        return "\n".join((python, *self.packages, *jars)) + "\n"
