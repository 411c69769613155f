"""Previews a pipeline: its real batches over a sample of the source, into a warehouse that is then deleted.

Existing tables are tried with their schemas and without their rows. The preview writes nothing of the pipeline: not its
warehouse, checkpoint or quarantine, and nothing in Kafka.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paimon_table import Catalog, Table, TableName
from paimon_table.catalog.seeded_catalog import SeededCatalog
from paimon_table.errors import TidemarkError
from paimon_table.options.bucket_mode import bucket_mode
from paimon_table.options.names import BUCKET
from paimon_table.types import sql
from pipelines.batch.decode_report import DecodeReport, kind_of_reason
from pipelines.catchup.table_standings import unfilled_words
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TargetRule
from pipelines.storage import catalog_of
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.continued_tables import with_continued
from pipelines.tables.merged_sources import fed_by as as_fed
from pipelines.tables.merged_sources import source_words
from pipelines.tables.observed_columns import merged
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.unmatched_rules import unmatched
from pipelines.tables.writable_tables import rule_of_found, rule_plan
from pipelines.trial.case_checks import plain_rows
from pipelines.trial.ddl import alter_table, create_table
from pipelines.trial.kept_warnings import kept_warnings
from pipelines.trial.trial_pipeline import TrialPipeline, in_directory
from pipelines.trial.type_conflicts import conflicts
from sources.changes import Observation, SourceTable
from sources.samples import Sample

SAMPLE_ROWS = 3


@dataclass(frozen=True, slots=True)
class ColumnPreview:
    """A column of a table that would be made or changed."""

    name: str
    type: str
    origin: str
    """Where the type comes from."""
    looks_like: str | None = None
    """The probable meaning of the values in a guessed column, where JSON does not show it."""


@dataclass(frozen=True, slots=True)
class TablePreview:
    """A table for records of the sample."""

    identifier: str
    action: str
    """``create``, ``change`` or ``keep``."""
    topics: tuple[str, ...]
    ddl: tuple[str, ...]
    columns: tuple[ColumnPreview, ...]
    primary_key: tuple[str, ...]
    bucket_mode: str
    bucket_reason: str
    policies: Mapping[str, str]
    row_count: int
    """Rows that the sample makes."""
    rows: tuple[Mapping[str, Any], ...]
    """The first rows, as they would be stored."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BadKindPreview:
    """Records of the sample that would go to quarantine for one kind of reason."""

    topic: str
    count: int
    reason: str
    """The reason of the first record."""
    first: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The findings in the sample."""

    tables: tuple[TablePreview, ...] = ()
    quarantine: tuple[BadKindPreview, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    skipped_tables: Mapping[str, int] = field(default_factory=dict)
    """Source tables that no rule takes, in words, and how many records of the sample are theirs."""
    paused: Mapping[str, str] = field(default_factory=dict)
    """Tables that would be paused, and why."""
    error: str | None = None
    """The error that would stop the pipeline."""
    notes: tuple[str, ...] = ()
    """Other warnings of a run."""

    @property
    def has_changes(self) -> bool:
        return any(table.action != "keep" for table in self.tables)


@dataclass(slots=True)
class _Seen:
    """The observations of the decode tasks."""

    observations: list[Observation] = field(default_factory=list)

    def note(self, reports: Sequence[DecodeReport]) -> None:
        self.observations += [o for report in reports for o in report.observations]


def preview(config: PipelineConfig, sample: Sample) -> Preview:
    """Try the sample; bad records go to quarantine even under ``on_bad_record: fail``, and are reported."""
    seen, error, real = _Seen(), None, catalog_of(config)
    rules: dict[str, TargetRule] = {}
    given, config = config, _as_run(config, real)
    tried = config.model_copy(update={"source": config.source.model_copy(update={"on_bad_record": "quarantine"})})
    with tempfile.TemporaryDirectory(prefix="tidemark-plan-") as directory, kept_warnings() as warnings:
        own = catalog_of(in_directory(tried, Path(directory)))
        pipeline = TrialPipeline(tried, Path(directory), SeededCatalog(own, real), seen.note)
        try:
            pipeline.routes.own.choose(_formats(config, real))
            for batch in sample.batches:
                pipeline.run(batch)
            rules |= dict(_follow_rules(config, pipeline))
        except TidemarkError as stopped:
            error = str(stopped)
        tables = tuple(_tables(config, pipeline, real, rules, seen.observations))
        unfilled = _unfilled(config, sample, tables, pipeline)
        tables = tuple(t for t in tables if t.identifier not in unfilled or not sample.finished.issuperset(t.topics))
        bad = _bad_kinds(pipeline)
        if error is None:
            met = {**dict.fromkeys(_own(config, real).sources()), **pipeline.routes.met}
            warnings += unmatched(given, met, sample.counts)
        if unfilled:
            checkpoint = Checkpoint(config)
            warnings.append(unfilled_words(unfilled, PausedTables(Book(checkpoint), checkpoint).next_batch[0]))
        told = [error or "", *pipeline.paused.values(), *(kind.reason for kind in bad)]
        left = sum((Counter(report.skipped) for report in pipeline.reports), Counter[SourceTable]())
        return Preview(
            tables,
            bad,
            dict(pipeline.skipped),
            {source_words(as_fed(source)): count for source, count in left.most_common()},
            dict(pipeline.paused),
            error,
            tuple(line for line in warnings if not _is_told(line, told)),
        )


def _is_told(line: str, told: Iterable[str]) -> bool:
    """Whether a warning repeats a reason, also after the name of a topic."""
    reason = kind_of_reason(line.partition(": ")[2])
    return any(bool(text) and (text in line or (bool(reason) and reason in text)) for text in told)


def _formats(config: PipelineConfig, real: Catalog) -> Mapping[str, str]:
    """The formats that a checkpoint stores: a run uses them whatever the records look like now.

    Without a checkpoint, a run would choose again.
    """
    if not config.source.format.traits.finds_formats:
        return {}
    return _own(config, real).formats


def _as_run(config: PipelineConfig, real: Catalog) -> PipelineConfig:
    """The pipeline with the rules of tables that continue others."""
    try:
        return with_continued(config, _own(config, real).continuations)
    except TidemarkError:
        return config  # the trial meets the error too, and shows it


def _own(config: PipelineConfig, real: Catalog) -> OwnTables:
    """The tables that a run would find."""
    return OwnTables(config, real, CheckpointRecord(config, Checkpoint(config), real))


def _follow_rules(config: PipelineConfig, pipeline: TrialPipeline) -> Iterator[tuple[str, TargetRule]]:
    """Change the tables that no record came for as their rules say, as a start does; gives their rules."""
    catalog, own = pipeline.catalog, _own(config, catalog_of(config))
    assert catalog is not None
    tried = pipeline.tables
    for found in own.written(lambda _name, _error: None):
        if str(found.name) in tried:
            continue
        table = catalog.load(found.name)
        rule = rule_of_found(config, found, table)
        if rule is not None:
            rule_plan(config, rule, table, str(found.name)).published()
            yield str(found.name), rule


def _tables(
    config: PipelineConfig,
    pipeline: TrialPipeline,
    real: Catalog,
    rules: Mapping[str, TargetRule],
    observations: Collection[Observation],
) -> Iterable[TablePreview]:
    """``rules`` are the rules of tables without a record in the sample."""
    sources: dict[str, list[SourceTable]] = defaultdict(list)
    for source, identifier in pipeline.routes.routes.items():
        if identifier is not None:
            sources[identifier].append(source)
    origins = _origins(observations)
    for identifier, table in pipeline.tables.items():
        before = real.find(TableName.of(identifier))
        if identifier not in sources and before is not None and before.schema.id == table.schema.id:
            continue  # no record of the sample belongs to it, and its rule changes nothing
        fed_by = sorted(sources.get(identifier, ()), key=lambda source: source.topic)
        rule = next((found for s in fed_by if (found := _rule_of(config, s)) is not None), rules.get(identifier))
        shown = _table(identifier, table, before, rule, fed_by, origins)
        if len(fed_by) > 1:
            shown = replace(shown, notes=(*shown.notes, *conflicts(table.schema, rule, {*fed_by}, observations)))
        yield shown


def _unfilled(
    config: PipelineConfig, sample: Sample, tables: Iterable[TablePreview], pipeline: TrialPipeline
) -> list[str]:
    """New tables that miss records of their topics, because the pipeline read these before."""
    late = [t.identifier for t in tables if t.action == "create" and not sample.passed.isdisjoint(t.topics)]
    if not late:
        return []
    others = {*Book(Checkpoint(config)).tables}
    for source, identifier in pipeline.routes.routes.items():
        rule = _rule_of(config, source)
        if identifier is not None and rule is not None and rule.backfill:
            others.add(identifier)
    return [identifier for identifier in late if identifier not in others]


def _rule_of(config: PipelineConfig, source: SourceTable) -> TargetRule | None:
    return config.rule_for(source.database, source.schema, source.table, source.topic)


def _table(
    identifier: str,
    table: Table,
    real: Table | None,
    rule: TargetRule | None,
    fed_by: Sequence[SourceTable],
    origins: Mapping[SourceTable, Mapping[str, str]],
) -> TablePreview:
    declared = {} if rule is None else rule.declared(table.schema.column_names)
    told = None if rule is None else rule.for_table(table.schema)
    of_log = set() if told is None else {name for name, _ in told.event_columns}
    of_history = set() if told is None else {name for name, _ in told.own_columns} - of_log

    def origin(name: str) -> str:
        if name in declared:
            return "declared"
        if name in of_log:
            return "event log"
        if name in of_history:
            return "history"
        return next((origins[s][name] for s in fed_by if name in origins.get(s, {})), "")

    notes = {f.name: origin(f.name) for f in table.schema.fields}
    if real is None:
        ddl = create_table(identifier, table.schema, notes)
    else:
        ddl = alter_table(identifier, real.schema, table.schema, notes)
    rows = table.to_arrow()
    shown = [f for f in table.schema.fields if real is None or _differs(real, f.name, table)]
    return TablePreview(
        identifier,
        "create" if real is None else "change" if ddl else "keep",
        tuple(dict.fromkeys(source.topic for source in fed_by)),
        tuple(ddl),
        tuple(ColumnPreview(f.name, sql(f.type), n := notes[f.name], n.partition(_LOOKS)[2] or None) for f in shown),
        tuple(table.schema.primary_keys),
        bucket_mode(table.schema, table.options).value,
        _bucket_reason(table, rule, is_new=real is None),
        {} if rule is None else _policies(rule),
        rows.num_rows,
        tuple(plain_rows(rows.slice(0, SAMPLE_ROWS))),
        tuple(_notes(table, fed_by, origins)),
    )


def _differs(real: Table, name: str, table: Table) -> bool:
    return not real.schema.has_column(name) or real.schema.field(name).type != table.schema.field(name).type


def _origins(observations: Iterable[Observation]) -> dict[SourceTable, dict[str, str]]:
    """The origin of each column's type in a source table, if no rule declares it."""
    observations = list(observations)
    told = {(o.source, c.name) for o in observations for c in (*o.columns, *o.key_only) if c.votes is not None}
    found: defaultdict[SourceTable, dict[str, str]] = defaultdict(dict)
    for source, seen in merged(observations).items():
        for name, t in {**seen.columns, **seen.key_only}.items():
            look = seen.looks.get(name)
            if (source, name) in told:
                found[source][name] = "schema of the records"
            elif t is not None:
                found[source][name] = "guessed from values" + (f"{_LOOKS}{look}" if look else "")
            else:
                found[source][name] = _ONLY_NULLS
    return found


