"""What those who look at a running pipeline see of its replays and rebuilds."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from paimon_table import Catalog, TableName
from paimon_table.errors import TidemarkError
from pipelines.batch.batch_report import BatchReport
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays, ReplayState
from pipelines.replay.unfinished import unfinished_replays
from pipelines.tables.tables import PipelineTables
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_counts import Opened
from pipelines.views.table_views import Beside

log = logging.getLogger(__name__)


class ShownReplays:
    """Kept by what does their slices; ``unfinished`` may be read from any thread."""

    def __init__(self, checkpoint: Checkpoint, catalog: Catalog, seen: PipelineState) -> None:
        self.unfinished: Mapping[str, Beside] = {}
        """Those that are not done, by table, as they were at the last look."""
        self._checkpoint = checkpoint
        self._catalog = catalog
        self._seen = seen

    def look(self, left: Mapping[str, int | None] | None = None) -> None:
        """Look at all of them; ``left``, as for ``unfinished_replays``, names those that have just gone on.

        A table that a rebuild among these has been switched to is shown as it is now. Raises nothing for what cannot
        be read: whoever replays is told, and the stream goes on.
        """
        if self._checkpoint.is_new:
            return
        try:
            replays = Replays(self._checkpoint).all()
            self.unfinished = unfinished_replays(replays, left)
            for state in replays:
                if state.is_done and state.rebuild is not None and state.id in (left or {}):
                    table = self._catalog.load(TableName.of(state.table))
                    self._seen.table_changed(state.table, Opened(table, table.state(table.snapshots.latest())))
        except (TidemarkError, OSError) as error:
            log.warning("replays cannot be shown: %s", error)

    def slice_done(self, state: ReplayState, report: BatchReport, tables: PipelineTables) -> None:
        """Show what a slice has brought; a rebuild's slices leave the table as it is until its switch."""
        is_aside = state.rebuild is not None
        self._seen.slice_done(state.table, report, None if is_aside else tables.sinks.get(state.table))
