"""Ranges of dump files read again, between positions that the stream has passed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import ConfigError, CorruptFile
from sources.dumps.dump_file import DumpFile, FilePosition, advanced
from sources.dumps.dump_source import DumpPlanner, Positions, dump_files, offset_text, positions_of
from sources.dumps.settings import DumpSettings
from sources.planned_stream import SHARE
from sources.positions import Place
from sources.slices import Slice


class DumpSlices:
    """The ``SliceReader`` of dump files. Reads records of all topics: files are not sorted by topic."""

    def __init__(self, settings: DumpSettings, ends: Callable[[], Sequence[str]] = tuple) -> None:
        """``ends`` gives the ends of the last batches of the stream, oldest first."""
        self._settings = settings
        self._ends = ends

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        """See ``SliceReader``; in the order in which the stream read them, within a batch by file name.

        Lines of batches whose ends Spark no longer keeps come first, as if one batch had read them.
        """
        for end in self._ends():
            piece = self._next_before(begin, self.earlier(end, limit), most_records)
            if piece is not None:
                return piece
        return self._next_before(begin, limit, most_records)

    def _next_before(self, begin: str | None, limit: str, most_records: int) -> Slice | None:
        begins, limits = _of(begin), positions_of(limit)
        paths = dict(dump_files(self._settings.path))
        ends = dict(begins)
        left = most_records
        for name, last in sorted(limits.items()):
            first = begins.get(name, FilePosition())
            if left <= 0 or last.bytes <= first.bytes:
                continue
            if name not in paths:
                raise CorruptFile(
                    f"dump file {name} of {self._settings.path} is missing, but it was read before: restore it"
                )
            ends[name] = last if last.records - first.records <= left else _cut(paths[name], first, left)
            left -= ends[name].records - first.records
        return Slice(offset_text(begins), offset_text(ends)) if ends != begins else None

    def topics(self, position: str) -> frozenset[str] | None:
        """Files do not show which topics they have; without files there are none."""
        return None if positions_of(position) else frozenset()

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        begins = _of(begin)
        return sum(
            max(0, last.records - begins.get(name, FilePosition()).records)
            for name, last in positions_of(limit).items()
        )

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        """Empty: ``next`` fails for files that were read and are missing."""
        return None

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        raise ConfigError("dump files are not ordered by time: replay them from the earliest record")

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        """Files come in any order, whatever the offsets of their records."""
        return None

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return None

    def earlier(self, position: str, other: str) -> str:
        named, ends = positions_of(position), positions_of(other)
        return offset_text({name: min(named[name], at, key=_bytes) for name, at in ends.items() if name in named})

    def ends(self, topics: Collection[str]) -> Mapping[Place, int]:
        return {}

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        planner = DumpPlanner(self._settings)
        shares = planner.shares(offset_text(_of(piece.begin)), piece.end)
        return spark.createDataFrame([(bytearray(share),) for share in shares], f"{SHARE} binary not null")


def _bytes(position: FilePosition) -> int:
    return position.bytes


def _of(begin: str | None) -> Positions:
    return {} if begin is None else positions_of(begin)


def _cut(path: str, first: FilePosition, most_records: int) -> FilePosition:
    file = DumpFile(path)
    try:
        return advanced(file, first, most_records)
    finally:
        file.close()