_ONLY_NULLS = "only NULLs"
_LOOKS = ", which look like "


def _notes(
    table: Table, fed_by: Sequence[SourceTable], origins: Mapping[SourceTable, Mapping[str, str]]
) -> Iterable[str]:
    for source in fed_by:
        for name, origin in origins.get(source, {}).items():
            if origin == _ONLY_NULLS and not table.schema.has_column(name):
                yield f"column {name} of {source.topic} has only NULLs in the sample: the first value adds it"


def _bucket_reason(table: Table, rule: TargetRule | None, *, is_new: bool) -> str:
    number = table.schema.options.get(BUCKET, "")
    if not is_new or rule is None:
        return f"'bucket' = {number}, as in the table"
    rule = rule.for_table(table.schema)
    who = "no option of the file says otherwise" if BUCKET in rule.assumed_options else "as the file says"
    if rule.is_log_assumed:
        who = "the table has no primary key; 'bucket' of the file is for tables with one"
    return f"'bucket' = {number}, {who}"


def _policies(rule: TargetRule) -> Mapping[str, str]:
    new = rule.new_columns
    limit = "no limit" if rule.max_bad_records is None else str(rule.max_bad_records)
    return {
        "on_table_failure": rule.on_table_failure,
        "max_bad_records": limit,
        "new_columns": f"{new.max_per_day} a day, then {new.beyond}",
        **({} if rule.on_change is None else {"on_change": rule.on_change}),
    }


def _bad_kinds(pipeline: TrialPipeline) -> tuple[BadKindPreview, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    firsts: dict[tuple[str, str], tuple[str, str]] = {}
    for line in pipeline.quarantined:
        kind = line.topic, kind_of_reason(line.reason)
        counts[kind] += 1
        place = f"{line.topic} partition {line.partition} offset {line.offset}"
        firsts.setdefault(kind, (line.reason, place))
    return tuple(BadKindPreview(kind[0], count, *firsts[kind]) for kind, count in counts.most_common())
