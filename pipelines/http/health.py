"""Whether a process is alive, and whether it does its work: what probes ask, with the reasons why not.

Everybody may ask, so reasons are shown without values of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.catchup.shown_standing import Standing
from pipelines.views.table_views import Phase, RunView

STUCK_S = 300.0
"""How long the main thread may be silent. It waits for Kafka and for storages, within bounds that are shorter."""

SILENT_SOURCE_S = 60.0
"""A silence that is shorter is a note."""


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to a probe: fine without ``reasons``; ``notes`` are worth a look and fail no probe."""

    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        return not self.reasons


def alive(run: RunView, silent_s: float) -> Health:
    """Whether the process should continue; ``silent_s``: how long its main thread has been silent."""
    failed = [f"pipeline {p.name} failed: {p.public_reason}" for p in run.pipelines if p.phase is Phase.FAILED]
    stuck = [f"the main thread has done nothing for {silent_s:.0f} s"] if silent_s > STUCK_S else []
    return Health((*failed, *stuck))


def ready(run: RunView, silent_s: float) -> Health:
    """Whether every pipeline reads and writes. A paused table is a note: the others continue.

    One whose records are bad is none: that is a mistake in the file or the connector.
    """
    reasons = list(alive(run, silent_s).reasons)
    notes: list[str] = []
    for pipeline in run.pipelines:
        if pipeline.phase in (Phase.STARTING, Phase.STOPPING, Phase.ENDED):
            reasons.append(f"pipeline {pipeline.name} is {pipeline.phase}")
        if pipeline.phase is Phase.WAITING:
            reasons.append(f"pipeline {pipeline.name} waits: {pipeline.public_reason}")
        if pipeline.source_silent_s is not None:
            told = f"the source of pipeline {pipeline.name} has been silent for {pipeline.source_silent_s:.0f} s"
            (reasons if pipeline.source_silent_s > SILENT_SOURCE_S else notes).append(told)
        for table in pipeline.tables:
            if table.standing is not Standing.RUNNING:
                why = f": {table.public_reason}" if table.reason else ""
                told = f"table {table.name} of pipeline {pipeline.name} is {table.standing}{why}"
                (reasons if table.has_bad_records else notes).append(told)
    return Health(tuple(reasons), tuple(notes))
