"""The options of a table as typed values with units.

Each field of ``TableOptions`` is the only declaration of its option. ``option_names`` classifies options without effect
in Tidemark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_table.file_index.index_options import BLOOM_FILTER_COLUMNS, BloomFilterColumn
from paimon_table.known_values import Packed
from paimon_table.option_declaration import (
    Meant,
    Need,
    listed,
    never,
    only_to_a_number,
    option,
    single,
    stays_true,
)
from paimon_table.option_values import (
    LONG_MAX,
    boolean,
    duration_ms,
    file_prefix,
    fraction,
    integer,
    lowered,
    lowered_per_level,
    names,
    names_among,
    one_of,
    per_level,
    plain,
    size_bytes,
    word_of,
)
from paimon_table.options.field_options import AGGREGATING, AllFieldOptions
from paimon_table.options.modifiable import only_when_modifiable
from paimon_table.options.names import (
    AGGREGATION_REMOVE_ON_DELETE,
    ASSIGNER_PARALLELISM,
    BUCKET,
    BUCKET_FUNCTION,
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
    CHANGELOG_PRODUCER,
    CLUSTERING_COLUMNS,
    CLUSTERING_STRATEGY,
    DATA_FILE_PREFIX,
    DEFAULT_AGGREGATE_FUNCTION,
    DELETION_VECTORS,
    DYNAMIC_OVERWRITE,
    FILE_BLOCK_SIZE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FORCE_LOOKUP,
    FULL_COMPACTION_DELTA_COMMITS,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    INDEX_BOOTSTRAP_PARALLELISM,
    INDEX_TTL,
    INITIAL_BUCKETS,
    KEEP_DELETES,
    LEGACY_PARTITION_NAME,
    LOOKUP_COMPACT,
    MAX_BUCKETS,
    MERGE_ENGINE,
    NUM_LEVELS,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_GROUP,
    PARTITION_DEFAULT_NAME,
    PLAN_SORT_PARTITION,
    POSTPONE_BUCKET_ROWS,
    POSTPONE_BUCKET_SIZE,
    POSTPONE_BUCKETS,
    RECORD_EXPIRE_TIME,
    RECORD_TIME_FIELD,
    ROW_DEDUPLICATE,
    ROW_DEDUPLICATE_IGNORE_FIELDS,
    ROWKIND_FIELD,
    SEQUENCE_AUTO_PADDING,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    SNAPSHOT_ORDERING,
    STATS_MODE,
    STATS_MODE_PER_LEVEL,
    TARGET_BUCKET_ROW_COUNT,
    TARGET_FILE_ROW_COUNT,
    WRITE_ONLY,
    ZSTD_LEVEL,
)
from paimon_table.options.retention_options import RetentionOptions

BUCKET_FUNCTIONS = ("default", "mod", "hive")
CHANGELOG_PRODUCERS = ("none", "input", "lookup", "full-compaction")
MERGE_ENGINES = ("deduplicate", "first-row", "partial-update", "aggregation")
SEQUENCE_PADDINGS = ("row-kind-flag", "second-to-micro", "millis-to-micro")

MOST_LEVELS = 1000
"""The limit of ``num-levels``, above the number of runs of any table. A writer keeps a list of levels for each
bucket."""

_A_CHANGELOG = Need(CHANGELOG_PRODUCER, ("input", "lookup", "full-compaction"))

IGNORE_DELETE_ALIASES = ("deduplicate.ignore-delete", "first-row.ignore-delete", "partial-update.ignore-delete")


DELETE_TIME = "_tidemark_deleted_at"
"""The column (TIMESTAMP_LTZ(3)) with the time at which a kept delete was written; NULL in other rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(Packed):
    """The options of one table; sizes in bytes, times in milliseconds."""

    has_key: bool = True
    """Whether the table has a primary key, from its schema, not from an option."""
    bucket: int = option(BUCKET, integer(), -1, change=only_to_a_number, read=True)
    bucket_function: str = option(BUCKET_FUNCTION, one_of(*BUCKET_FUNCTIONS), "default", change=never, read=True)
    dynamic_bucket_target_row_count: int = option(
        TARGET_BUCKET_ROW_COUNT, integer(1, LONG_MAX), 2_000_000, needs=Need(BUCKET, ("-1",)), with_key=True
    )
    dynamic_bucket_initial_buckets: int | None = option(
        INITIAL_BUCKETS, integer(1), None, change=never, needs=Need(BUCKET, ("-1",)), with_key=True
    )
    """The number of buckets of a partition that get keys from the beginning."""
    dynamic_bucket_max_buckets: int = option(MAX_BUCKETS, integer(-1), -1, needs=Need(BUCKET, ("-1",)), with_key=True)
    """The most buckets of a partition; -1: as many as its keys need."""
    dynamic_bucket_assigners: int | None = option(
        ASSIGNER_PARALLELISM, integer(1), None, needs=Need(BUCKET, ("-1",)), with_key=True
    )
    """The default of ``dynamic-bucket.initial-buckets``."""
    index_ttl_ms: int | None = option(INDEX_TTL, duration_ms, None, needs=Need(BUCKET, ("-1",)), with_key=True)
    """The age of a file above which the index of keys over all partitions may lack its keys."""
    index_bootstrap_parallelism: int = option(
        INDEX_BOOTSTRAP_PARALLELISM, integer(1), 10, needs=Need(BUCKET, ("-1",)), with_key=True
    )
    """The number of threads that read keys for this index, at most one per processor."""
    merge_engine: str = option(
        MERGE_ENGINE, word_of(*MERGE_ENGINES), "deduplicate", change=never, read=True, waits=("first-row",)
    )
    changelog_producer: str = option(
        CHANGELOG_PRODUCER, word_of(*CHANGELOG_PRODUCERS), "none", read=True, waits=("lookup", "full-compaction")
    )
    row_deduplicate: bool = option(
        ROW_DEDUPLICATE,
        boolean,
        False,
        needs=Need(CHANGELOG_PRODUCER, ("lookup", "full-compaction")),
    )
    row_deduplicate_ignore_fields: tuple[str, ...] = option(
        ROW_DEDUPLICATE_IGNORE_FIELDS,
        names,
        (),
        columns=listed,
        needs=Need(ROW_DEDUPLICATE, ("true",)),
    )
    sequence_fields: tuple[str, ...] = option(SEQUENCE_FIELD, names, (), read=True, columns=listed)
    sequence_sort_order: str = option(
        SEQUENCE_SORT_ORDER,
        one_of("ascending", "descending"),
        "ascending",
        read=True,
        needs=Need(SEQUENCE_FIELD),
    )
    snapshot_ordering: bool = option(SNAPSHOT_ORDERING, boolean, False, change=never, read=True)
    """Whether rows of flushes are ordered by the snapshot that added them instead of by their arrival in the bucket."""
    sequence_auto_padding: tuple[str, ...] = option(
        SEQUENCE_AUTO_PADDING, names_among(*SEQUENCE_PADDINGS), (), read=True
    )
    rowkind_field: str | None = option(ROWKIND_FIELD, plain, None, change=never, columns=single)
    ignore_delete: bool = option(IGNORE_DELETE, boolean, False, *IGNORE_DELETE_ALIASES, change=stays_true, read=True)
    ignore_update_before: bool = option(IGNORE_UPDATE_BEFORE, boolean, False, change=stays_true)
    compaction_trigger: int = option("num-sorted-run.compaction-trigger", integer(1), 5, with_key=True)
    num_levels: int = option(
        NUM_LEVELS,
        integer(2),
        6,
        follows="num-sorted-run.compaction-trigger",
        meant=Meant(
            range(2, MOST_LEVELS + 1),
            f"levels are too many for each bucket; set num-levels to at most {MOST_LEVELS}",
        ),
        with_key=True,
    )
    """At least 2; ``compaction_trigger`` + 1 when the option is not set."""
    max_size_amplification_percent: int = option(
        "compaction.max-size-amplification-percent", integer(0), 200, with_key=True
    )
    size_ratio: int = option("compaction.size-ratio", integer(0), 1, with_key=True)
    """The percentage by which a sorted run may be larger than the newer ones and still be compacted with them."""
    small_file_ratio: float = option("compaction.small-file-ratio", fraction, 0.7)
    target_file_row_count: int | None = option(TARGET_FILE_ROW_COUNT, integer(1, LONG_MAX), None)
    """Always None: only the size limits files."""
    target_file_size_bytes: int = option("target-file-size", size_bytes, 128 << 20)
    """The default is doubled for tables without primary key."""
    compaction_min_file_count: int = option("compaction.min.file-num", integer(1), 5, with_key=False)
    """The number of small files from which a table without primary key compacts them."""
    compaction_delete_ratio: float = option("compaction.delete-ratio-threshold", fraction, 0.2, with_key=False)
    """The share of deleted rows above which a table without primary key compacts a file of any size."""
    clustering_columns: tuple[str, ...] = option(
        CLUSTERING_COLUMNS,
        names,
        (),
        "sink.clustering.by-columns",
        columns=listed,
        needs=Need(BUCKET, ("-1",)),
        with_key=False,
    )
    """The columns by which rows of a table without keys and buckets are sorted before they are written."""
    clustering_strategy: str = option(
        CLUSTERING_STRATEGY,
        word_of("auto", "order", "zorder", "hilbert"),
        "auto",
        "sink.clustering.strategy",
        needs=Need(CLUSTERING_COLUMNS),
        with_key=False,
    )
    """``auto`` is ``order`` for one column, in Paimon a space-filling curve for more."""
    file_format: str = option(FILE_FORMAT, lowered, "parquet")
    file_format_per_level: tuple[tuple[int, str], ...] = option(FILE_FORMAT_PER_LEVEL, lowered_per_level, ())
    """(level, format) if it differs from ``file_format``; see ``file_settings``."""
    file_compression: str = option(FILE_COMPRESSION, lowered, "zstd")
    file_compression_per_level: tuple[tuple[int, str], ...] = option(FILE_COMPRESSION_PER_LEVEL, lowered_per_level, ())
    file_suffix_include_compression: bool = option("file.suffix.include.compression", boolean, False)
    changelog_file_format: str | None = option(CHANGELOG_FILE_FORMAT, lowered, None, needs=_A_CHANGELOG)
    changelog_file_compression: str | None = option(CHANGELOG_FILE_COMPRESSION, lowered, None, needs=_A_CHANGELOG)
    changelog_file_stats_mode: str | None = option(CHANGELOG_FILE_STATS_MODE, plain, None, needs=_A_CHANGELOG)
    zstd_level: int = option(
        ZSTD_LEVEL,
        integer(),
        1,
        meant=Meant(range(1, 23), "is not among the levels of zstd; write one from 1 to 22"),
    )
    file_block_size_bytes: int | None = option(FILE_BLOCK_SIZE, size_bytes, None)
    """The size in the file of a row group of Parquet or a stripe of ORC; as in Java, Avro has none."""
    data_file_prefix: str = option(DATA_FILE_PREFIX, file_prefix, "data-")
    changelog_file_prefix: str = option(CHANGELOG_FILE_PREFIX, file_prefix, "changelog-", needs=_A_CHANGELOG)
    write_only: bool = option(WRITE_ONLY, boolean, False, "write.compaction-skip")
    full_compaction_delta_commits: int | None = option(FULL_COMPACTION_DELTA_COMMITS, integer(1), None, waits=())
    force_lookup: bool = option(FORCE_LOOKUP, boolean, False, change=never, read=True, with_key=True)
    force_up_level0: bool = option("compaction.force-up-level-0", boolean, False, with_key=True)
    lookup_compact: str = option(LOOKUP_COMPACT, one_of("radical", "gentle"), "radical", with_key=True)
    lookup_compact_max_interval: int | None = option(
        "lookup-compact.max-interval", integer(1), None, needs=Need(LOOKUP_COMPACT, ("gentle",))
    )
    deletion_vectors: bool = option(
        DELETION_VECTORS, boolean, False, change=only_when_modifiable, read=True, waits=("true",)
    )
    deletion_vectors_bitmap64: bool = option(
        "deletion-vectors.bitmap64", boolean, False, needs=Need(DELETION_VECTORS, ("true",))
    )
    """Whether vectors are written with 64-bit positions; readers support both widths."""
    deletion_vectors_merge_on_read: bool = option(
        "deletion-vectors.merge-on-read", boolean, False, read=True, needs=Need(DELETION_VECTORS, ("true",))
    )
    partition_default_name: str = option(
        PARTITION_DEFAULT_NAME, plain, "__DEFAULT_PARTITION__", change=never, read=True
    )
    legacy_partition_name: bool = option(LEGACY_PARTITION_NAME, boolean, True, change=never, read=True)
    stats_mode: str = option(STATS_MODE, plain, "truncate(16)")
    stats_mode_per_level: tuple[tuple[int, str], ...] = option(STATS_MODE_PER_LEVEL, per_level, ())
    stats_dense_store: bool = option("metadata.stats-dense-store", boolean, True)
    stats_keep_first_n_columns: int = option("metadata.stats-keep-first-n-columns", integer(-1), -1)
    default_aggregate_function: str | None = option(
        DEFAULT_AGGREGATE_FUNCTION, plain, None, read=True, needs=Need(MERGE_ENGINE, AGGREGATING)
    )
    """The default function of columns."""
    field_options: AllFieldOptions = field(default_factory=AllFieldOptions)
    """The options ``fields.<column>.*``."""
    bloom_filters: tuple[BloomFilterColumn, ...] = ()
    """The options ``file-index.bloom-filter.*``."""
    file_index_in_manifest_bytes: int = option(
        "file-index.in-manifest-threshold", size_bytes, 500, needs=Need(BLOOM_FILTER_COLUMNS.name)
    )
    """The largest size of a file index in the manifest; a larger one gets its own file."""
    file_index_read: bool = option("file-index.read.enabled", boolean, True, read=True)
    aggregation_remove_record_on_delete: bool = option(
        AGGREGATION_REMOVE_ON_DELETE,
        boolean,
        False,
        change=never,
        read=True,
        needs=Need(MERGE_ENGINE, ("aggregation",)),
    )
    partial_update_remove_record_on_delete: bool = option(
        PARTIAL_UPDATE_REMOVE_ON_DELETE,
        boolean,
        False,
        change=never,
        read=True,
        needs=Need(MERGE_ENGINE, ("partial-update",)),
    )
    partial_update_remove_record_on_sequence_group: tuple[str, ...] = option(
        PARTIAL_UPDATE_REMOVE_ON_GROUP,
        names,
        (),
        change=never,
        read=True,
        columns=listed,
        needs=Need(MERGE_ENGINE, ("partial-update",)),
    )
    scan_plan_sort_partition: bool = option(PLAN_SORT_PARTITION, boolean, False, read=True)
    """Whether partitions are read in the order of their values."""
    record_expire_time_ms: int | None = option(RECORD_EXPIRE_TIME, duration_ms, None)
    """The age at which compactions drop rows."""
    record_time_field: str | None = option(
        RECORD_TIME_FIELD, plain, None, columns=single, needs=Need(RECORD_EXPIRE_TIME)
    )
    keep_deletes_ms: int | None = option(KEEP_DELETES, duration_ms, None, needs=Need(SEQUENCE_FIELD), with_key=True)
    """How long a delete stays on the highest level, so that no older row restores its key."""
    postpone_default_bucket_num: int | None = option(POSTPONE_BUCKETS, integer(1), None, needs=Need(BUCKET, ("-2",)))
    """The number of buckets of a partition at the first compaction of its postponed rows."""
    postpone_target_row_num: int | None = option(
        POSTPONE_BUCKET_ROWS, integer(1, LONG_MAX), None, needs=Need(BUCKET, ("-2",))
    )
    """Without that number: the target rows per bucket."""
    postpone_target_size_bytes: int = option(POSTPONE_BUCKET_SIZE, size_bytes, 1 << 30, needs=Need(BUCKET, ("-2",)))
    """Without either: the target file size per bucket."""
    retention: RetentionOptions = field(default_factory=RetentionOptions)
    """The retention."""
    manifest_compression: str = option("manifest.compression", one_of("zstd", "none"), "zstd")
    manifest_target_file_size_bytes: int = option("manifest.target-file-size", size_bytes, 8 << 20)
    manifest_full_compaction_size_bytes: int = option("manifest.full-compaction-threshold-size", size_bytes, 16 << 20)
    manifest_merge_min_count: int = option("manifest.merge-min-count", integer(1), 30)
    dynamic_partition_overwrite: bool = option(DYNAMIC_OVERWRITE, boolean, True)
    """Whether INSERT OVERWRITE of a partitioned table replaces only the partitions of the new rows."""
    overwrite_upgrade: bool = option("overwrite-upgrade", boolean, True)
    """Whether the files of an overwrite go to the highest level if they need no merge."""
    commit_max_retries: int = option("commit.max-retries", integer(0), 10)
    commit_min_retry_wait_ms: int = option("commit.min-retry-wait", duration_ms, 10)
    commit_max_retry_wait_ms: int = option("commit.max-retry-wait", duration_ms, 10_000)
    commit_timeout_ms: int | None = option("commit.timeout", duration_ms, None)

    @property
    def is_unaware(self) -> bool:
        """Whether the table has neither keys nor buckets: any writer may write any row, and all files are equal."""
        return not self.has_key and self.bucket == -1

    @property
    def is_postponed(self) -> bool:
        """Whether rows wait unmerged in bucket -2 until a compaction assigns their buckets."""
        return self.has_key and self.bucket == -2

    @property
    def clusters_in_order(self) -> bool:
        """Whether clustered rows are sorted by the columns one after the other; other strategies follow a curve."""
        is_single = self.clustering_strategy == "auto" and len(self.clustering_columns) == 1
        return is_single or self.clustering_strategy == "order"

    @property
    def sequence_descending(self) -> bool:
        """Whether the smallest user sequence is the newest."""
        return self.sequence_sort_order == "descending"

    @property
    def update_before_first(self) -> bool:
        """Whether retracts come before adds of the same user sequence, regardless of arrival."""
        return "row-kind-flag" in self.sequence_auto_padding

    @property
    def max_level(self) -> int:
        return self.num_levels - 1

    @property
    def named_levels(self) -> set[int]:
        """The levels that options for single levels name, including those above ``max_level``."""
        options = (self.file_format_per_level, self.file_compression_per_level, self.stats_mode_per_level)
        return {level for of_option in options for level, _ in of_option}

    @property
    def needs_lookup(self) -> bool:
        """Whether compaction of level 0 looks up the levels above its output."""
        if not self.has_key:
            return False
        is_looked_at = self.changelog_producer == "lookup" or self.deletion_vectors
        return is_looked_at or self.merge_engine == "first-row" or self.force_lookup

    @property
    def upper_rows_are_whole(self) -> bool:
        """Whether a row on a level above 0 includes the rows of its key on higher levels, and must replace them.

        Not used for deduplicate and first-row, whose merge has the same result with the older rows.
        """
        return self.needs_lookup and self.merge_engine in AGGREGATING

    @property
    def hides_level0(self) -> bool:
        """Whether batch reads skip level 0, because only compaction decides the meaning of its rows."""
        if not self.has_key:
            return False
        if self.deletion_vectors:
            return not self.deletion_vectors_merge_on_read
        return self.merge_engine == "first-row"

    @property
    def upper_keys_are_unique(self) -> bool:
        """Whether levels above 0 have at most one live row of each key, because compaction finds older ones."""
        return self.deletion_vectors or self.merge_engine == "first-row"

    @property
    def level0_patience(self) -> int:
        """The number of level-0 files from which they are compacted even if the universal strategy would wait."""
        if self.lookup_compact == "radical":
            return 1
        return max(self.compaction_trigger, self.lookup_compact_max_interval or 2 * self.compaction_trigger)

    @property
    def compacts_without_rows(self) -> bool:
        """Whether a batch may have to compact buckets without new rows."""
        return not self.write_only and (self.full_compaction_interval is not None or self.hides_level0)

    @property
    def full_compaction_interval(self) -> int | None:
        """All buckets are compacted fully after this number of batches; None for never."""
        if self.full_compaction_delta_commits is None and self.changelog_producer == "full-compaction":
            return 1
        return self.full_compaction_delta_commits
