"""Looking at a source to begin a pipeline file with: its topics, their formats, and what their columns look like."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from paimon_table.errors import ConfigError
from pipelines.config.config_file import load_pipeline
from pipelines.config.kafka_checks import property_mistakes
from pipelines.config.yaml_hints import is_secret
from pipelines.trial.kept_warnings import kept_warnings
from pipelines.trial.preview import preview
from pipelines.trial.starter_file import Start, starter_file, variable_of
from sources.dumps.settings import DumpSettings
from sources.kafka.settings import KafkaSettings
from sources.samples import Sample
from sources.topic_formats import TopicFormat, topic_formats
from sources.topics import TopicSelection

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_NAMES_OF_OWN = re.compile(r"__.*|_schemas|connect-(?:configs|offsets|status)|.*-(?:configs|offsets|status)$")
"""Topics of Kafka, of schema registries and of Connect workers."""

SAMPLED = 200
"""The number of inspected records per topic."""


def start_from_kafka(servers: str, topics: TopicSelection, properties: Mapping[str, str], name: str) -> Start:
    """The topics of a cluster; raises ConfigError if none can be read."""
    from sources.kafka.sampling import KafkaSampler

    sampler = KafkaSampler(KafkaSettings(servers, topics, resolved(properties)))
    known = {n: count for n, count in sampler.topics().items() if _is_wanted(n, topics)}
    if not known:
        raise ConfigError(f"Kafka at {servers} has no topic to read, or this user may not see it; check --topics")
    sample = sampler.sample(sampler.facts(dict(sorted(known.items()))), SAMPLED)
    start = Start(name, {"bootstrap_servers": servers}, _formats(sample), properties)
    return _with_types(start, sample, f"Kafka at {servers}")


def start_from_files(path: str, topics: TopicSelection, directory: Path, name: str) -> Start:
    """The content of dump files; their path is written relative to the ``directory`` of the pipeline file."""
    from sources.dumps.sampling import dump_sample

    absolute = os.path.abspath(os.path.expanduser(path))
    try:
        sample = dump_sample(DumpSettings(absolute, topics), SAMPLED)
    except OSError as error:
        raise ConfigError(f"--files {path}: a file cannot be read: {error}; check its permissions") from error
    if not sample.counts:
        if not topics.is_everything:
            raise ConfigError(f"--files {path}: found no record of a topic that --topics matches; correct one of them")
        raise ConfigError(f"--files {path}: found no file with records; name a file, a directory or a glob")
    relative = os.path.relpath(absolute, directory.absolute())
    return _with_types(Start(name, {"path": relative}, _formats(sample)), sample, path)


def _formats(sample: Sample) -> list[TopicFormat]:
    found = topic_formats(sample.batches, sorted(sample.counts))
    return [
        replace(topic, format=None, words=sample.unreadable[topic.topic]) if topic.topic in sample.unreadable else topic
        for topic in found
    ]


def _is_wanted(topic: str, topics: TopicSelection) -> bool:
    return topics.selects(topic) and (not topics.is_everything or _NAMES_OF_OWN.fullmatch(topic) is None)


def _with_types(start: Start, sample: Sample, where: str) -> Start:
    """With what values look like, which a preview of the present file shows."""
    if start.format is None:
        seen = "; ".join(f"{topic.topic}: {topic.words}" for topic in start.topics[:5])
        raise ConfigError(
            f"{where} has no topic with a recognisable format ({seen}); write the file by hand, or write records first"
        )
    if start.format == "auto":
        return start  # the registry is not known yet
    with tempfile.TemporaryDirectory(prefix="tidemark-init-") as directory, kept_warnings():
        file = Path(directory) / "pipeline.yaml"
        file.write_text(starter_file(start), encoding="utf-8")
        variables = {**os.environ, **{variable_of(n): "set" for n in start.properties if is_secret(n)}}
        found = preview(load_pipeline(file, variables), sample)
    types: dict[str, dict[str, str]] = {}
    fed = Counter(topic for table in found.tables for topic in table.topics)
    for table in found.tables:
        for column in table.columns:  # of a topic with several tables, one rule cannot declare the columns of each
            if column.looks_like is not None and len(table.topics) == 1 and fed[table.topics[0]] == 1:
                types.setdefault(table.topics[0], {})[column.name] = column.looks_like
    return replace(start, types=types)


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with references to the environment replaced. Raises ConfigError for a variable that is not set."""
    found = {}
    for name, value in properties.items():
        for variable in _REFERENCE.findall(value):
            if variable not in os.environ:
                raise ConfigError(f"--property {name}: environment variable {variable} is not set; set it")
        found[name] = _REFERENCE.sub(lambda match: os.environ[match[1]], value)
    return found


def given_properties(words: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping."""
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise ConfigError("--property: expected NAME=VALUE, such as security.protocol=SSL")
        found[name] = value
    for name, text in property_mistakes(found):
        raise ConfigError(f"--property {name}: {text}")
    return found


def name_for(output: Path | None) -> str:
    """The name of the pipeline: the name of its file without `.yaml`, in the characters that a pipeline name may have.

    Dots stay: files named after topics (`crm.staff.yaml`, `crm.flat.yaml`) get different names and checkpoints.
    """
    name = "pipeline" if output is None else re.sub(r"\.ya?ml$", "", output.name)
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
    return name if re.match(r"[A-Za-z0-9]", name) else f"p{name}"


def write_file(output: Path, text: str, *, force: bool) -> None:
    """Write a new file. Raises ConfigError if it exists, unless it is to be replaced."""
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{output} exists already; --force replaces it") from None
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}; choose another place") from error
