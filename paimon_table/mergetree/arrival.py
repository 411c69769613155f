"""The files of one bucket of a table without primary key: in the order in which their rows were written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Arrived(Protocol):
    """The metadata of a file, as far as it says when its rows were written."""

    @property
    def file_name(self) -> str: ...

    @property
    def min_sequence_number(self) -> int: ...

    @property
    def creation_time_ms(self) -> int | None: ...


F = TypeVar("F", bound=Arrived)


def in_order(files: Iterable[F]) -> list[F]:
    """Files by their first sequence number; where writers gave one twice, by their age."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.creation_time_ms or 0, file.file_name))
