"""A sample of a pipeline's source: of Kafka from where a run would begin, of dump files from their begin."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from paimon_table.errors import ConfigError, TidemarkError
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.trial.prerequisites import Finding
from sources.kafka.settings import KafkaSettings
from sources.samples import Sample


@dataclass(frozen=True, slots=True)
class SampledSource:
    """The records that could be read, and the parts that could not."""

    sample: Sample = field(default_factory=lambda: Sample((), {}))
    findings: tuple[Finding, ...] = ()
    is_refused: bool = False
    """Whether a run refuses the file, because a topic that it lists is missing."""


def sampled(config: PipelineConfig, most: int) -> SampledSource:
    """At most ``most`` records of each topic. Raises what reading the source fails with as a whole."""
    if config.source.kafka is not None:
        return _of_kafka(config, config.source.kafka.settings, most)
    files = config.source.files
    assert files is not None
    from sources.dumps.dump_source import dump_files
    from sources.dumps.sampling import dump_sample

    if not dump_files(files.settings.path) and not os.path.isdir(files.settings.path.removeprefix("file://")):
        text = f"source.files.path: no file matches {files.settings.path}; correct the path, or write the files first"
        return SampledSource(findings=(Finding("error", text),))
    try:
        sample = dump_sample(files.settings, most)
        if sample.record_count:
            return SampledSource(sample)
        what = (
            "no record" if files.settings.topics.is_everything else "no record of the topics under source.files.topics"
        )
        text = f"source.files.path: {what} is in {files.settings.path}; correct path or topics, or wait for records"
        return SampledSource(sample, (Finding("warning", text),))
    except OSError as error:
        raise ConfigError(f"source.files.path: a file cannot be read: {error}; check its permissions") from error


def _of_kafka(config: PipelineConfig, kafka: KafkaSettings, most: int) -> SampledSource:
    from sources.kafka.sampling import KafkaSampler
    from sources.kafka.start_offsets import check_listed, no_topic_words

    sampler = KafkaSampler(kafka)
    known = sampler.topics()
    findings = []
    try:
        check_listed(kafka, known)
    except TidemarkError as error:
        findings.append(Finding("error", str(error)))
    is_refused = bool(findings)
    words = no_topic_words(kafka, known)
    if words is not None:
        findings.append(Finding("warning", f"{words}; the pipeline waits for a topic"))
    facts = sampler.facts({name: count for name, count in known.items() if kafka.topics.selects(name)})
    positions = Checkpoint(config).kafka_positions()
    begins = sampler.begins(facts) if positions is None else positions
    sample = sampler.sample(facts, most, begins)
    if positions is not None:
        passed = frozenset(topic for (topic, _), at in positions.items() if at > 0)
        finished = frozenset(topic for topic in passed & facts.keys() if facts[topic].is_finished(positions))
        sample = replace(sample, passed=passed, finished=finished)
    return SampledSource(sample, tuple(findings), is_refused)
