"""pypaimon and pypaimon-rust as independent readers, in a process and an environment of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.worker import Worker

ROW_KIND = "rowkind"
"""Leading column of ``rust_changes``: +I, -U, +U or -D."""


class PythonReaders:
    """Client of one worker process. ``None`` stands for an answer without rows (the readers then give no schema)."""

    def __init__(self, python: Path, root: Path) -> None:
        script = Path(__file__).with_name("python_readers_worker.py")
        self._worker = Worker("pypaimon", [python, script], root)
        self._dir = tempfile.TemporaryDirectory(prefix="python-readers-")
        self._count = 0

    def close(self) -> None:
        self._worker.close()
        self._dir.cleanup()

    def _read(self, command: str, **arguments: Any) -> pa.Table | None:
        self._count += 1
        out = f"{self._dir.name}/{self._count}.arrow"
        path = self._worker.ask(command, arguments, out=out)
        if path is None:
            return None
        with pa.OSFile(path, "rb") as source:
            return pa.ipc.open_file(source).read_all()

    def pypaimon(
        self, path: str, snapshot_id: int | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        return self._read("pypaimon", path=path, snapshot_id=snapshot_id, columns=_names(columns))

    def rust(self, path: str, snapshot_id: int | None = None, columns: Sequence[str] | None = None) -> pa.Table | None:
        return self._read("rust", path=path, snapshot_id=snapshot_id, columns=_names(columns))

    def rust_changes(self, path: str, after: int, upto: int) -> pa.Table | None:
        """Changes of the snapshots in (after, upto]; see ROW_KIND."""
        return self._read("rust_changes", path=path, after=after, upto=upto)


def _names(columns: Sequence[str] | None) -> list[str] | None:
    return None if columns is None else list(columns)
