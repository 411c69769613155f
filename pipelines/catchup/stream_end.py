"""Where the stream of a pipeline ends for work beside it: the ``Stream`` of tables that are caught up."""

from __future__ import annotations

import time
from collections.abc import Callable

from paimon_table import Catalog, TableName
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.tables.tables import PipelineTables
from sinks.commit.table_sink import has_batch

CLOSING_S = 2.0
"""How long the work beside the stream waits for Spark to close a batch; a query that is stopped leaves one open."""

CLOSING_LOOK_S = 0.05


class StreamEnd:
    """Of one run of a pipeline; ``last_batch`` is kept by what runs the batches."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        catalog: Catalog,
        tables: Callable[[], PipelineTables | None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.last_batch: int | None = None
        """The last batch whose rows are in the tables; Spark may not have closed it yet."""
        self._checkpoint = checkpoint
        self._catalog = catalog
        self._tables = tables
        self._now_s = now_s

    @property
    def closed_batch(self) -> int | None:
        return self._checkpoint.closed_batch

    @property
    def next_batch(self) -> int:
        """The batch that runs next; it may have run before, in an earlier process."""
        closed = self.closed_batch if self.last_batch is None else self.last_batch
        return 0 if closed is None else closed + 1

    @property
    def is_settled(self) -> bool:
        """Before the first batch of a process that has to run again: a table may have its rows already."""
        last = self._checkpoint.planned_batch if self.last_batch is None else self.last_batch
        return last == self.closed_batch

    def await_closing(self) -> None:
        """Wait until Spark has closed the last batch, which it does once the rows are in the tables; not for long."""
        given_up_s = self._now_s() + CLOSING_S
        while not self.is_settled and self._now_s() < given_up_s:
            time.sleep(CLOSING_LOOK_S)

    def offset_after(self, batch_id: int) -> str:
        return self._checkpoint.offset_after(batch_id)

    def has_rows_of(self, identifier: str, batch_id: int) -> bool:
        tables, table = self._tables(), self._catalog.find(TableName.of(identifier))
        if tables is None or table is None:
            return False
        planned_at_ms = self._checkpoint.planned_at_ms(batch_id)
        return has_batch(table, identifier, tables.config.name, tables.commit_user, batch_id, planned_at_ms)

    def resume(self, identifier: str) -> None:
        tables = self._tables()
        if tables is not None:
            tables.reopen(identifier)
