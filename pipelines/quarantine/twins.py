"""Which lines of the quarantine hold one record."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from pipelines.bad_records.bad_lines import BadLine, BadLines
from pipelines.quarantine.slices import digest

Identity: TypeAlias = tuple[str, int, int, bytes]
"""Where the source had a record, and a digest of what it was."""


def identity(line: BadLine) -> Identity:
    """The record of a line."""
    return (*line.record, hashlib.sha256(line.content.encode()).digest())


Placed: TypeAlias = tuple[str, int, int, int | None]
"""Where the source had a record, and when: also of a line that somebody has mended."""


def placed(line: BadLine) -> Placed:
    """See ``Placed``."""
    return (*line.record, line.ts)


def twins(bad: BadLines) -> dict[Identity, list[tuple[str, str]]]:
    """The records that stand in several lines which a retry may take: per record place of the file and digest of each.

    Reads the quarantine once, and once more where there are any; eight bytes of each line are kept meanwhile.
    """
    files = [file for file in bad.files() if file.is_final]
    seen: set[int] = set()
    often: set[int] = set()
    for line in bad.lines(files, lambda: None):
        if isinstance(line, BadLine):
            (often if (short := hash(identity(line))) in seen else seen).add(short)
    found: dict[Identity, list[tuple[str, str]]] = {}
    for line in bad.lines(files, lambda: None) if often else ():
        if isinstance(line, BadLine) and hash(one := identity(line)) in often:
            found.setdefault(one, []).append((line.file.place, digest(line.text)))
    return {one: places for one, places in found.items() if len(places) > 1}
