"""The contract of a system for the harness: its environment, its process, its progress, and the content of its
table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.workloads import Workload


@dataclass(frozen=True, slots=True)
class Task:
    """Bring all events of a topic into its tables. ``directory`` is empty and belongs to this run alone."""

    workload: Workload
    bootstrap_servers: str
    topic: str
    event_count: int
    directory: Path
    home: Path
    """Where the environments are."""
    cores: int


@dataclass(frozen=True, slots=True)
class Launch:
    """The process that does a task, to its end."""

    command: Sequence[str]
    environment: Mapping[str, str]


class System(Protocol):
    """One way from a topic to a table. Implementations keep no state between tasks."""

    @property
    def name(self) -> str:
        """A word for the command line and for file names."""

    @property
    def title(self) -> str:
        """For people, with versions."""

    @property
    def environment(self) -> Environment | None:
        """The packages to install for it; None if the environment of the project has them all."""

    def settings(self, workload: Workload) -> Mapping[str, str]:
        """The settings that differ from the defaults, for the report."""

    def launch(self, task: Task) -> Launch:
        """Write the files of the process into the directory of the task, and give its command."""

    def watching(self, task: Task) -> AbstractContextManager[Callable[[], int]]:
        """Gives a function that says how many events all tables have: cheap, and never too many."""

    def is_over(self, task: Task) -> bool:
        """Whether all its work is done; a process that ends by itself then may say no."""

    def content(self, task: Task, table: str) -> pa.Table:
        """All rows of a table, after the process has ended."""
