"""A pipeline's own tables: their names, their positions, and the entry about each before its first rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from paimon_table import Catalog, Table, TableName
from paimon_table.side_by_side import all_done, waits_at_once
from pipelines.config.config import PipelineConfig
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.continued_tables import Continuation, found_continuations, with_continued
from pipelines.tables.written_tables import WrittenTable, marks_of, search_tables, written_tables
from sinks.commit.pipeline_mark import write_mark
from sinks.commit.positions import Position
from sources.changes import SourceTable


@dataclass(frozen=True, slots=True)
class OwnPositions:
    """The positions of a pipeline's own tables at a moment, by identifier, and the names of unreadable tables."""

    known: Mapping[str, Position]
    unreadable: frozenset[str]


class OwnTables:
    """Belongs to one run.

    The checkpoint's record knows the tables; under a new checkpoint one search finds them.
    """

    def __init__(self, config: PipelineConfig, catalog: Catalog, record: CheckpointRecord | None = None) -> None:
        """Without ``record`` nothing is known from earlier runs, and nothing is stored for later ones."""
        self.catalog = catalog
        self._config = config
        self._record = record
        self._names: list[TableName] | None = None
        self._searching = threading.Lock()
        self._marked: dict[TableName, dict[str, str]] = {}
        """The formats by topic in the mark of each table that this run may have put rows into."""
        self._continuations: Mapping[str, Continuation] | None = None
        self._formats: dict[str, str] = {}
        self._earlier_formats: dict[str, str] | None = None

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats that were chosen for topics."""
        return self._formats if self._record is None else self._record.book.contents.formats

    @property
    def earlier_formats(self) -> Mapping[str, str]:
        """The formats of topics that the tables store, under any checkpoint; read once."""
        if self._earlier_formats is None:
            marks = marks_of(self.catalog, self._config.name, self.names())
            self._earlier_formats = {topic: name for _, mark in marks for topic, name in (mark or {}).items()}
        return self._earlier_formats

    def choose(self, formats: Mapping[str, str]) -> None:
        """Store the formats of topics, durably if there is a checkpoint."""
        if self._record is None:
            self._formats |= formats
        else:
            self._record.choose(formats)

    def through(self, catalog: Catalog) -> OwnTables:
        """The same tables, opened by another catalog."""
        return OwnTables(self._config, catalog, self._record)

    def names(self) -> list[TableName]:
        """The tables that earlier runs wrote, under any checkpoint; some may be missing."""
        with self._searching:  # tables that are created in parallel call this
            if self._names is None:
                known = None if self._record is None else self._record.known
                if known is None:
                    self._names = search_tables(self.catalog, self._config.name)
                else:
                    self._names = [TableName.of(identifier) for identifier in known]
            return self._names

    @property
    def continuations(self) -> Mapping[str, Continuation]:
        """The tables that continue others, by identifier; read once, because a new one restarts the query."""
        if self._continuations is None:
            self._continuations = found_continuations(self.catalog, self._config.name, self.names())
        return self._continuations

    def config_before(self, given: PipelineConfig, later: Collection[str]) -> PipelineConfig:
        """The pipeline of the file, without the tables ``later``, which continue others."""
        return with_continued(given, {name: one for name, one in self.continuations.items() if name not in later})

    def has_begun(self, name: TableName) -> bool:
        """Whether this run may have put rows into a table."""
        return name in self._marked

    def written(self, skip: Callable[[TableName, Exception], None] | None = None) -> list[WrittenTable]:
        """The positions of the tables of earlier runs, from their snapshots.

        ``skip`` gets each table whose read fails for a reason of this table alone; without ``skip``, raises the error.
        """
        return list(written_tables(self.catalog, self._config.name, self.names(), skip))

    def sources(self) -> set[SourceTable]:
        """The source tables that have fed the tables of earlier runs, for readable tables."""
        fed = {source for found in self.written(lambda _name, _error: None) for source in found.position.sources}
        return {SourceTable(one.topic, one.database, one.schema, one.table) for one in fed}

    def positions(self) -> OwnPositions:
        """The position of each table of earlier runs, and the unreadable tables."""
        unreadable: set[str] = set()
        written = self.written(lambda name, _: unreadable.add(str(name)))
        return OwnPositions({str(table.name): table.position for table in written}, frozenset(unreadable))

    def go_on_with(self, tables: Iterable[tuple[str, Table]]) -> None:
        """Record the tables found, as tables under this checkpoint too."""
        if self._record is not None:
            self._record.add(tables, found=map(str, self.names()))

    def will_commit(
        self,
        tables: Iterable[tuple[str, Table]],
        topics_of: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """Record durably that these tables get rows; writes nothing for tables that are recorded already.

        ``topics_of`` gives the topics that feed a table. The table stores the formats that were found for these topics.
        """
        tables = list(tables)
        formats = self.formats
        wanted = {
            TableName.of(identifier): {topic: formats[topic] for topic in topics_of(identifier) if topic in formats}
            for identifier, _ in (tables if formats else ())
        }
        found = {TableName.of(identifier): table for identifier, table in tables}
        new = [name for name in found if name not in self._marked or not _has(self._marked[name], wanted.get(name, {}))]
        marks = marks_of(self.catalog, self._config.name, new) if new else []
        now = {name: {**(mark or {}), **wanted.get(name, {})} for name, mark in marks}
        writes = [
            partial(write_mark, found[name].io, found[name].paths, self._config.name, now[name])
            for name, mark in marks
            if now[name] != mark
        ]
        for write in all_done(writes, waits_at_once(self._config.catalog.address)):
            write.result()
        self._marked |= now
        if self._record is not None:
            self._record.add(tables)


def _has(known: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= known.items()
