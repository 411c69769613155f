"""Plans of tables with many kinds of files are those of a look at each file alone."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_table.data_files.altered_values import may_alter
from paimon_table.merge.sort import KeyOrder
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.metadata.index_file import DELETION_VECTORS, IndexFileMeta, VectorRange
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ADD, DELETE, ManifestEntry
from paimon_table.metadata.manifest_store import ManifestDraft
from paimon_table.metadata.snapshot import CommitKind, Snapshot, to_json
from paimon_table.metadata.table_state import load_state
from paimon_table.rows.binary_row import raw_field, serialize_row
from paimon_table.scan.pruning import ColumnRange, Place, key_places, may_match, partition_guarantee, value_places
from paimon_table.scan.scan import TableScan
from paimon_table.scan.splits import pack, split_bucket, unkeyed_sections
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.surroundings import random_uuid
from paimon_table.table import Table
from paimon_table.types import DataField, Root, parse_type
from paimon_table.validation.schema_evolution import AddColumn, WidenColumn

COLUMNS = (
    ("k", "BIGINT NOT NULL"), ("p", "STRING"), ("a", "INT"), ("s", "STRING"), ("f", "DOUBLE"), ("d", "DECIMAL(20, 2)"),
    ("t", "TIMESTAMP(6)"), ("c", "CHAR(3)"), ("e", "DATE"),
)  # fmt: skip
LATER = (WidenColumn("a", parse_type("BIGINT")), AddColumn("z", parse_type("INT")))
PARTITION_TYPES = [parse_type("STRING")]
ROWS = 10


@dataclass
class Drawn:
    """A table of random files that are not there, snapshot 1 of which has all of them."""

    random: Random
    table: Table
    partitions: list[bytes]
    share_without_stats: float = 0.0
    names_repeat: bool = False
    """Whether files of other buckets have the same names, as those that other writers wrote and a migration took."""
    files: list[ManifestEntry] = field(default_factory=list)

    @staticmethod
    def new(random: Random) -> Drawn:
        is_keyed, is_partitioned = random.random() < 0.7, random.random() < 0.6
        columns = [(name, parse_type(text)) for name, text in COLUMNS]
        keys = [*(["p"] if is_partitioned else []), "k"] if is_keyed else []
        options = {"bucket": "2", **({} if is_keyed else {"bucket-key": "k"})}
        if is_keyed and random.random() < 0.4:
            options["deletion-vectors.enabled"] = "true"
        schema = create_schema(columns, keys, ["p"] if is_partitioned else [], options)
        values = ["x", "y", "a long partition"] + ([] if is_keyed else [None])
        partitions = [serialize_row([value], PARTITION_TYPES) for value in values] if is_partitioned else [EMPTY_ROW]
        drawn = Drawn(random, Table.create("/t", schema, io=MemoryFileIO()), partitions, random.choice([0, 0.1]))
        drawn.names_repeat = random.random() < 0.3
        drawn.add_files(random.choice([3, 30, 200]))
        for change in LATER:
            if random.random() < 0.6:
                drawn.table = drawn.table.evolve([change], 1)
                drawn.add_files(random.choice([3, 100]))
        return drawn

    # ------------------------------------------------------------ files

    def add_files(self, count: int) -> None:
        levels = self.random.choice([[5], [0], [0, 4, 5], [4, 5]])
        for _ in range(count):
            bucket = BucketId(self.random.choice(self.partitions), self.random.choice([0, 0, 1, -2]))
            self.files.append(ManifestEntry(ADD, bucket, 2, self.file(bucket, self.random.choice(levels))))

    def file(self, bucket: BucketId, level: int) -> DataFileMeta:
        random, schema = self.random, self.table.schema
        first = random.randrange(1000)
        low, high = (serialize_row([key], [parse_type("BIGINT")]) for key in (first, first + random.choice([0, 3, 50])))
        number = sum(entry.bucket == bucket for entry in self.files) if self.names_repeat else len(self.files)
        kept = random.choice([None, None, (), ("k", "s"), ("s", "a", "c"), tuple(schema.column_names)])
        return DataFileMeta(
            file_name=f"data-{number}.{random.choice(['parquet', 'orc'])}",
            file_size_bytes=random.choice([1, 30 << 20, 200 << 20]),
            row_count=ROWS,
            min_key=low if schema.primary_keys else EMPTY_ROW,
            max_key=high if schema.primary_keys else EMPTY_ROW,
            key_stats=SimpleStats(low, high, random.choice([(0,), ()])) if schema.primary_keys else SimpleStats(),
            value_stats=self.stats([schema.field(name) for name in kept or ()] if kept is not None else schema.fields),
            min_sequence_number=random.randrange(5) * ROWS,
            max_sequence_number=100 * ROWS,
            schema_id=schema.id,
            level=level,
            creation_time_ms=random.choice([None, 17, 18]),
            delete_row_count=random.choice([0, 0, 0, None, 2]),
            value_stats_cols=kept,
            external_path=random.choice([None, None, f"s3://elsewhere/{number}"]),
        )

    def stats(self, fields: Sequence[DataField]) -> SimpleStats:
        if not fields or self.random.random() < self.share_without_stats:
            return SimpleStats()
        ends = [self.ends(one) for one in fields]
        types = [one.type.with_nullable(True) for one in fields]
        lows, highs = (serialize_row([end[side] for end in ends], types) for side in (0, 1))
        counts = tuple([ROWS if low is None else self.random.choice([0, 0, 0, 1, None]) for low, _ in ends])
        return SimpleStats(lows, highs, self.random.choice([counts, counts, counts[:1], ()]))

    def ends(self, one: DataField) -> tuple[Any, Any]:
        if self.random.random() < 0.15 and one.name != "k":
            return None, None
        values = sorted([self.value(one), self.value(one)])
        return values[0], values[1]

    def value(self, one: DataField) -> Any:
        number = self.random.randrange(-20, 20) if self.random.random() < 0.8 else self.random.randrange(-900, 1000)
        match one.type.root:
            case Root.CHAR:
                return f"{number % 40:03d}"[:3]
            case Root.VARCHAR:
                return f"{'text ' * (number % 3)}{abs(number):04d}"
            case Root.DOUBLE:
                return number / 2
            case Root.DECIMAL:
                return Decimal(number) / 4
            case Root.TIMESTAMP:
                return datetime(1970, 1, 1) + timedelta(milliseconds=number * 300)
            case Root.DATE:
                return (datetime(1970, 1, 1) + timedelta(days=number)).date()
            case _:
                return number

    # ------------------------------------------------------------ the snapshot

    def published(self) -> Snapshot:
        random, table = self.random, self.table
        gone = [replace(entry, kind=DELETE) for entry in self.files if random.random() < 0.05]
        moved = [replace(entry, kind=ADD, file=entry.file.at_level(5)) for entry in gone if entry.file.level != 5]
        entries = [*self.files, *gone, *random.sample(moved, len(moved) // 2)]
        if random.random() < 0.5:
            gone, entries = [], list(self.files)
        random.shuffle(entries)
        draft = ManifestDraft(
            table.io, table.paths, table.options, [f.type for f in table.schema.partition_fields], random_uuid
        )
        cut = random.randrange(len(entries) + 1)
        base, delta = (
            [m for part in parts for m in draft.add_manifests(part)] for parts in ([entries[:cut]], [entries[cut:]])
        )
        (base_list, base_size), (delta_list, delta_size) = draft.add_list(base), draft.add_list(delta)
        index = draft.add_index_manifest(self.vectors()) if table.options.deletion_vectors else None
        draft.write()
        snapshot = Snapshot(
            id=1, schema_id=table.schema.id, base_manifest_list=base_list, base_manifest_list_size=base_size,
            delta_manifest_list=delta_list, delta_manifest_list_size=delta_size, index_manifest=index, commit_user="u",
            commit_identifier=1, commit_kind=CommitKind.APPEND, time_ms=1, total_record_count=1, delta_record_count=1,
        )  # fmt: skip
        table.io.write(table.paths.snapshot_file(1), to_json(snapshot).encode())
        return snapshot

    def vectors(self) -> list[IndexEntry]:
        entries: list[IndexEntry] = []
        for bucket in sorted({entry.bucket for entry in self.files}, key=repr):
            names = [e.file.file_name for e in self.files if e.bucket == bucket and self.random.random() < 0.3]
            ranges = tuple(VectorRange(name, 1, 2, 3) for name in names)
            if ranges:
                meta = IndexFileMeta(
                    index_type=DELETION_VECTORS, file_name=f"index-{len(entries)}", file_size_bytes=1,
                    row_count=len(ranges), vector_ranges=ranges,
                )  # fmt: skip
                entries.append(IndexEntry(ADD, bucket, meta))
        return entries

    # ------------------------------------------------------------ predicates

    def predicate(self) -> pc.Expression:
        parts = [self.comparison() for _ in range(self.random.choice([1, 1, 2, 3]))]
        return reduce(lambda left, right: self.random.choice([operator.and_, operator.or_])(left, right), parts)

    def comparison(self) -> pc.Expression:
        one = self.random.choice(self.table.schema.fields)
        column = pc.field(one.name)

        def constant() -> pa.Scalar:
            value = self.random.choice(["x", "y", "a long partition"]) if one.name == "p" else self.value(one)
            return pa.array([value], self.table.schema.arrow_schema.field(one.name).type)[0]

        compare = self.random.choice([operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
        found = self.random.choice([
            compare(column, constant()), compare(column, constant()), compare(column, constant()),
            column.isin(pa.array([constant().as_py(), constant().as_py()], constant().type)),
            column.is_null(), column.is_valid(),
        ])  # fmt: skip
        return ~found if self.random.random() < 0.2 else found


# ---------------------------------------------------------------- the look at each file alone

PlannedSplit = tuple[BucketId, tuple[Any, ...], tuple[IndexFileMeta, ...]]


def looked_at_alone(scan: TableScan, snapshot: Snapshot) -> Iterator[PlannedSplit]:
    ctx, predicate, schema = scan.ctx, scan.selection.predicate, scan.ctx.schema
    state = load_state(ctx.io, ctx.paths, snapshot)
    tested = scan.selection.tested

    def may(guarantee: pc.Expression) -> bool:
        return may_match(predicate, [guarantee], schema.arrow_schema)[0]

    def values_may(file: DataFileMeta) -> bool:
        places = value_places(schema, ctx.schemas[file.schema_id], file.value_stats_cols, tested)
        return may(_guarantee(file, file.value_stats, places))

    for bucket, files in state.files.items():
        if bucket.bucket == -2 or not may(partition_guarantee(bucket.partition, schema)):
            continue
        left = [f for f in files if f.level > 0 or not ctx.options.hides_level0]
        if schema.primary_keys:
            left = [f for f in left if may(_guarantee(f, f.key_stats, key_places(schema, tested)))]
            key_of = KeyOrder(schema, ctx.options).file_key
            deletion_files = state.deletion_files().get(bucket, ())
            unique = ctx.options.upper_keys_are_unique
            splits = split_bucket(bucket, left, key_of, deletion_files=deletion_files, keys_are_unique=unique)
            cut = [(split.sections, split.deletion_files) for split in splits]
        else:
            cut = [(sections, ()) for sections in pack(unkeyed_sections(left))]
        for sections, vectors in cut:
            kept = tuple(s for s in sections if len(s) > 1 or len(s[0]) > 1 or values_may(s[0][0]))
            if kept:
                yield bucket, kept, vectors


def _guarantee(file: DataFileMeta, stats: SimpleStats, places: Sequence[Place]) -> pc.Expression:
    return reduce(operator.and_, [_range(file, stats, p).expression(p.field) for p in places], pc.scalar(True))


def _range(file: DataFileMeta, stats: SimpleStats, place: Place) -> ColumnRange:
    nulls = None if place.at is None or place.at >= len(stats.null_counts) else stats.null_counts[place.at]
    if place.at is None or nulls == file.row_count:
        return ColumnRange(is_null=True)
    if int.from_bytes(stats.min_values[:4], "big") != place.arity:
        return ColumnRange(null_count=nulls)
    low, high = (raw_field(row, place.at, place.field.type) for row in (stats.min_values, stats.max_values))
    return ColumnRange(low, high, nulls, is_altered=may_alter(file.file_name, place.field.type))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_plans_are_those_of_a_look_at_each_file_alone(seed: int) -> None:
    drawn = Drawn.new(Random(seed))
    snapshot = drawn.published()
    for _ in range(6):
        scan = TableScan.make(drawn.table.context, None, drawn.predicate())
        planned = [(split.bucket, split.sections, split.deletion_files) for split in scan.plan(snapshot)]
        assert planned == list(looked_at_alone(scan, snapshot)), str(scan.selection.predicate)
