"""A pipeline that may be started: what its checkpoint and its source show without Spark is right."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from paimon_table import Catalog
from paimon_table.storage.file_io import FileIO, LocalFileIO
from paimon_table.storage.outages import storage_failure
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.reading import source_reader
from pipelines.storage import catalog_of, look_above, quarantine_of, storage_of
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.continued_tables import with_continued
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.writable_tables import check_own_tables, check_tables_of_others
from sources.reader import SourceReader


@dataclass(frozen=True, slots=True)
class PreparedPipeline:
    """The parts of one run of a pipeline; each run has its own."""

    given: PipelineConfig
    """The pipeline as its file has it."""
    config: PipelineConfig
    """The pipeline with the rules of tables that continue others."""
    checkpoint: Checkpoint
    query_id: str | None
    """The identity of the checkpoint; None for one that Spark has not made yet."""
    record: CheckpointRecord
    catalog: Catalog
    own: OwnTables
    book: Book
    reader: SourceReader


def prepared(config: PipelineConfig) -> PreparedPipeline:
    """Check checkpoint and source, once per run and before Spark starts, so that mistakes show at once.

    Raises CorruptFile for a checkpoint that Spark would fail on or misread. Raises ConfigError if the checkpoint
    belongs to another pipeline or to other tables. Also raises it if an existing table does not fit its rule, or if
    there is nothing to read. Raises SinkUnavailable for a catalog that cannot be reached, and a warehouse or a
    quarantine that cannot be written.
    """
    checkpoint = Checkpoint(config)
    checkpoint.check()
    catalog = catalog_of(config)
    catalog.check()
    book = Book(checkpoint)
    record = CheckpointRecord(config, checkpoint, catalog, book)
    query_id = checkpoint.query_id
    record.check(checkpoint.commit_user)
    own, given = OwnTables(config, catalog, record), config
    config = with_continued(given, own.continuations)
    _check_writable(config)
    reader = source_reader(config, checkpoint, own, book)
    reader.check()
    check_tables_of_others(config, own)
    check_own_tables(config, own, [name for name, pause in book.pauses.items() if pause.has_rule])
    return PreparedPipeline(given, config, checkpoint, query_id, record, catalog, own, book, reader)


PROBE = ".tidemark-probe"


def _check_writable(config: PipelineConfig) -> None:
    """Raise the error of a warehouse or a quarantine that cannot be written; the lock already proves the checkpoint.

    The first bad record creates the quarantine, so until then only its place is checked.
    """
    location = config.catalog.location
    if location is not None:
        _probe("catalog.warehouse", location, *storage_of(config, location))
    if config.source.on_bad_record != "fail":
        io, path = quarantine_of(config)
        if not isinstance(io, LocalFileIO) or io.exists(path):
            _probe("the quarantine", config.quarantine, io, path)
        else:
            look_above("the quarantine", path)


def _probe(what: str, location: str, io: FileIO, path: str) -> None:
    """Write a file next to the tables and delete it again. No reader sees it: names with a dot are not databases."""
    file = f"{path}/{PROBE}-{uuid.uuid4().hex}"
    try:
        io.write(file, b"", durable=False)
        io.delete(file)
    except OSError as error:
        raise storage_failure(error, f"{what} ({location}) cannot be written") from error


def own_tables(config: PipelineConfig) -> OwnTables:
    """The tables of a pipeline, for a command outside its runs."""
    catalog = catalog_of(config)
    return OwnTables(config, catalog, CheckpointRecord(config, Checkpoint(config), catalog))


def continued(config: PipelineConfig) -> PipelineConfig:
    """The pipeline as a run has it, for a command outside its runs: with the rules of tables that continue others."""
    return with_continued(config, own_tables(config).continuations)


def known_tables(config: PipelineConfig, own: OwnTables, book: Book) -> set[str]:
    """The tables that a pipeline writes: written before, paused before their first rows, or named by a rule."""
    ruleless = {name for name, pause in book.pauses.items() if not pause.has_rule}
    return {*map(str, own.names()), *book.tables, *config.fixed_names} - ruleless


def table_names(config: PipelineConfig) -> set[str]:
    """The same, for a command outside its runs."""
    return known_tables(config, own_tables(config), Book(Checkpoint(config)))
