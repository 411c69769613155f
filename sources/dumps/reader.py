"""A pipeline's reading of dump files: checks before Spark starts, Spark's stream, and descriptions of the input."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import ConfigError, TidemarkError
from sources.dumps.dump_file import head_text
from sources.dumps.dump_lines import NoRecord, record_of_line
from sources.dumps.dump_source import DUMP_ENDINGS, DumpPlanner, DumpReader, dump_files, unread_files
from sources.dumps.settings import DumpSettings
from sources.dumps.slices import DumpSlices
from sources.lag import Lag
from sources.loss import Losses
from sources.pace import Pace
from sources.planned_stream import planned_stream
from sources.positions import Place, Positions, Reading
from sources.reader import OnStart, ReadHere, Standing
from sources.topics import TopicSelection
from sources.wording import NAMES_SHOWN, counted, first_of

log = logging.getLogger(__name__)

_LOOK_BYTES = 1 << 20
_LOOK_LINES = 100


class DumpFilesReader:
    """The ``SourceReader`` of dump files."""

    is_drained_by_spark = False
    begin_words = "begins at the earliest record"
    failure: TidemarkError | None = None
    silent_s: float | None = None
    wants_readings = False
    group_failure_count = 0
    read_here: ReadHere | None = None

    def __init__(self, settings: DumpSettings, standing: Standing) -> None:
        self._settings = settings
        self._standing = standing
        self.losses = Losses()
        self.share_reader = DumpReader(settings.topics)
        self.lag = Lag()
        self._planner: DumpPlanner | None = None
        self.why_nothing: str | None = None

    @property
    def unread_bytes(self) -> int | None:
        """See ``SourceReader``; None before the query has listed the files, and while the storage does not answer."""
        with suppress(OSError):
            return None if self._planner is None else self._planner.unread_bytes
        return None

    @property
    def unfinished(self) -> Sequence[str]:
        """See ``SourceReader``."""
        missing = no_file_words(self._settings.path)
        words = () if self._planner is None else self._planner.unfinished.words
        return words if missing is None else (missing, *words)

    def note_read(self, topics: Collection[str]) -> None:
        """Topics of files have no ids."""

    def read_to(self, offsets: Positions, newest_s: Mapping[Place, float]) -> None:
        """Files have no end to compare with: more may come."""

    def check(self) -> None:
        """Check that there is something to read, or a directory. Logs other content of the directory."""
        missing = no_file_words(self._settings.path)
        if self._standing.is_new and missing is not None:
            raise ConfigError(missing)
        self._tell_unread()

    def stream(self, spark: SparkSession, slots: int, on_start: OnStart, pace: Pace, interval_s: float) -> DataFrame:
        """See ``SourceReader``; decode tasks read the records, which never pass through the JVM."""
        files = dump_files(self._settings.path)
        self.why_nothing = f"source.files.path: {self._settings.path} has no dump file" if not files else None
        if self._standing.is_new and files:
            self.why_nothing = no_topic_words(self._settings.topics, files)
        on_start(files_words(self._settings.path, files), False)
        self._planner = DumpPlanner(self._settings, lambda: pace.records)
        return planned_stream(spark, "dumps", self._planner, interval_s)

    def _tell_unread(self) -> None:
        path = self._settings.path
        unread = unread_files(path)
        if unread:
            log.warning(
                "%s: in %s Tidemark does not read these: %s. In a directory it reads files with names that end in %s; "
                "a glob such as %s/**/*.jsonl reads others too",
                self._standing.pipeline,
                path,
                ", ".join(first_of(unread, NAMES_SHOWN)),
                ", ".join(DUMP_ENDINGS),
                path.rstrip("/"),
            )

    def check_read(self, planned: Mapping[Place, tuple[int, int]], readings: Sequence[Reading]) -> None:
        """Nothing to check: the files of a batch exist, or its tasks fail."""

    def attach(self, spark: SparkSession) -> None:
        """Files need no session."""

    def slices(self) -> DumpSlices:
        return DumpSlices(self._settings, self._standing.ends)

    def explained(self, text: str) -> TidemarkError | None:
        """Failures of dump files already have Tidemark's own words."""
        return None

    def stop(self) -> None:
        """Nothing runs alongside the query."""


def no_file_words(path: str) -> str | None:
    """The mistake of a path or pattern without files; None for a directory, into which files may come."""
    if dump_files(path) or os.path.isdir(path):
        return None
    return f"source.files.path: no file matches {path}; correct the path, or write the files first"


def no_topic_words(topics: TopicSelection, files: Sequence[tuple[str, str]]) -> str | None:
    """Why nothing is read if all records of the files are excluded; None if their beginnings are included.

    Only the beginnings of some files are read: they show topics that exist, and not those that are missing.
    """
    if topics.is_everything:
        return None
    found = sorted({topic for _, file in files[:NAMES_SHOWN] for topic in _first_topics(file)})
    if not found or any(map(topics.selects, found)):
        return None
    kind = "topic" if len(found) == 1 else "topics"
    told = ", ".join(f"'{topic}'" for topic in first_of(found, NAMES_SHOWN))
    return f"source.files.topics selects no record of the files, which begin with {kind} {told}; correct it"


def _first_topics(file: str) -> Iterator[str]:
    """The topics of the first records of a file; empty for an unreadable file, which the stream will report."""
    text = b""
    with suppress(OSError, TidemarkError):
        text = head_text(file, _LOOK_BYTES)
    for line in text.splitlines()[:_LOOK_LINES]:
        with suppress(NoRecord):
            yield record_of_line(line).topic


def files_words(path: str, files: Sequence[tuple[str, str]]) -> str:
    """``3 files, 1.2 MB (a.jsonl, b.jsonl)``, from (name, path) pairs; ``path`` is the configured path."""
    if not files:
        return f"no file of {path} yet"
    size_bytes = sum(os.path.getsize(file) for _, file in files)
    names = [os.path.basename(file) for _, file in files]
    return f"{counted(len(files), 'file')}, {size_bytes / 1e6:,.1f} MB ({', '.join(first_of(names, NAMES_SHOWN))})"
