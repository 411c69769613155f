"""Where the stream of a pipeline ends for a replay, as its checkpoint and a table's snapshots say."""

from __future__ import annotations

from paimon_table import Catalog, TableName
from pipelines.checkpoint.checkpoint import Checkpoint
from sinks.commit.table_sink import has_batch


class ClosedStream:
    """The ``Stream`` of a pipeline, whoever runs it; ``commit_user`` is the checkpoint's."""

    def __init__(self, pipeline: str, commit_user: str, checkpoint: Checkpoint, catalog: Catalog) -> None:
        self._pipeline = pipeline
        self._user = commit_user
        self._checkpoint = checkpoint
        self._catalog = catalog

    @property
    def end(self) -> str | None:
        closed = self._checkpoint.closed_batch
        return None if closed is None else self._checkpoint.offset_after(closed)

    def newest_snapshot(self, identifier: str) -> int:
        """The newest snapshot of a table, 0 where it has none."""
        return self._catalog.files(TableName.of(identifier)).snapshots.latest_id() or 0

    def is_beyond(self, identifier: str) -> bool:
        """Whether the batch that Spark may run again has its rows in the table."""
        planned, closed = self._checkpoint.planned_batch, self._checkpoint.closed_batch
        if planned is None or planned == closed:
            return False
        table = self._catalog.load(TableName.of(identifier))
        planned_at_ms = self._checkpoint.planned_at_ms(planned)
        return has_batch(table, self._pipeline, self._user, planned, planned_at_ms)
