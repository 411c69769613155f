"""The obstacles of a pipeline, now or later: found without changing anything.

``error``: a run would refuse this, or lose records. ``warning``: it may fail later.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from paimon_table.errors import TidemarkError
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.outages import storage_failure
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of, look_above, storage_of
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.writable_tables import check_own_tables, check_tables_of_others
from pipelines.trial.preview import Preview
from sources.changes import SKIPS
from sources.kafka.lost_records import lost_records
from sources.kafka.start_offsets import check_selected
from sources.samples import Sample, TopicFacts
from sources.wording import counted

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as a run needs it."""

    level: Literal["error", "warning"]
    text: str


def stored_findings(config: PipelineConfig) -> list[Finding]:
    """The facts that checkpoint, tables and storage show."""
    checkpoint, catalog = Checkpoint(config), catalog_of(config)
    book = Book(checkpoint)
    record = CheckpointRecord(config, checkpoint, catalog, book)
    own = OwnTables(config, catalog, record)

    def check_record() -> None:
        record.check(checkpoint.commit_user)

    def check_tables() -> None:
        check_tables_of_others(config, own)
        check_own_tables(config, own, [name for name, pause in book.pauses.items() if pause.has_rule])

    locations = {"checkpoint": config.checkpoint}
    if config.catalog.location is not None:
        locations["catalog.warehouse"] = config.catalog.location
    if config.source.on_bad_record != "fail":
        locations["the quarantine"] = config.quarantine
    checks: list[Callable[[], None]] = [checkpoint.check, catalog.check, check_record, check_tables]
    checks += [partial(_check_writable, config, what, at) for what, at in locations.items()]
    return [Finding("error", text) for check in checks if (text := _failure(check)) is not None]


def _failure(check: Callable[[], None]) -> str | None:
    try:
        check()
    except TidemarkError as error:
        return str(error)
    except OSError as error:
        return str(storage_failure(error))
    return None


def _check_writable(config: PipelineConfig, what: str, location: str) -> None:
    """Check whether a local directory accepts files, by its rights; for an object store only a write would show it."""
    io, path = storage_of(config, location)
    if not isinstance(io, LocalFileIO):
        return
    if not os.path.isdir(path):
        look_above(what, path)
    elif not os.access(path, os.W_OK | os.X_OK):
        raise storage_failure(PermissionError(13, os.strerror(13), path), f"{what} ({location}) cannot be written")


def source_findings(config: PipelineConfig, sample: Sample) -> Iterator[Finding]:
    """Findings about the topics: missing permissions, records that are lost or soon may be."""
    for topic, why in sample.unreadable.items():
        yield Finding("error", f"topic {topic} cannot be read: {why}")
    checkpoint, kafka = Checkpoint(config), config.source.kafka
    positions = None if kafka is None else checkpoint.kafka_positions()
    if kafka is None:
        return
    closed, planned = checkpoint.closed_batch, checkpoint.planned_batch
    ends = {} if planned is None or planned == closed else checkpoint.planned_ends(planned)
    refusal = _failure(lambda: check_selected(config.checkpoint, kafka.settings, positions or {}, ends))
    if refusal is not None:
        yield Finding("error", refusal)
    if not positions or not sample.topics:
        return
    bounds = {place: held for facts in sample.topics.values() for place, held in facts.bounds.items()}
    selected, unreadable = kafka.settings.topics, sample.unreadable
    read = {p: at for p, at in positions.items() if selected.selects(p[0]) and p[0] not in unreadable}
    losses = lost_records(read, bounds)
    goes_on = config.source.on_data_loss == "continue"
    for loss in losses:
        end = "on_data_loss: continue skips them" if goes_on else "a run stops; see source.on_data_loss"
        yield Finding("warning" if goes_on else "error", f"records were lost before they were read: {loss}: {end}")
    planned_at_ms = None if closed is None else checkpoint.planned_at_ms(closed)
    if planned_at_ms is not None:
        lost = {loss.place[0] for loss in losses}
        yield from _short_retention(now_ms() - planned_at_ms, sample.topics, without=lost)


def _short_retention(age_ms: int, topics: Mapping[str, TopicFacts], without: set[str]) -> Iterator[Finding]:
    for name, facts in topics.items():
        if facts.retention_ms is not None and facts.retention_ms < age_ms and name not in without:
            yield Finding(
                "warning",
                f"topic {name} keeps records for {_days(facts.retention_ms)}, and the last batch is"
                f" {_days(age_ms)} old: Kafka may delete later records before Tidemark reads them. Run the "
                "pipeline, or raise retention.ms",
            )


def _days(ms: int) -> str:
    return f"{ms / _DAY_MS:.1f} days" if ms >= _DAY_MS else f"{ms / 3_600_000:.1f} hours"


def preview_findings(
    config: PipelineConfig, sample: Sample, preview: Preview, known: Collection[Finding]
) -> Iterator[Finding]:
    """Findings in the sample: what would stop the pipeline or pause a table, and what compaction removes.

    A cause that is ``known`` to stop it is not reported again.
    """
    if preview.error is not None and Finding("error", preview.error) not in known:
        yield Finding("error", f"the pipeline would stop: {preview.error}")
    for table, reason in preview.paused.items():
        yield Finding("error", f"table {table} would be paused: {reason.removeprefix(f'{table}: ')}")
    if preview.quarantine and config.source.on_bad_record == "fail":
        first = preview.quarantine[0]
        text = f"on_bad_record: fail: the pipeline would stop at the bad record {first.first}"
        yield Finding("error", f"{text}; fix the record, or the pipeline file, before a run")
    else:
        yield from _only_bad(sample, preview)
    for seen in preview.tables:
        compacted = [t for t in seen.topics if t in sample.topics and sample.topics[t].is_compacted]
        if compacted and not seen.primary_key:
            yield Finding(
                "warning",
                f"topic {compacted[0]} is compacted, and table {seen.identifier} has no primary key: the table "
                "lacks records that Kafka removes before Tidemark reads them. Set cleanup.policy to delete, or "
                "give the rule a primary_key",
            )


_WITHOUT_ROWS = (SKIPS["tombstones"], SKIPS["control"])
"""The records of a sample that need not give rows."""


def _only_bad(sample: Sample, preview: Preview) -> Iterator[Finding]:
    """Samples, of all topics or of one, that have nothing but bad records: the file does not fit the records."""
    bad = sum(kind.count for kind in preview.quarantine)
    if bad and bad + sum(preview.skipped.get(word, 0) for word in _WITHOUT_ROWS) == sample.record_count:
        text = f"no record of the sample gives a row, and {counted(bad, 'record')} would go to quarantine"
        yield Finding("error", f"{text}; fix the pipeline file, or the records, before a run")
        return
    sampled: Counter[str] = Counter()
    for batch in sample.batches:
        sampled.update(batch.column("topic").to_pylist())
    of_topics: Counter[str] = Counter()
    for kind in preview.quarantine:
        of_topics[kind.topic] += kind.count
    for topic, count in sorted(of_topics.items()):
        if count == sampled[topic]:
            yield Finding("warning", f"all sampled records of topic {topic} ({count}) would go to quarantine")
