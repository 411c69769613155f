"""Finds overlapping files, and decides whether a compaction upgrades or rewrites each file.

Implements Paimon's interval partition, and the choice between an upgrade (the file moves to another level, only its
metadata changes) and a rewrite. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from paimon_table.mergetree.levels import KeyOf
from paimon_table.metadata.data_file import DataFileMeta

Run = tuple[DataFileMeta, ...]
"""Files of any level without overlap, sorted by key."""

Section = tuple[Run, ...]
"""Runs that overlap each other, in any order."""


class Ranged(Protocol):
    """The metadata of a file about its keys."""

    @property
    def min_key(self) -> bytes: ...

    @property
    def max_key(self) -> bytes: ...


F = TypeVar("F", bound=Ranged)

SectionOf = tuple[tuple[F, ...], ...]
"""A section of files in the caller's form."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Move a file to the output level without rewriting it."""

    file: DataFileMeta


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Merge consecutive sections, in key order, into new files."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(f for section in self.sections for run in section for f in run)


Step = Upgrade | Rewrite


def partition(files: Iterable[F], key_of: KeyOf) -> tuple[SectionOf[F], ...]:
    """Split files into sections that do not overlap, in key order, each with as few runs as possible."""
    sections: list[SectionOf[F]] = []
    current: list[F] = []
    bound: Any = None
    for file in sorted(files, key=lambda f: (key_of(f.min_key), key_of(f.max_key))):
        if current and key_of(file.min_key) > bound:
            sections.append(_runs(current, key_of))
            current = []
        last = key_of(file.max_key)
        bound = max(bound, last) if current else last
        current.append(file)
    if current:
        sections.append(_runs(current, key_of))
    return tuple(sections)


def _runs(files: Sequence[F], key_of: KeyOf) -> SectionOf[F]:
    """Append each file, sorted by key, to the run that ends first, if it begins after the end of the run."""
    runs: list[list[F]] = []
    ends: list[tuple[Any, int]] = []
    for file in files:
        if ends and key_of(file.min_key) > ends[0][0]:
            run = ends[0][1]
            runs[run].append(file)
            heapq.heapreplace(ends, (key_of(file.max_key), run))
        else:
            heapq.heappush(ends, (key_of(file.max_key), len(runs)))
            runs.append([file])
    return tuple(tuple(run) for run in runs)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a compaction; files smaller than ``small_file_bytes`` are merged with their neighbours."""

    output_level: int
    max_level: int
    small_file_bytes: int
    has_expired: Callable[[DataFileMeta], bool] = lambda _: False
    """Whether a file has rows to drop."""
    has_deletes: Callable[[DataFileMeta], bool] = lambda file: file.delete_row_count != 0
    """Whether a file may have deletes that must not be on the highest level; True if its metadata does not show it."""


def plan_steps(sections: Sequence[Section], target: Target) -> tuple[Step, ...]:
    """The step for each file, in key order; leaves out files that stay unchanged."""
    steps: list[Step] = []
    pending: list[Section] = []
    for section in sections:
        if len(section) > 1:
            pending.append(section)
            continue
        for file in section[0]:
            if file.file_size_bytes < target.small_file_bytes:
                pending.append(((file,),))
            else:
                steps += _flush(pending, target)
                steps += _move(file, target)
                pending = []
    return (*steps, *_flush(pending, target))


def _flush(pending: Sequence[Section], target: Target) -> list[Step]:
    if len(pending) == 1 and len(pending[0]) == 1:
        return [step for file in pending[0][0] for step in _move(file, target)]
    return [Rewrite(tuple(pending))] if pending else []


def _move(file: DataFileMeta, target: Target) -> list[Step]:
    """Upgrade the file, or rewrite it without expired rows and, on the highest level, without deletes. No step if it is
    there."""
    has_deletes = target.output_level == target.max_level and target.has_deletes(file)
    if has_deletes or target.has_expired(file):
        return [Rewrite((((file,),),))]
    return [] if file.level == target.output_level else [Upgrade(file)]
