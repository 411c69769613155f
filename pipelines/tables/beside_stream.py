"""Records that come to the tables of a pipeline beside its stream: again, or at last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paimon_table import Table
from sinks.commit.table_sink import OwnReading


def takes_all(_identifier: str, _table: Table) -> None:
    """The ``refusal`` of records that any table may take."""


@dataclass(frozen=True, slots=True)
class BesideStream:
    """What is otherwise with such records: they move no position of the stream, and what nobody can tell stops nothing.

    Where the stream would stop, or skip a record because no rule is about it, they go to quarantine with the reason.
    """

    reading: OwnReading
    refusal: Callable[[str, Table], str | None] = takes_all
    """Why a table, by its identifier, cannot take records that may be older than its rows; None where it can."""
