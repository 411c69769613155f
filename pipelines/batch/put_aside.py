"""Clearing the quarantine of a batch that runs again, without what tables that have the batch already have left there.

Such a table takes no row of the batch any more, whatever its rule says by now, and whether it is in the stream or not:
a record that it has put aside is in the quarantine or nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from paimon_table import TableName
from paimon_table.errors import TidemarkError
from pipelines.batch.decode_task import PutAside
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.tables.known_routes import led_to
from pipelines.tables.table_failure import blaming
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import FedBy, Position
from sinks.commit.table_sink import has_batch
from sinks.quarantine import Quarantine


def cleared(quarantine: Quarantine | None, batch: BatchRun, tables: PipelineTables) -> Quarantine | None:
    """The quarantine for a run of ``batch``: empty, but for records of tables that have the batch."""
    return None if quarantine is None else quarantine.clear(batch.id, _Holders(batch, tables).hold)


def looked_up(settings: TaskSettings, batch: BatchRun, tables: PipelineTables, *, is_first: bool) -> PutAside:
    """What the quarantine and the tables have of a batch; ``is_first``: no run of it in this process came before.

    The storage is asked where a table may have the batch: an earlier process got that far, or an earlier run.
    """
    elsewhere = {} if settings.quarantined_elsewhere is None else settings.quarantined_elsewhere()
    stored = set()
    for index, (name, sink) in enumerate(tables.sinks.items()):
        may_have = elsewhere or not is_first or sink.found_batch >= batch.id
        if may_have and not tables.is_left_out(name):
            with blaming(name):
                if sink.is_appended(batch.id, batch.started_ms):
                    stored.add(index)
    return PutAside(elsewhere, frozenset(stored))


class _Holders:
    """The tables that have a batch; looked for once a line is there to be asked about."""

    def __init__(self, batch: BatchRun, tables: PipelineTables) -> None:
        self._batch = batch
        self._tables = tables
        self._known: dict[tuple[str, FedBy | None], bool] = {}
        self._having: dict[str, bool] = {}

    def hold(self, line: Mapping[str, Any] | None) -> bool:
        """Whether a line is of a record for one of them; of one that cannot be read (None), whether there are any."""
        if line is None:
            return any(map(self._has_batch, self._positions))
        names = line.get("source")
        source = None if names is None else FedBy(line["topic"], *names)
        about = (line["topic"], source)
        if about not in self._known:
            led = None if source is None else led_to(self._tables.config, source)
            fed = [str(led)] if led else [table for table in self._positions if self._is_for(table, *about)]
            self._known[about] = any(map(self._has_batch, fed))
        return self._known[about]

    @cached_property
    def _positions(self) -> dict[str, Position | None]:
        """Those of the pipeline's tables, as far as they are known."""
        own, sinks = self._tables.own, self._tables.sinks
        known = own.positions().known
        opened = {name: sink.position for name, sink in sinks.items()}
        return {name: opened.get(name, known.get(name)) for name in {*map(str, own.names()), *sinks}}

    def _has_batch(self, identifier: str) -> bool:
        """Whether the batch is in a table; also where that cannot be told."""
        if identifier not in self._having:
            self._having[identifier] = self._looks_up(identifier)
        return self._having[identifier]

    def _looks_up(self, identifier: str) -> bool:
        tables = self._tables
        try:
            table = tables.catalog.find(TableName.of(identifier))
            if table is None:
                return False
            user, batch = tables.commit_user, self._batch
            return has_batch(table, tables.config.name, user, batch.id, batch.started_ms, is_beside=tables.is_retry)
        except TidemarkError:
            return True

    def _is_for(self, table: str, topic: str, source: FedBy | None) -> bool:
        """Whether records of a source table that no rule leads anywhere now have fed a table."""
        position = self._positions[table]
        sources = () if position is None else position.sources
        if source is None:
            fed = {one.topic for one in sources} | {place[0] for place in (position.offsets if position else ())}
            return topic in fed
        return any(map(source.is_same, sources))
