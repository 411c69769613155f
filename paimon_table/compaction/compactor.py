"""Merges sorted runs into a higher level, and writes the changelog files of the merge.

Implements Paimon's compaction task: sections, upgrade or rewrite, dropping deletes. Memory is bounded by the chunk
size, not by the size of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_table.compaction.chunk_merge import ChunkMerger, MergedChunk, newest_row_wins
from paimon_table.compaction.picker import CompactUnit
from paimon_table.compaction.row_ages import RowAges
from paimon_table.data_files.bucket_files import BucketFiles
from paimon_table.deletion_vectors.deletion_vector_index import BucketDeletions
from paimon_table.lookup.stored_rows import StoredRows
from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.levels import Levels, SortedRun
from paimon_table.mergetree.run_chunks import CHUNK_BYTES, Piece, ReadBatches, run_chunks
from paimon_table.mergetree.sections import Rewrite, Section, Step, Target, Upgrade, partition, plan_steps
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.options.file_settings import data_file_settings, format_of
from paimon_table.options.table_options import TableOptions

_MAX_OPEN_RUNS = 32
"""More runs than this are read from local copies, because every open Parquet file needs memory for a page of each
column."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The removed files, the added files, and the changelog files."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()

    def plus(self, other: CompactionResult) -> CompactionResult:
        """Both results, of steps that touch different files."""
        return CompactionResult(self.before + other.before, self.after + other.after, self.changelog + other.changelog)

    def then(self, later: CompactionResult) -> tuple[CompactionResult, tuple[DataFileMeta, ...]]:
        """This result followed by a later one, without entries of files that exist only in between.

        Also returns the files that are in no level any longer and were never published. A file that an upgrade moved
        still exists on another level, so it is not among them.
        """
        between = {_identity(f) for f in self.after} & {_identity(f) for f in later.before}
        combined = CompactionResult(
            self.before + tuple(f for f in later.before if _identity(f) not in between),
            tuple(f for f in self.after if _identity(f) not in between) + later.after,
            self.changelog + later.changelog,
        )
        alive = {f.file_name for f in (*self.before, *later.after)}
        return combined, tuple(f for f in self.after if _identity(f) in between and f.file_name not in alive)


def _identity(file: DataFileMeta) -> tuple[int, str]:
    return file.level, file.file_name


@dataclass(frozen=True, slots=True)
class _Job:
    """The facts for all steps of one unit."""

    output_level: int
    max_level: int
    drops_deletes: bool
    above: tuple[SortedRun, ...]
    """Runs on levels above the output."""
    published_level: int
    """The level whose rows are the state after the changelog of full compactions."""
    ages: RowAges
    """Which rows are left out because of their age, and which deletes stay although deletes are dropped."""

    @property
    def is_full(self) -> bool:
        """Whether the output is the highest possible level."""
        return self.output_level == self.max_level


@dataclass(slots=True)
class _RecentRows:
    """The rows written so far, unless they exceed the limit."""

    limit_bytes: int
    tables: list[pa.Table] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, rows: pa.Table) -> None:
        self.size_bytes += rows.nbytes
        if self.size_bytes <= self.limit_bytes:
            self.tables.append(rows)
        else:
            self.tables.clear()

    def all(self) -> pa.Table | None:
        """All added rows; None if they exceeded the limit."""
        return pa.concat_tables(self.tables) if self.tables else None


