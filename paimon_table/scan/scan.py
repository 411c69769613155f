"""Reads the rows of a table at one snapshot: plans splits, prunes, reads.

Implements Paimon's batch read. Splits are independent and can be read on any machine, in pieces of bounded size.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.merge.function import merge_function, without_retracts
from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.levels import KeyOf
from paimon_table.mergetree.sections import Section, SectionOf
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.entry_row import EntryRow, KnownBuckets, live_rows
from paimon_table.metadata.index_file import DELETION_VECTORS, HASH, IndexFileMeta
from paimon_table.metadata.index_manifest import IndexEntry, deletion_files
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.binary_row import comparable_key
from paimon_table.scan.index_pruning import matching_sections
from paimon_table.scan.pruning import (
    Place,
    RangeColumn,
    key_places,
    key_stats,
    manifest_guarantee,
    matching_files,
    may_match,
    partition_guarantee,
    ranges_of,
    value_places,
    value_stats,
)
from paimon_table.scan.selection import Selection
from paimon_table.scan.split_reader import open_reader
from paimon_table.scan.splits import Split, keyed_sections, pack, unkeyed_sections, vectors_of
from paimon_table.schema.table_schema import TableSchema
from paimon_table.surroundings import many_values
from paimon_table.types import arrow_schema


@dataclass(frozen=True, slots=True)
class TableScan:
    """The rows and columns read from each split. Can be pickled; reading works on driver and executors."""

    ctx: TableContext
    selection: Selection

    @staticmethod
    def make(
        ctx: TableContext, columns: Sequence[str] | None = None, predicate: pc.Expression | None = None
    ) -> TableScan:
        """A scan of the columns (default: all); raises ConfigError for columns and predicates that do not fit the
        table."""
        return TableScan(ctx, Selection.of(ctx.schema, columns, predicate))

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the result rows."""
        return arrow_schema([self.ctx.schema.field(name) for name in self.selection.columns])

    # ------------------------------------------------------------ planning

    def plan(self, snapshot: Snapshot | None) -> tuple[Split, ...]:
        """The splits that can have matching rows; key and partition ranges prune before the merge, values after it."""
        index: Sequence[IndexEntry] = ()
        known, buckets = KnownBuckets(), dict[BucketId, list[EntryRow]]()
        with many_values():
            if snapshot is not None:
                index = ManifestReader(self.ctx.io, self.ctx.paths).index_entries(snapshot)
            refuse_unreadable(self.ctx.schema, self.ctx.options, index)
            for row in () if snapshot is None else self._rows_of_partitions(snapshot):
                buckets.setdefault(known[row.partition, row.bucket], []).append(row)
            if self.ctx.options.hides_level0:
                buckets = {bucket: [row for row in rows if row.level > 0] for bucket, rows in buckets.items()}
            return self._splits(self._rows_by_keys(buckets), deletion_files(index))

    def _rows_of_partitions(self, snapshot: Snapshot) -> Iterator[EntryRow]:
        """The files of matching partitions; does not read manifests that the predicate rules out."""
        reader, tests_partitions = ManifestReader(self.ctx.io, self.ctx.paths), self._tests_partitions
        manifests = reader.all_manifests(snapshot)
        if tests_partitions:
            may_hold = self._may_match([manifest_guarantee(manifest, self.ctx.schema) for manifest in manifests])
            manifests = tuple(itertools.compress(manifests, may_hold))
        rows = [row for manifest in manifests for row in reader.rows_of(manifest)]
        if tests_partitions:
            matching = self._matching_partitions({row.partition for row in rows})
            rows = [row for row in rows if row.partition in matching]
        return (row for row in live_rows(rows) if row.bucket != POSTPONED)

    @property
    def _tests_partitions(self) -> bool:
        return not set(self.selection.tested).isdisjoint(self.ctx.schema.partition_keys)

    def _matching_partitions(self, partitions: Collection[bytes]) -> set[bytes]:
        guarantees = [partition_guarantee(partition, self.ctx.schema) for partition in partitions]
        return set(itertools.compress(partitions, self._may_match(guarantees)))

    def _rows_by_keys(self, buckets: Mapping[BucketId, Sequence[EntryRow]]) -> Mapping[BucketId, Sequence[EntryRow]]:
        """The rows without files whose keys cannot match."""
        names = set(self.selection.tested) & set(self.ctx.schema.trimmed_primary_keys)
        if not names:
            return buckets
        every = [row for rows in buckets.values() for row in rows]
        ranges = ranges_of(key_stats(every), key_places(self.ctx.schema, names))
        kept = iter(self._are_matching(ranges, len(every)))
        return {bucket: [row for row in rows if next(kept)] for bucket, rows in buckets.items()}

    def _splits(
        self,
        buckets: Mapping[BucketId, Sequence[EntryRow]],
        deletion_files: Mapping[BucketId, Sequence[IndexFileMeta]],
    ) -> tuple[Split, ...]:
        """Splits without files whose values cannot match, if no other file can have newer versions of their rows."""
        key_of = KeyOrder(self.ctx.schema, self.ctx.options).file_key
        packed = [
            (bucket, sections) for bucket, rows in buckets.items() for sections in pack(self._sections(rows, key_of))
        ]
        if self.ctx.options.scan_plan_sort_partition:
            packed.sort(key=lambda split: (*self._partition_order(split[0]), split[0].bucket))
        gone = self._unmatched_by_values([s[0][0] for _, sections in packed for s in sections if _is_alone(s)])
        splits = []
        for bucket, sections in packed:
            left = [section for section in sections if _place(section[0][0]) not in gone]
            if left:
                vectors = vectors_of(_names(sections), deletion_files.get(bucket, ()))
                splits.append(Split(bucket, tuple(map(_read_section, left)), vectors))
        return tuple(splits)

    def _sections(self, rows: Sequence[EntryRow], key_of: KeyOf) -> Sequence[SectionOf[EntryRow]]:
        if not self.ctx.schema.primary_keys:
            return unkeyed_sections(rows)
        return keyed_sections(rows, key_of, keys_are_unique=self.ctx.options.upper_keys_are_unique)

    def _partition_order(self, bucket: BucketId) -> tuple[object, ...]:
        """The partition's values, NULLs first."""
        types = [field.type for field in self.ctx.schema.partition_fields]
        return comparable_key(bucket.partition, types) if types else ()

    def _unmatched_by_values(self, alone: Sequence[EntryRow]) -> set[_FilePlace]:
        """The files without a matching row, by their value ranges."""
        if not self.selection.tested:
            return set()
        kinds: dict[tuple[int, tuple[str, ...] | None], list[EntryRow]] = {}
        for row in alone:
            kinds.setdefault((row.schema_id, row.value_stats_cols), []).append(row)
        gone: set[_FilePlace] = set()
        for kind, rows in kinds.items():
            kept = self._are_matching(ranges_of(value_stats(rows), self._value_places(*kind)), len(rows))
            gone.update(_place(row) for row, keep in zip(rows, kept, strict=True) if not keep)
        return gone

    def _value_places(self, schema_id: int, kept: tuple[str, ...] | None) -> tuple[Place, ...]:
        written = self.ctx.schemas.get(schema_id)
        return () if written is None else value_places(self.ctx.schema, written, kept, self.selection.tested)

    def _are_matching(self, ranges: Sequence[RangeColumn], count: int) -> list[bool]:
        predicate = self.selection.predicate
        return [True] * count if predicate is None else matching_files(predicate, ranges, count, self.ctx.schema)

    def _may_match(self, guarantees: Sequence[pc.Expression]) -> list[bool]:
        return may_match(self.selection.predicate, guarantees, self.ctx.schema.arrow_schema)

    # ------------------------------------------------------------ reading

    def read(self, split: Split) -> Iterator[pa.Table]:
        """The matching rows of a split, in pieces of bounded size: in key order, or without keys in order of
        arrival."""
        reader = open_reader(self.ctx, split, self.selection)
        directory = self.ctx.bucket_dir(split.bucket)
        columns, predicate = list(self.selection.columns), self.selection.predicate
        for section in matching_sections(self.ctx, directory, split.sections, predicate, self.selection.tested):
            for rows in reader.read(section):
                live = without_retracts(rows)
                found = live if predicate is None else live.filter(predicate)
                if found.num_rows:
                    yield found.select(columns)


_FilePlace = tuple[bytes, int, str]


def _place(row: EntryRow) -> _FilePlace:
    """The identity of a file: names from before a migration may repeat in other partitions."""
    return row.partition, row.bucket, row.file_name


def _is_alone(section: SectionOf[EntryRow]) -> bool:
    """Whether the section is a single file, whose keys no other file of the bucket has."""
    return len(section) == 1 and len(section[0]) == 1


def _names(sections: Sequence[SectionOf[EntryRow]]) -> set[str]:
    return {row.file_name for section in sections for run in section for row in run}


def _read_section(section: SectionOf[EntryRow]) -> Section:
    return tuple([tuple([row.file for row in run]) for run in section])


def refuse_unreadable(schema: TableSchema, options: TableOptions, index: Sequence[IndexEntry]) -> None:
    """Raises UnsupportedFeature for tables that Tidemark would misread; ``index`` is the snapshot's index."""
    if schema.primary_keys:
        merge_function(schema, options)
    unknown = sorted({entry.file.index_type for entry in index} - {DELETION_VECTORS, HASH})
    if unknown:
        raise UnsupportedFeature(
            f"the table has index files of type {', '.join(unknown)}, which Tidemark does not "
            "support; read the table with Paimon's own readers"
        )
