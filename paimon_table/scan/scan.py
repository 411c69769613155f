"""Reading the rows of a table at one snapshot: plan splits, prune, read.

Implements Paimon's batch read. Splits are independent of each other and can be read anywhere; a
split is read in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.merge.function import merge_function, without_retracts
from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.levels import KeyOf
from paimon_table.mergetree.sections import Section
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import DELETION_VECTORS, HASH, IndexFileMeta
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ManifestFileMeta
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import TableState, load_state
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.binary_row import comparable_key
from paimon_table.scan.index_pruning import matching_sections
from paimon_table.scan.pruning import (
    Place,
    Ranges,
    key_places,
    manifest_guarantee,
    matching_files,
    may_match,
    partition_guarantee,
    ranges_of,
    value_places,
)
from paimon_table.scan.selection import Selection
from paimon_table.scan.split_reader import open_reader
from paimon_table.scan.splits import Split, split_bucket, split_unkeyed_bucket
from paimon_table.schema.table_schema import TableSchema
from paimon_table.surroundings import many_values
from paimon_table.types import arrow_schema


@dataclass(frozen=True, slots=True)
class TableScan:
    """What is read from each split. Can be pickled; reading works on driver and executors."""

    ctx: TableContext
    selection: Selection

    @staticmethod
    def make(
        ctx: TableContext, columns: Sequence[str] | None = None, predicate: pc.Expression | None = None
    ) -> TableScan:
        """A scan of the columns (default: all); ConfigError for columns and predicates that do not fit the table."""
        return TableScan(ctx, Selection.of(ctx.schema, columns, predicate))

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows that come out."""
        return arrow_schema([self.ctx.schema.field(name) for name in self.selection.columns])

    # ------------------------------------------------------------ planning

    def plan_snapshot(self, snapshot: Snapshot | None) -> tuple[Split, ...]:
        """As ``plan`` of the snapshot's state; of its manifests nothing is kept that the predicate rules out."""
        with many_values():
            if not self._tests_partitions:
                return self.plan(load_state(self.ctx.io, self.ctx.paths, snapshot))
            schema = self.ctx.schema
            known: dict[bytes, bool] = {}

            def wanted(partition: bytes) -> bool:
                if partition not in known:
                    known[partition] = self._may_match([partition_guarantee(BucketId(partition, 0), schema)])[0]
                return known[partition]

            def may_hold(manifest: ManifestFileMeta) -> bool:
                return self._may_match([manifest_guarantee(manifest, schema)])[0]

            return self.plan(load_state(self.ctx.io, self.ctx.paths, snapshot, wanted, may_hold))

    def plan(self, state: TableState) -> tuple[Split, ...]:
        """The splits that can hold matching rows; key and partition ranges prune before the merge, values after it."""
        refuse_unreadable(self.ctx.schema, self.ctx.options, state.index)
        deletion_files = state.deletion_files()
        key_of = KeyOrder(self.ctx.schema, self.ctx.options).file_key
        buckets = self._matching_buckets([bucket for bucket in state.files if bucket.bucket != POSTPONED])
        matching = self._matching_files({bucket: self._visible_files(state.files[bucket]) for bucket in buckets})
        splits: list[Split] = []
        for bucket, files in matching.items():
            splits += self._splits(bucket, files, key_of, deletion_files.get(bucket, ()))
        if self.ctx.options.scan_plan_sort_partition:
            splits.sort(key=lambda split: (*self._partition_order(split.bucket), split.bucket.bucket))
        return self._without_unmatched_values(splits)

    def _splits(
        self,
        bucket: BucketId,
        files: Sequence[DataFileMeta],
        key_of: KeyOf,
        deletion_files: Sequence[IndexFileMeta],
    ) -> tuple[Split, ...]:
        if not self.ctx.schema.primary_keys:
            return split_unkeyed_bucket(bucket, files, deletion_files=deletion_files)
        return split_bucket(
            bucket,
            files,
            key_of,
            deletion_files=deletion_files,
            keys_are_unique=self.ctx.options.upper_keys_are_unique,
        )

    def _partition_order(self, bucket: BucketId) -> tuple[object, ...]:
        """The partition's values, NULLs first."""
        types = [field.type for field in self.ctx.schema.partition_fields]
        return comparable_key(bucket.partition, types) if types else ()

    def _matching_buckets(self, buckets: Sequence[BucketId]) -> list[BucketId]:
        if not self._tests_partitions:
            return list(buckets)
        partitions = {bucket.partition: partition_guarantee(bucket, self.ctx.schema) for bucket in buckets}
        kept = self._may_match(list(partitions.values()))
        matching = {partition for partition, keep in zip(partitions, kept, strict=True) if keep}
        return [bucket for bucket in buckets if bucket.partition in matching]

    @property
    def _tests_partitions(self) -> bool:
        return not set(self.selection.tested).isdisjoint(self.ctx.schema.partition_keys)

    def _visible_files(self, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        return [file for file in files if file.level > 0] if self.ctx.options.hides_level0 else files

    def _matching_files(
        self, files: Mapping[BucketId, Sequence[DataFileMeta]]
    ) -> Mapping[BucketId, Sequence[DataFileMeta]]:
        names = set(self.selection.tested) & set(self.ctx.schema.trimmed_primary_keys)
        if not names:
            return files
        every = [file for of_bucket in files.values() for file in of_bucket]
        places = key_places(self.ctx.schema, names)
        kept = iter(self._are_matching([ranges_of(file, file.key_stats, places) for file in every]))
        return {bucket: [f for f in of_bucket if next(kept)] for bucket, of_bucket in files.items()}

    def _without_unmatched_values(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Drop files by their value ranges where no other file can hold another version of their keys."""
        if not self.selection.tested:
            return tuple(splits)
        alone = [section[0][0] for split in splits for section in split.sections if _is_alone(section)]
        kept = self._are_matching(self._value_ranges(alone))
        gone = {file.file_name for file, keep in zip(alone, kept, strict=True) if not keep}
        left = [replace(split, sections=tuple(s for s in split.sections if not _is_in(s, gone))) for split in splits]
        return tuple(split for split in left if split.sections)

    def _value_ranges(self, files: Sequence[DataFileMeta]) -> list[Ranges]:
        known: dict[tuple[int, tuple[str, ...] | None], tuple[Place, ...]] = {}
        ranges = []
        for file in files:
            kind = (file.schema_id, file.value_stats_cols)
            if kind not in known:
                known[kind] = self._value_places(*kind)
            ranges.append(ranges_of(file, file.value_stats, known[kind]))
        return ranges

    def _value_places(self, schema_id: int, kept: tuple[str, ...] | None) -> tuple[Place, ...]:
        written = self.ctx.schemas.get(schema_id)
        return () if written is None else value_places(self.ctx.schema, written, kept, self.selection.tested)

    def _are_matching(self, ranges: Sequence[Ranges]) -> list[bool]:
        predicate = self.selection.predicate
        return [True] * len(ranges) if predicate is None else matching_files(predicate, ranges, self.ctx.schema)

    def _may_match(self, guarantees: Sequence[pc.Expression]) -> list[bool]:
        return may_match(self.selection.predicate, guarantees, self.ctx.schema.arrow_schema)

    # ------------------------------------------------------------ reading

    def read(self, split: Split) -> Iterator[pa.Table]:
        """The matching rows of a split, in pieces of bounded size, in key order, without keys in order of arrival."""
        reader = open_reader(self.ctx, split, self.selection)
        directory = self.ctx.bucket_dir(split.bucket)
        columns, predicate = list(self.selection.columns), self.selection.predicate
        for section in matching_sections(self.ctx, directory, split.sections, predicate, self.selection.tested):
            for rows in reader.read(section):
                live = without_retracts(rows)
                found = live if predicate is None else live.filter(predicate)
                if found.num_rows:
                    yield found.select(columns)


def _is_alone(section: Section) -> bool:
    """Whether the section is a single file, whose keys no other file of the bucket holds."""
    return len(section) == 1 and len(section[0]) == 1


def _is_in(section: Section, names: set[str]) -> bool:
    return _is_alone(section) and section[0][0].file_name in names


def refuse_unreadable(schema: TableSchema, options: TableOptions, index: Sequence[IndexEntry]) -> None:
    """UnsupportedFeature for tables whose rows Tidemark would read wrongly; ``index`` is that of the snapshot."""
    if schema.primary_keys:
        merge_function(schema, options)
    unknown = sorted({entry.file.index_type for entry in index} - {DELETION_VECTORS, HASH})
    if unknown:
        raise UnsupportedFeature(
            f"the table has index files of type {', '.join(unknown)}, which Tidemark does not "
            "know yet; read the table with Paimon's own readers"
        )
