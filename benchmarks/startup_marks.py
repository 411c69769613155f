"""Runs the command line of a checkout and notes when it reaches what: the inside of ``benchmarks.startup``.

    python startup_marks.py MARKS STARTED_S ARGUMENT...

Marks are set around public calls of pyspark, so that checkouts from before this module can be measured too. They are
written to the file MARKS as JSON: pairs of a name and the seconds since STARTED_S of the monotonic clock. Nothing is
imported that the command does not import itself.
"""

from __future__ import annotations

import atexit
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Marks:
    """Names and times, in the order of arrival."""

    def __init__(self, file: str, started_s: float) -> None:
        self._file = file
        self._started_s = started_s
        self._marks: list[tuple[str, float]] = []
        self.add("interpreter")

    def add(self, name: str) -> None:
        self._marks.append((name, time.monotonic() - self._started_s))

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with a mark before and one after it."""

        def marked(*args: Any, **kwargs: Any) -> Any:
            self.add(f"{name} begins")
            try:
                return function(*args, **kwargs)
            finally:
                self.add(f"{name} ends")

        return marked

    def write(self) -> None:
        self.add("exit")
        with open(self._file, "w") as out:
            json.dump(self._marks, out)


class _Hook:
    """Leaves imports unchanged, and calls a function with a module that was just loaded."""

    def __init__(self, loaded: dict[str, Callable[[ModuleType], None]]) -> None:
        self._loaded = loaded

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        loaded = self._loaded.get(name)
        if loaded is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module = _then(spec.loader.exec_module, loaded)  # type: ignore[assignment, method-assign]
                return spec
        return None


def _then(execute: Callable[[ModuleType], None], loaded: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def both(module: ModuleType) -> None:
        execute(module)
        loaded(module)

    return both


def _wrapped(marks: Marks, name: str, owner: str, attribute: str) -> Callable[[ModuleType], None]:
    def wrap(module: ModuleType) -> None:
        holder: Any = module
        for part in filter(None, owner.split(".")):
            holder = getattr(holder, part)
        setattr(holder, attribute, marks.around(name, getattr(holder, attribute)))

    return wrap


def _batches_wrapped(marks: Marks) -> Callable[[ModuleType], None]:
    def wrap(module: ModuleType) -> None:
        writer = module.DataStreamWriter
        given, started = writer.foreachBatch, writer.start
        writer.foreachBatch = lambda self, function: given(self, marks.around("batch", function))
        writer.start = marks.around("query start", started)

    return wrap


def main() -> None:
    file, started_s, *arguments = sys.argv[1:]
    marks = Marks(file, float(started_s))
    atexit.register(marks.write)
    sys.path.pop(0)
    hooked = {
        "pyspark.java_gateway": _wrapped(marks, "JVM", "", "launch_gateway"),
        "pyspark.sql.session": _wrapped(marks, "session", "SparkSession.Builder", "getOrCreate"),
        "pyspark.sql.streaming.readwriter": _batches_wrapped(marks),
        "pyspark.sql.classic.dataframe": _wrapped(marks, "collect", "DataFrame", "collect"),
        "pyspark.core.context": _wrapped(marks, "stop", "SparkContext", "stop"),
    }
    sys.meta_path.insert(0, _Hook(hooked))
    sys.argv = ["tidemark", *arguments]
    from tidemark.__main__ import main as run_command

    run_command()


if __name__ == "__main__":
    main()