class Compactor:
    """Compacts units of one bucket, with the changelog if the table's producer is lookup or full-compaction."""

    def __init__(
        self,
        files: BucketFiles,
        merger: ChunkMerger,
        order: KeyOrder,
        options: TableOptions,
        stored: StoredRows,
        deletions: BucketDeletions,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """``chunk_bytes`` bounds the rows loaded at a time, because looked-up and published rows need memory too."""
        self._files = files
        self._merger = merger
        self._order = order
        self._options = options
        self._stored = stored
        self._deletions = deletions
        self._chunk_bytes = chunk_bytes

    def run(self, unit: CompactUnit, levels: Levels, ages: RowAges) -> CompactionResult:
        """Compact the unit, which has the newest runs of ``levels``; new files are durable after ``FileIO.sync``."""
        small_file_bytes = int(self._options.target_file_size_bytes * self._options.small_file_ratio)
        job = _Job(
            unit.output_level,
            levels.max_level,
            # With deletion vectors, no live row above the output remains for a delete to hide.
            drops_deletes=unit.output_level >= levels.highest_level or self._options.deletion_vectors,
            above=tuple(run for run in levels.runs() if run.level > unit.output_level),
            published_level=levels.published_level,
            ages=ages,
        )
        result = CompactionResult()
        target = Target(unit.output_level, levels.max_level, small_file_bytes, ages.has_expired, ages.may_have_gone)
        if unit.rewrites_each:
            steps: Sequence[Step] = [Rewrite((((file,),),)) for file in unit.files]
        else:
            steps = plan_steps(partition(unit.files, self._order.file_key), target)
        for step in steps:
            done = self._upgrade(step.file, job) if isinstance(step, Upgrade) else self._rewrite(step, job)
            result = result.plus(done)
        return result

    # ------------------------------------------------------------ how the table compacts

    def _merge(self, pieces: Sequence[Piece], levels: Iterable[int], job: _Job) -> MergedChunk:
        """Merge one chunk of a step that reads files of these levels."""
        if self._publishes_top(levels, job):
            return self._merger.merge_to_top(pieces, job.published_level)
        if self._options.needs_lookup and 0 in levels:
            return self._merger.merge_looking_up(pieces, job.above, job.ages)
        return self._merger.merge(pieces)

    def _has_changelog(self, levels: Iterable[int], job: _Job) -> bool:
        """Whether a step that reads files of these levels publishes its changes."""
        by_lookup = self._options.changelog_producer == "lookup" and 0 in levels
        return by_lookup or self._publishes_top(levels, job)

    def _publishes_top(self, levels: Iterable[int], job: _Job) -> bool:
        has_new = any(level != job.published_level for level in levels)
        return has_new and job.is_full and self._options.changelog_producer == "full-compaction"

    def _must_merge(self, file: DataFileMeta, job: _Job) -> bool:
        """Whether rows of a file must not move to the output level unchanged.

        Rows on levels above may win over them or change them. They may be deletes that must mark older rows, or have
        another format than the files of that level.
        """
        if not self._options.needs_lookup or file.level > 0:
            return False
        if self._options.deletion_vectors and file.delete_row_count != 0:
            return True
        if self._options.deletion_vectors and not job.ages.is_all_live(file):
            return True  # its deletes would stay and mark no old rows
        if format_of(file.file_name) != data_file_settings(self._options, job.output_level).format:
            return True
        return not job.is_full and not newest_row_wins(self._options)

    def _replaces(self, levels: Iterable[int], job: _Job) -> bool:
        """Whether a step with files of these levels marks old rows above the output as deleted."""
        return self._options.deletion_vectors and 0 in levels and bool(job.above)

    # ------------------------------------------------------------ steps

    def _upgrade(self, file: DataFileMeta, job: _Job) -> CompactionResult:
        """Move a file to the output level and publish its changes; rewrites it if an older row may win."""
        if self._must_merge(file, job):
            return self._rewrite(Rewrite((((file,),),)), job)
        is_compared = self._has_changelog({file.level}, job) or self._replaces({file.level}, job)
        changelog = self._publish_changes(file, job) if is_compared else ()
        return CompactionResult((file,), (file.at_level(job.output_level),), changelog)

    def _publish_changes(self, file: DataFileMeta, job: _Job) -> tuple[DataFileMeta, ...]:
        """Write the changelog of an unchanged file, and mark the rows that it replaces as deleted."""
        recent = _RecentRows(self._chunk_bytes)
        with self._files.changelog_writer(job.output_level, FileSource.APPEND) as changelog:
            for pieces in self._chunks(((file,),), self._chunk_bytes_of({file.level}, job), job):
                merged = self._merge(pieces, {file.level}, job)
                if merged.changelog is not None:
                    changelog.write(merged.changelog)
                for piece in pieces:
                    recent.add(piece.rows)
            written = changelog.close()
        rows = recent.all()
        if rows is not None and rows.num_rows == file.row_count:
            self._remember((file,), rows)
        return written

    def _rewrite(self, step: Rewrite, job: _Job) -> CompactionResult:
        """Merge the files of the step into new ones on the output level."""
        levels = {file.level for file in step.files}
        chunk_bytes = self._chunk_bytes_of(levels, job)
        recent = _RecentRows(self._chunk_bytes)
        with ExitStack() as stack:
            data = stack.enter_context(self._files.data_writer(job.output_level, FileSource.COMPACT))
            changelog = stack.enter_context(self._files.changelog_writer(job.output_level, FileSource.APPEND))
            for section in step.sections:
                for pieces in self._chunks(section, chunk_bytes, job):
                    merged = self._merge(pieces, levels, job)
                    if merged.changelog is not None:
                        changelog.write(merged.changelog)
                    rows = job.ages.remaining(merged.rows) if job.drops_deletes else merged.rows
                    data.write(rows)
                    recent.add(rows)
            result = CompactionResult(step.files, data.close(), changelog.close())
        for file in step.files:
            self._deletions.forget(file.file_name)
        self._remember(result.after, recent.all())
        return result

    def _chunk_bytes_of(self, levels: Iterable[int], job: _Job) -> int:
        """The size of the rows to load at a time, so that the total with found and published rows stays bounded."""
        looks_up = self._options.needs_lookup and 0 in levels and bool(job.above)
        return self._chunk_bytes >> (looks_up + self._has_changelog(levels, job))

    def _chunks(self, section: Section, chunk_bytes: int, job: _Job) -> Iterator[list[Piece]]:
        read: ReadBatches = self._cheapest_batches if len(section) <= _MAX_OPEN_RUNS else self._stored.batches
        return run_chunks(section, job.ages.reading(read), self._order, chunk_bytes)

    def _cheapest_batches(self, file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
        """The live rows of a file, if possible without decoding: from memory, or from an existing lookup file."""
        if self._files.rows_in_memory(file) is None and self._stored.has_copy(file):
            return self._stored.batches(file, batch_rows)
        return self._files.batches(file, batch_rows)

    def _remember(self, files: Sequence[DataFileMeta], rows: pa.Table | None) -> None:
        """Build the lookup files of new files while their rows are in memory; otherwise the first lookup builds them.

        The first lookup also builds them for files that alter values, because a lookup file has the rows of its data
        file.
        """
        if self._options.needs_lookup and rows is not None:
            for file, its_rows in self._files.read_as_written(files, rows):
                self._stored.remember(file, [its_rows])
