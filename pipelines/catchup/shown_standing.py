"""The standing of tables outside the stream of their pipeline, for people and for programs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipelines.checkpoint.book import Cause, Pause
from pipelines.tables.table_failure import way_on
from sources.wording import counted, sentences

log = logging.getLogger(__name__)


class Standing(StrEnum):
    """How a table takes part in the stream of its pipeline."""

    RUNNING = "running"
    PAUSED = "paused"
    CATCHING_UP = "catching-up"


@dataclass(frozen=True, slots=True)
class TableStanding:
    """A table that is not in the stream."""

    pause: Pause
    state: Standing
    records_left: int | None = None
    """About how many records it has to read; None when that is not known."""
    records_read: int = 0

    def __str__(self) -> str:
        left = "" if self.records_left is None else f", about {counted(self.records_left, 'record')} left"
        return f"table {self.pause.table} is {self.state.value}{left}: {self.pause.reason}"

    @property
    def has_failed(self) -> bool:
        """Whether the table is outside the stream because of a fault, which `run --once` reports as its error."""
        return self.pause.cause in (Cause.FAILED, Cause.BAD_RECORDS)

    @property
    def summary(self) -> str:
        """For the end of a run; the error of a table that failed follows and has the reason."""
        if self.has_failed:
            return f"table {self.pause.table} is {self.state.value}: it lacks records; see the error below"
        return str(self)


def say_paused(pauses: Mapping[str, Pause]) -> None:
    """Log at a start which tables are paused, and what happens next to each table."""
    for name, pause in pauses.items():
        if pause.tries_again:
            log.warning(
                "table %s has been behind since batch %d: %s",
                name,
                pause.batch,
                sentences(pause.reason, "It catches up now"),
            )
        else:
            log.warning(
                "table %s has been paused since batch %d: %s",
                name,
                pause.batch,
                sentences(pause.reason, way_on(name, is_asked=pause.cause is Cause.ASKED)),
            )


def failed_words(pipeline: str, standings: Mapping[str, TableStanding]) -> Iterator[str]:
    """The messages of an ending run about tables that it could not write."""
    for name, standing in standings.items():
        if standing.has_failed:
            way = sentences(standing.pause.reason, "Fix the cause and start again: the table then catches up")
            yield f"pipeline {pipeline}: table {name} is paused, and all others are up to date: {way}"
