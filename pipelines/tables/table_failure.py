"""Distinguishes failures of one table from failures that end the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paimon_table.errors import (
    Action,
    BrokenInvariant,
    LanesDoNotFit,
    MachineFailure,
    Outage,
    RolledBack,
    SchemaChangeRefused,
    SinkUnavailable,
    TidemarkError,
)
from paimon_table.storage.outages import is_of_machine, passes
from pipelines.tables.observed_columns import Seen
from sources.changes import SourceTable


class TooManyBadRecords(TidemarkError):
    """A table has more bad records than ``max_bad_records``; none of its rows in the batch were stored.

    ``table`` is its identifier; the table may not exist yet. Without an identifier, the records lead to no table.
    ``topics`` are the topics of the records.
    """

    action = Action.QUARANTINE
    is_public = True  # it has kinds of reasons and names of fields, but no values

    def __init__(self, text: str, *, table: str = "", topics: frozenset[str] = frozenset()) -> None:
        super().__init__(text)
        self.table = table
        self.topics = topics


@dataclass(frozen=True, slots=True)
class NewKey:
    """The first record of a partition with another message key than the table."""

    source: SourceTable
    place: tuple[str, int]
    offset: int
    timestamp_ms: int
    """Kafka's time of the record."""
    before: tuple[str, ...]
    """The message key of the table."""
    seen: Seen
    """What the records with the new key show, and this key."""

    @property
    def key(self) -> tuple[str, ...]:
        """The message key from this record on."""
        return tuple(self.seen.key_columns or ())


class KeyChanged(SchemaChangeRefused):
    """From a record on, a source table has another message key, and a new table is to continue with it."""

    change: NewKey

    @staticmethod
    def of(text: str, change: NewKey) -> KeyChanged:
        error = KeyChanged(text)
        error.change = change
        return error


class TableContinued(TidemarkError):
    """A new table continues another one: the query starts over, and routes the records by the tables as they are."""

    action = Action.RETRY
    is_public = True


class TableFailure(Exception):
    """One table cannot be read or written, or its change is refused; the others can continue without it."""

    def __init__(self, identifier: str, error: Exception) -> None:
        super().__init__(f"table {identifier}: {error}")
        self.identifier = identifier
        self.error = error

    @property
    def is_of_storage(self) -> bool:
        """Whether storage does not answer, so that other tables may fail as well."""
        return isinstance(self.error, SinkUnavailable | OSError)


def may_succeed_later(error: Exception) -> bool:
    """Whether a retry may succeed after a table has failed."""
    return isinstance(error, OSError) or (isinstance(error, TidemarkError) and error.action.may_pass)


def way_on(table: str, *, is_asked: bool = False) -> str:
    """How a paused table continues; a resume alone fails again if the cause remains."""
    resume = f"`tidemark resume FILE --table {table}`"
    if is_asked:
        return f"{resume} catches it up"
    return f"Fix that first; then {resume}, or a restart, catches it up. No record is lost"


_OF_ALL = (BrokenInvariant, LanesDoNotFit, MachineFailure, Outage, RolledBack, TableContinued)


def is_of_table(error: BaseException) -> bool:
    """Whether an operation on one table failed for reasons of that table.

    True for Tidemark's own errors and for errors of storage, with exceptions. An outage passes by itself and affects
    all tables. The next start finds and repairs a rollback of the pipeline's commits, and finds a table that continues
    another one. Broken invariants of the
    engine and missing resources of the machine are not specific to a table. Any other class is a bug in Tidemark:
    continuing would hide it.
    """
    if isinstance(error, TidemarkError):
        return not isinstance(error, _OF_ALL)
    return isinstance(error, OSError) and not passes(error) and not is_of_machine(error)


@contextmanager
def blaming(identifier: str) -> Iterator[None]:
    """Turn failures in this block that are specific to the table into a TableFailure."""
    try:
        yield
    except Exception as error:
        if not is_of_table(error):
            raise
        raise TableFailure(identifier, error) from error
