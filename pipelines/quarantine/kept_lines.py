"""Taking records out of the quarantine: a file is written anew without them, at once, or goes.

Files of a batch that may run again are left alone: that run empties its directory and writes what is bad then.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_table.storage.file_io import FileIO
from pipelines.bad_records.bad_lines import BadFile, BadLine, DamagedLine, raw_lines, read_line


def take_out(io: FileIO, file: BadFile, is_taken: Callable[[BadLine | DamagedLine], bool]) -> int:
    """Remove lines from a file; gives how many. A file in which none is left goes."""
    kept: list[bytes] = []
    taken = 0
    try:
        for number, text in enumerate(raw_lines(io, file.path), 1):
            if text.strip() and is_taken(read_line(file, number, text)):
                taken += 1
            elif text.strip():
                kept.append(text)
    except FileNotFoundError:
        return 0
    if kept and taken:
        io.write(file.path, b"".join(text + b"\n" for text in kept))
    elif taken:
        io.delete(file.path)
    return taken
