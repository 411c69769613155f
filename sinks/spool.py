"""Blobs on a local disk: where all tasks run on one machine, large blobs go around Spark's shuffle, not through it.

A blob of decoded rows would otherwise be copied five times between the worker that decodes it and the one that writes
it. The shuffle then moves only names of files. A file belongs to one batch; the driver removes all of them between
batches, and what a killed process left when the next one starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sinks.blob import Blob

SMALLEST_BYTES = 64 << 10
"""Smaller blobs travel through the shuffle: a file of its own would cost more."""


@dataclass(frozen=True, slots=True)
class Spool:
    """A directory that the driver and all tasks see under the same path."""

    directory: str

    @staticmethod
    def open(root: str) -> Spool:
        """The spool of this process below ``root``; those of processes that have ended are removed."""
        Path(root).mkdir(parents=True, exist_ok=True)
        for name in os.listdir(root):
            if name.isdigit() and not _is_alive(int(name)):
                # Unreferenced: blobs are referenced by nothing but the running batch of the process that wrote them.
                shutil.rmtree(f"{root}/{name}", ignore_errors=True)
        directory = f"{root}/{os.getpid()}"
        Path(directory).mkdir(exist_ok=True)
        return Spool(tempfile.mkdtemp(dir=directory))

    def put(self, blob: Blob) -> Blob:
        """The blob with its data in a file if they are large."""
        if len(blob.data) < SMALLEST_BYTES:
            return blob
        file = f"{self.directory}/{uuid.uuid4()}"
        with pa.OSFile(file, "wb") as out:
            out.write(blob.data)
        return replace(blob, data=b"", file=file)

    def clear(self) -> None:
        """Remove the files of the last batch. No task may be running; what a task still maps stays readable."""
        for name in os.listdir(self.directory):
            os.remove(f"{self.directory}/{name}")


def loaded(blob: Blob) -> Blob:
    """The blob with its data in memory, mapped from its file if it has one."""
    if not blob.file:
        return blob
    with pa.memory_map(blob.file) as source:
        return replace(blob, data=source.read_buffer(), file="")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
