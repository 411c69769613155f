"""The report of a decode task to the driver, and the kinds of reasons for bad records."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.changes import (
    ControlRecord,
    DecodeCounts,
    NewestRow,
    Observation,
    QuarantineRow,
    Refusal,
    SourceTable,
    TopicLook,
    Truncation,
)
from sources.positions import ReadOffsets

BadKind: TypeAlias = tuple[str, SourceTable | None, str]
"""Topic of bad records, the source table that they name, and the kind of reason."""

RecordAt: TypeAlias = tuple[str, int, int, int | None]
"""Topic, partition, offset and time (ms) of a record."""


@dataclass(slots=True)
class DecodeReport:
    """The report of one decode task; travels to the driver with the blobs."""

    read: dict[tuple[str, int], ReadOffsets] = field(default_factory=dict)
    """The ranges read, per (topic, partition)."""
    newest_s: dict[tuple[str, int], float] = field(default_factory=dict)
    """The newest time of those records, if they have one."""
    event_times_ms: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """Per target, topic and partition the newest event time, if the target has a watermark."""
    events: Counter[int] = field(default_factory=Counter)
    """Records that gave rows, per target."""
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    """The first offset read of each; recorded with the gaps."""
    gaps: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """The missing offsets (begin, end) inside the ranges read; recorded only on request."""
    record_count: int = 0
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    moved_count: int = 0
    """Rows that need values from a row under another key, which may be in another bucket."""
    stretch_count: int = 0
    """The numbers of records that went to quarantine."""
    bad_files: list[tuple[str, list[RecordAt]]] = field(default_factory=list)
    """The files that went to quarantine, by name, and the sources of their records."""
    good: dict[int, list[RecordAt]] = field(default_factory=dict)
    """Per target the records that it gets and that may be open in the quarantine."""
    first_quarantined: QuarantineRow | None = None
    bad_kinds: Counter[BadKind] = field(default_factory=Counter)
    """Bad records by their source and their fault."""
    bad_places: dict[tuple[str, SourceTable | None], tuple[int, int]] = field(default_factory=dict)
    """Partition and offset of the first bad record of each."""
    bad_looks: dict[tuple[str, SourceTable | None], str] = field(default_factory=dict)
    """The look of the record."""
    skipped: Counter[SourceTable] = field(default_factory=Counter)
    """Records of source tables that the pipeline leaves out."""
    taken: Counter[SourceTable] = field(default_factory=Counter)
    """Records that gave rows."""
    observations: list[Observation] = field(default_factory=list)
    newest: dict[tuple[SourceTable, int], NewestRow] = field(default_factory=dict)
    """Per source table and partition."""
    control: dict[tuple[str, str], ControlRecord] = field(default_factory=dict)
    """The first control record of each topic and kind."""
    looks: list[TopicLook] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    truncations: list[Truncation] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """Next offset after the records read, per (topic, partition)."""
        return {place: read.end for place, read in self.read.items()}


def note_gaps(batch: pa.RecordBatch, report: DecodeReport) -> None:
    """Call before the new ends are recorded: the ends of the previous batch count."""
    places = pa.table({name: batch.column(name) for name in ("topic", "partition")})
    distinct = places.group_by(["topic", "partition"], use_threads=False).aggregate([]).to_pylist()
    all_offsets = np.asarray(batch.column("offset"))
    for place in [(row["topic"], row["partition"]) for row in distinct]:
        offsets = all_offsets
        if len(distinct) > 1:
            is_of = pc.and_(pc.equal(batch.column("topic"), place[0]), pc.equal(batch.column("partition"), place[1]))
            offsets = all_offsets[np.asarray(is_of)]
        report.begins.setdefault(place, int(offsets[0]))
        before = report.read[place].end if place in report.read else offsets[0]
        follow = np.concatenate([[before - 1], offsets])
        at = np.flatnonzero(np.diff(follow) > 1)
        report.gaps.setdefault(place, []).extend(zip((follow[at] + 1).tolist(), follow[at + 1].tolist(), strict=True))


def note_read(batch: pa.RecordBatch, report: DecodeReport) -> None:
    columns = {name: batch.column(name) for name in ("topic", "partition", "offset")}
    # As numbers: Kafka accepts times that Python's dates do not cover.
    columns["time_us"] = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    places = pa.table(columns).group_by(["topic", "partition"], use_threads=False)
    for row in places.aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count"), ("time_us", "max")]
    ).to_pylist():
        place = (row["topic"], row["partition"])
        read = ReadOffsets(row["offset_min"], row["offset_max"] + 1, row["offset_count"])
        report.read[place] = report.read[place] + read if place in report.read else read
        if row["time_us_max"] is not None:
            report.newest_s[place] = max(report.newest_s.get(place, -math.inf), row["time_us_max"] / 1e6)


def add_seconds(report: DecodeReport, name: str, seconds: float) -> None:
    """Add the duration of a part of the work."""
    report.seconds[name] = report.seconds.get(name, 0.0) + seconds


_VALUES = re.compile(
    r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'|$)(?:, '(?:[^'\\]|\\.)*(?:'|$))*|"(?:[^"\\]|\\.)*(?:"|$)|\b(?:true|false)\b"""
    r"""|(?P<name>[A-Z]+\(\d+(?:, \d+)?\)|[^\W\d][\w./-]*|/[\w./-]+)|[-+]?\d[\d.:eETZ+-]*""",
    re.DOTALL,
)
"""Matches texts in quotes, also without an end, lists of them, truth values, and numbers.

Names, types and paths are not values: the digits in them belong to a column, a table, a topic or a file.
"""

_PLACE = re.compile(r"^byte \d+ of .*?: ")
"""The place of a line in a dump, shortened: a long path would leave no room for the reason."""

_KIND_LENGTH = 400
"""The space for a problem and its remedy; it limits the length of names and foreign messages in a reason."""


def kind_of_reason(reason: str) -> str:
    """The reason of one record without the record's values; the same for records with the same kind of fault."""
    kind = _VALUES.sub(lambda found: found["name"] or "...", _PLACE.sub("byte ...: ", reason))
    return kind if len(kind) <= _KIND_LENGTH else kind[: _KIND_LENGTH - 3] + "..."
