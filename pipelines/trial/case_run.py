"""Plays one case: its batches through the pipeline on trial, then the differences from the expectation."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from paimon_table import Table
from paimon_table.errors import TidemarkError
from paimon_table.row_kind import VALUE_KIND, RowKind
from pipelines.config.config import PipelineConfig
from pipelines.trial.avro_values import with_schemas
from pipelines.trial.case_checks import (
    Difference,
    FoundRecord,
    FoundTable,
    Outcome,
    differences,
    plain_rows,
    unread_topics,
)
from pipelines.trial.case_file import LoadedCase
from pipelines.trial.case_records import CaseRecords
from pipelines.trial.kept_warnings import kept_warnings
from pipelines.trial.trial_pipeline import TrialPipeline


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended."""

    loaded: LoadedCase
    seconds: float
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    """The pipeline's warnings during the case."""

    @property
    def name(self) -> str:
        return self.loaded.case.name

    @property
    def has_passed(self) -> bool:
        return not self.differences

    def place(self, difference: Difference) -> str:
        """FILE:LINE of the subject of a difference."""
        return f"{self.loaded.path}:{self.loaded.line(*difference.at)}"


def play(config: PipelineConfig, loaded: LoadedCase) -> CaseResult:
    """Run one case in a separate directory, which is removed afterwards.

    Raises ConfigError for a case whose records cannot be produced.
    """
    source, began_s = CaseRecords(loaded), time.monotonic()
    batches = list(source.batches())
    unread = unread_topics(source.topics, config.source.reader.settings.topics)
    if unread:
        return CaseResult(loaded, time.monotonic() - began_s, tuple(unread), ())
    with tempfile.TemporaryDirectory(prefix="tidemark-test-") as directory, kept_warnings() as warnings:
        if loaded.schemas:
            config = with_schemas(config, loaded.schemas.values(), Path(directory) / "schemas.json")
        pipeline, error = TrialPipeline(config, Path(directory)), None
        try:
            for records, is_killed in batches:
                (pipeline.run_killed if is_killed else pipeline.run)(records)
        except TidemarkError as stopped:
            error = str(stopped)
        found = differences(loaded.case.expect, outcome_of(pipeline, error))
    return CaseResult(loaded, time.monotonic() - began_s, tuple(found), tuple(warnings))


def outcome_of(pipeline: TrialPipeline, error: str | None) -> Outcome:
    quarantined = [FoundRecord(r.topic, r.partition, r.offset, r.reason) for r in pipeline.quarantined]
    tables = {name: _found(table) for name, table in pipeline.tables.items()}
    return Outcome(tables, quarantined, pipeline.skipped, pipeline.paused, error)


def _found(table: Table) -> FoundTable:
    changes: list[tuple[str, dict[str, object]]] = []
    for _, rows in table.changes():
        for row in plain_rows(rows):
            changes.append((RowKind(row.pop(VALUE_KIND)).short, row))
    rows = table.to_arrow()
    columns = {field.name: field.type for field in table.schema.fields}
    return FoundTable(columns, tuple(table.schema.primary_keys), rows.schema, plain_rows(rows), changes)
