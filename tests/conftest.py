"""Fixtures that every test may ask for, how the JVMs of all tests start, and what a test process makes once."""

import os
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.testing

from tests.stack.class_archive import jvm_options

pytest_plugins = ["tests.stack.fixtures", "tests.support.order"]

os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm_options())

# A process makes the tree of its commands once, and a process of tests runs hundreds of commands: it takes longer than
# what most of them do. Whoever asks for a tree gets another one: commands keep the options for help of their first use.
_tree = cache(typer.main.get_command)
typer.Typer.__call__ = lambda app, *args, **kwargs: _tree(app)(*args, **kwargs)  # type: ignore[method-assign]
typer.testing._get_command = _tree  # type: ignore[attr-defined]

_directories = count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the test. To find a free name, pytest's own fixture lists the directories of all earlier tests."""
    return tmp_path_factory.mktemp(f"of-test-{next(_directories)}", numbered=False)


def _synced(fd: Any) -> None:
    """In place of ``os.fsync``: it looks whether the file is open.

    No test cuts the power of this machine: a killed process loses nothing that it wrote, and crash tests have a disk in
    memory. A test of a table would wait a dozen times for the disk, some milliseconds each.
    """
    os.fstat(fd)


os.fsync = _synced
