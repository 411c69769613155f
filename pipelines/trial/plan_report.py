"""The output of `tidemark plan`: the preview of a pipeline for people, or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.report.safe_text import json_line
from pipelines.trial.prerequisites import Finding
from pipelines.trial.preview import Preview, TablePreview
from sources.samples import Sample
from sources.wording import counted, first_of, skip_words


@dataclass(frozen=True, slots=True)
class PlanReport:
    """All that a plan says."""

    config: PipelineConfig
    sample: Sample
    preview: Preview
    findings: Sequence[Finding]

    @property
    def has_failed(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)

    @property
    def policies(self) -> Mapping[str, str]:
        """The policies of the whole pipeline."""
        config = self.config
        found: dict[str, str] = {
            "on_bad_record": config.source.on_bad_record,
            "on_lost_checkpoint": config.on_lost_checkpoint,
        }
        if config.source.kafka is not None:
            found["on_data_loss"] = config.source.on_data_loss
        return {**found, "otherwise": config.otherwise.policy}

    @property
    def begin(self) -> str:
        """Where a run begins."""
        closed = Checkpoint(self.config).closed_batch
        return "begins with a new checkpoint" if closed is None else f"continues after batch {closed} of its checkpoint"


def as_document(report: PlanReport) -> dict[str, Any]:
    """The plan as plain data."""
    return {
        "pipeline": report.config.name,
        "begin": report.begin,
        "has_changes": report.preview.has_changes,
        "sample": {"records": report.sample.record_count, "topics": dict(report.sample.counts)},
        "policies": dict(report.policies),
        **asdict(report.preview),
        "prerequisites": [asdict(finding) for finding in report.findings],
    }


def as_lines(report: PlanReport) -> Iterator[str]:
    """The plan as text."""
    preview, sample = report.preview, report.sample
    yield f"Pipeline {report.config.name} {report.begin}; {_pairs(report.policies)}"
    yield f"{_sample_words(sample)}; nothing is written"
    for table in preview.tables:
        yield ""
        yield from _table_lines(table)
    if preview.quarantine:
        yield ""
        yield f"To quarantine: {counted(sum(kind.count for kind in preview.quarantine), 'record')} of the sample"
        yield from (f"  {k.count} of {k.topic}: {k.reason} (first: {k.first})" for k in preview.quarantine)
    if preview.skipped:
        yield ""
        yield f"Skipped of the sample: {', '.join(skip_words(preview.skipped))}"
    left = [f"{name}: {counted(count, 'record')}" for name, count in preview.skipped_tables.items()]
    yield from _block("Source tables that no rule matches:", first_of(left, _SKIPPED_SHOWN))
    yield from _block("Warnings of a run:", preview.notes)
    yield from _block("Prerequisites:", (f"{finding.level}: {finding.text}" for finding in report.findings))
    yield ""
    yield _summary(report)


_SKIPPED_SHOWN = 20


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = [f"  {line}" for line in lines]
    if found:
        yield from ("", title, *found)


def _sample_words(sample: Sample) -> str:
    total = sum(sample.counts.values())
    of = "" if sample.record_count >= total and sample.counts_all else f" of {total:,}"
    more = "" if sample.counts_all else " or more"
    topics = ", ".join(first_of(sorted(sample.counts), 5)) or "no topic"
    noun = "record" if sample.record_count == 1 and not of + more else "records"
    return f"Sample: {sample.record_count:,}{of}{more} {noun} from {topics}"


_ACTIONS = {"create": "Create", "change": "Change", "keep": "Keep"}


def _table_lines(table: TablePreview) -> Iterator[str]:
    yield f"{_ACTIONS[table.action]} table {table.identifier} from {', '.join(first_of(table.topics, 5))}"
    yield from (f"  {line}" for line in table.ddl)
    yield f"  buckets: {table.bucket_mode} ({table.bucket_reason})"
    if table.policies:
        yield f"  policies: {_pairs(table.policies)}"
    if table.rows:
        yield f"  rows as they would be stored, {len(table.rows)} of {table.row_count:,}:"
        yield from (f"    {json_line(row)}" for row in table.rows)
    yield from (f"  note: {note}" for note in table.notes)


def _pairs(words: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {word}" for name, word in words.items())


def _summary(report: PlanReport) -> str:
    actions = [table.action for table in report.preview.tables]
    made, changed, kept = (actions.count(action) for action in _ACTIONS)
    errors = sum(finding.level == "error" for finding in report.findings)
    text = f"{counted(made, 'table')} to create, {changed} to change, {kept} unchanged"
    return f"{text}; {counted(errors, 'prerequisite')} not met" if errors else text
