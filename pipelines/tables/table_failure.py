"""Distinguishes failures of one table from failures that end the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_table.errors import (
    Action,
    BrokenInvariant,
    LanesDoNotFit,
    LocalDiskFull,
    Outage,
    RolledBack,
    SinkUnavailable,
    TidemarkError,
)
from sinks.write.bucket_task import is_of_machine


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


def is_of_table(error: BaseException) -> bool:
    """Whether an operation on one table failed for reasons of that table.

    True for Tidemark's own errors and for errors of storage, with exceptions. An outage passes by itself and affects
    all tables. A rollback of the pipeline's commits is found and repaired at the next start. Broken invariants of the
    engine and missing resources of the machine are not specific to a table. Any other class is a bug in Tidemark:
    continuing would hide it.
    """
    if isinstance(error, TidemarkError):
        return not isinstance(error, BrokenInvariant | LanesDoNotFit | LocalDiskFull | Outage | RolledBack)
    return isinstance(error, OSError) and not is_of_machine(error)


@contextmanager
def blaming(identifier: str) -> Iterator[None]:
    """Turn failures in this block that are specific to the table into a TableFailure."""
    try:
        yield
    except Exception as error:
        if not is_of_table(error):
            raise
        raise TableFailure(identifier, error) from error
