"""The order of the files of one bucket in a table without primary key: that in which their rows were written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Arrived(Protocol):
    """The metadata of a file about the order of its rows."""

    @property
    def file_name(self) -> str: ...

    @property
    def min_sequence_number(self) -> int: ...

    @property
    def creation_time_ms(self) -> int | None: ...


F = TypeVar("F", bound=Arrived)


def in_order(files: Iterable[F]) -> list[F]:
    """Files by their first sequence number; files with equal numbers by age."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.creation_time_ms or 0, file.file_name))
