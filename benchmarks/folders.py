"""Number and size of the files below a directory, while others write and remove there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FolderUse:
    """The content of a directory at one moment; nothing if it does not exist."""

    files: int
    size_bytes: int


def folder_use(directory: Path) -> FolderUse:
    """Files and bytes below ``directory``; files that vanish at the same time do not count."""
    sizes = list(_sizes(str(directory)))
    return FolderUse(len(sizes), sum(sizes))


def _sizes(directory: str) -> Iterator[int]:
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(entry.path)
            else:
                with suppress(FileNotFoundError):
                    yield entry.stat(follow_symlinks=False).st_size
