"""What a pipeline is about to do, in one line before its first batch."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.config_values import duration_text
from pipelines.config.source_config import FilesSource

NAMES_SHOWN = 3


def kafka_words(servers: str, places: Collection[tuple[str, int]]) -> str:
    """``3 topics with 12 partitions of localhost:9092 (a, b, c)``, from (topic, partition) pairs."""
    topics = sorted({topic for topic, _ in places})
    if not topics:
        return f"no topic of {servers} yet"
    words = f"{_count(len(topics), 'topic')} with {_count(len(places), 'partition')} of {servers}"
    return f"{words} ({_listed(topics)})"


def files_words(source: FilesSource, files: Sequence[tuple[str, str]]) -> str:
    """``3 files, 1.2 MB (a.jsonl, b.jsonl)``, from (name, path) pairs."""
    size = sum(os.path.getsize(path) for _, path in files)
    if not files:
        return f"no file of {source.path} yet"
    return (
        f"{_count(len(files), 'file')}, {size / 1e6:,.1f} MB ({_listed([os.path.basename(path) for _, path in files])})"
    )


def check_files(source: FilesSource, files: Sequence[tuple[str, str]]) -> None:
    """Raise ConfigError when there is nothing to read and, because it is no directory, nobody would notice."""
    if not files and not os.path.isdir(source.path):
        raise ConfigError(
            f"source.files.path: no file matches {source.path}; correct the path, or write the files first"
        )


def start_line(config: PipelineConfig, reads: str, closed_batch: int | None, is_resuming: bool, once: bool) -> str:
    """The whole line: what is read, where reading begins, how often, where tables and checkpoint lie."""
    if closed_batch is not None:
        begins = f"goes on after batch {closed_batch}"
    elif is_resuming:
        begins = "new checkpoint, goes on from the positions in the tables"
    elif config.source.kafka is not None and not isinstance(config.source.kafka.start, str):
        begins = "new checkpoint, begins where source.kafka.start says"
    else:
        word = "earliest" if config.source.kafka is None else str(config.source.kafka.start)
        begins = f"new checkpoint, begins at the {word} record"
    often = "until all is read" if once else f"a batch every {duration_text(config.trigger.interval)}"
    return f"reads {reads}; {begins}; {often}; tables in {config.catalog.warehouse}, checkpoint {config.checkpoint}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown}, and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
