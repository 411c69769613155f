"""How the tables stand that are not in the stream of their pipeline, for people and for programs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from paimon_table.errors import WHERE_MORE
from pipelines.checkpoint.book import Cause, Pause

log = logging.getLogger(__name__)


class TableState(StrEnum):
    """What a table of a running pipeline does."""

    RUNNING = "running"
    PAUSED = "paused"
    CATCHING_UP = "catching-up"


@dataclass(frozen=True, slots=True)
class Standing:
    """A table that is not in the stream."""

    table: str
    state: TableState
    cause: Cause
    reason: str
    since_ms: int
    records_left: int | None = None
    """About how many records it has to read; None when that is not known."""
    records_read: int = 0
    position: str | None = None
    """Where the next slice begins; None: at the first record."""
    public_reason: str = WHERE_MORE
    """The reason without values of rows."""
    topics: tuple[str, ...] = ()
    """Those that feed it, as far as is known."""

    def __str__(self) -> str:
        left = "" if self.records_left is None else f", about {self.records_left:,} records to go"
        return f"table {self.table} is {self.state.value}{left}: {self.reason}"


def say_paused(pauses: Mapping[str, Pause]) -> None:
    """Say at a start which tables are paused, and what becomes of them."""
    for name, pause in pauses.items():
        if pause.tries_again:
            log.warning("table %s is behind since batch %d (%s); it is caught up now", name, pause.batch, pause.reason)
        else:
            log.warning(
                "table %s is paused since batch %d (%s); `tidemark resume FILE --table %s` ends that",
                name,
                pause.batch,
                pause.reason,
                name,
            )


def failed_words(pipeline: str, standings: Mapping[str, Standing]) -> Iterator[str]:
    """What a run that ends says of tables that it could not write."""
    for name, standing in standings.items():
        if standing.cause in (Cause.FAILED, Cause.BAD_RECORDS):
            yield (
                f"pipeline {pipeline}: table {name} is paused, all others have what was read: {standing.reason}; mend"
                " that and start again, which catches the table up"
            )
