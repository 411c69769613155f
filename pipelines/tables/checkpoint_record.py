"""The owner of a checkpoint: its book names the pipeline and the tables written under it.

Spark continues from its offsets whatever happened to the tables. Into a table that was deleted meanwhile it would write
only new rows. The book distinguishes such a table from one that never had rows.

A table is recorded durably before the first commit to it, so a table that is not in the book was never written. The
book identifies a table by its name and the time of its first schema, which another table of the same name does not
share.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from paimon_table import Catalog, CommitKind, Table, TableName
from paimon_table.errors import ConfigError
from pipelines.checkpoint.book import FILE, Book, Cause, Contents
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of
from pipelines.tables.known_routes import may_write
from pipelines.tables.written_tables import WrittenTable, written_tables
from sinks.commit.positions import aside_number
from sources.wording import first_of

log = logging.getLogger(__name__)

NAMES_SHOWN = 5


class CheckpointRecord:
    """The tables written under one pipeline's checkpoint, by its book."""

    def __init__(
        self, config: PipelineConfig, checkpoint: Checkpoint, catalog: Catalog | None = None, book: Book | None = None
    ) -> None:
        self._config = config
        self._catalog = catalog or catalog_of(config)
        self._checkpoint = checkpoint
        self.book = book or Book(checkpoint)

    def check(self, commit_user: str | None) -> None:
        """Raise ConfigError for a checkpoint of another pipeline or of other tables; warn of single missing tables.

        ``commit_user`` is the checkpoint's; None before its first start.
        """
        warehouse = self._catalog.warehouse
        if not self.book.has_file:
            if self._checkpoint.closed_batch is not None:
                raise self._checkpoint.damaged(FILE, "is missing, although batches are closed")
            return
        self._check_pipeline(self.book.contents.pipeline)
        written = self.book.contents.written
        if written and self._checkpoint.is_new:
            raise self._checkpoint.damaged("offsets", f"is empty, although {_names(written)} were written")
        self._check_age(written, commit_user)
        if self._checkpoint.closed_batch is None:
            return
        gone = [name for name, time in written.items() if self._created_ms(name) != time]
        if gone and len(gone) == len(written):
            raise self._other_tables(warehouse, f"{_names(gone)}, which it wrote")
        for name in gone:
            pause = self.book.entry(name).pause
            is_continued = pause is not None and not pause.has_rule and pause.cause is Cause.NEW_KEY
            if may_write(self._config, TableName.of(name)) and not is_continued:
                self._warn(name, warehouse)

    def start(self) -> None:
        """Create the book if there is none: from now on the checkpoint belongs to this pipeline."""
        self.book.change(lambda contents: contents)

    @property
    def known(self) -> list[str] | None:
        """All tables that the pipeline has written, under this checkpoint or before; None if it does not know them.

        It knows them from the first batch on, after a search.
        """
        contents = self.book.contents
        return None if contents.earlier is None else sorted({*contents.written, *contents.earlier})

    def add(self, tables: Iterable[tuple[str, Table]], found: Iterable[str] | None = None) -> None:
        """Record tables durably before the first commit to them; writes nothing if they are recorded.

        ``found`` are all tables that the pipeline has written before; existing entries about them stay. Without a
        checkpoint (a retry after its loss) nothing is recorded: a directory with only the book would count as damaged.
        """
        if not self.book.has_file and self._checkpoint.query_id is None:
            return
        created = {identifier: table.created_ms for identifier, table in tables}
        earlier = None if found is None else tuple(sorted(found))

        def added(contents: Contents) -> Contents:
            entries = {name: contents.entry(name).written_as(time) for name, time in created.items()}
            known = contents.earlier if contents.earlier is not None else earlier
            return replace(contents.with_tables(entries), earlier=known)

        self.book.change(added)

    def choose(self, formats: Mapping[str, str]) -> None:
        """Record the formats of topics durably: later runs decode the topics in these formats."""
        self.book.change(lambda contents: replace(contents, formats={**contents.formats, **formats}))

    def _check_pipeline(self, pipeline: str) -> None:
        if pipeline != self._config.name:
            raise ConfigError(
                f"checkpoint {self._checkpoint.location} belongs to pipeline {pipeline}, not to"
                f" {self._config.name}: give each pipeline a separate checkpoint (to keep the checkpoint, keep "
                "the pipeline's name)"
            )

    def _check_age(self, written: Iterable[str], commit_user: str | None) -> None:
        """Refuse an older copy of the checkpoint: the tables would take its next batches for earlier ones.

        Spark records the range of a batch before any table gets its rows, so no table is ahead of its own checkpoint.
        """
        planned = self._checkpoint.planned_batch
        if commit_user is None or planned is None:
            return
        # A copy from before a table's first commit does not name it.
        names = [TableName.of(name) for name in dict.fromkeys((*written, *self._config.fixed_names))]
        found = list(written_tables(self._catalog, self._config.name, names, lambda *_: None))
        self._check_slices(found, commit_user)
        for table in found:
            position = table.position
            if position.writer == commit_user and position.commit_identifier > planned:
                raise older_copy(self._config, planned, str(table.name), position.commit_identifier)

    def _check_slices(self, written: Iterable[WrittenTable], commit_user: str) -> None:
        """Refuse a checkpoint without the plan of slices that the table holds: it would read their records again.

        The book records that a catch-up runs before the table has any of its slices.
        """
        for table in written:
            position = table.position
            since_ms = aside_number(position.writer)
            if position.commit_user != commit_user or since_ms is None or position.commit_kind == CommitKind.OVERWRITE:
                continue  # the switch of a rebuild is not a slice
            entry, by_number = self.book.entry(str(table.name)), self._config.source.files is not None
            if not entry.may_have(since_ms, position.commit_identifier, by_number=by_number):
                raise _is_older(
                    f"checkpoint {self._config.checkpoint} has not planned to read records again for table"
                    f" {table.name}, but the table holds them already (slice {position.commit_identifier})"
                )

    def _created_ms(self, identifier: str) -> int | None:
        return self._catalog.files(TableName.of(identifier)).created_ms()

    def _other_tables(self, warehouse: str, missing: str) -> ConfigError:
        return ConfigError(
            f"checkpoint {self._checkpoint.location} is done up to batch {self._checkpoint.closed_batch}, but "
            f"warehouse {warehouse} does not have {missing}: a start would write only new rows. Set the warehouse "
            "that belongs to the checkpoint. To fill the tables from the start instead, move the checkpoint "
            "directory away"
        )

    def _warn(self, name: str, warehouse: str) -> None:
        log.warning(
            "table %s is no longer in warehouse %s (or was recreated), but checkpoint %s has passed its records: "
            "the table gets only new rows. To fill it, stop this pipeline. Read the table's topics once from the "
            "start under another name and checkpoint (tidemark run OTHER.yaml --once), then start again",
            name,
            warehouse,
            self._checkpoint.location,
        )


def older_copy(config: PipelineConfig, planned: int, identifier: str, batch_id: int) -> ConfigError:
    """The error for a table with a batch that its checkpoint had not planned when this run began."""
    return _is_older(
        f"checkpoint {config.checkpoint} has planned batches up to {planned}, but table {identifier} already has "
        f"batch {batch_id} of it"
    )


def _is_older(why: str) -> ConfigError:
    return ConfigError(
        f"{why}: this is an older copy of the checkpoint. A start from it would skip records or apply them "
        "twice. Move the checkpoint directory away and start again: a new checkpoint continues from the "
        "positions in the tables"
        " (on_lost_checkpoint: resume)"
    )


def _names(identifiers: Iterable[str]) -> str:
    """Some of the names, readable."""
    names = sorted(identifiers)
    return f"{'table' if len(names) == 1 else 'tables'} {', '.join(first_of(names, NAMES_SHOWN))}"
