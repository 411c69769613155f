"""The options of a table as typed values with units, parsed once from the schema's string map.

Each field of ``TableOptions`` declares its Paimon name, its parser and its default, and nothing else does. Options that
Tidemark does not act on are classified in ``option_names``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.file_index.index_options import BloomFilterColumn, is_bloom_filter_option, parse_bloom_filters
from paimon_table.option_values import (
    INT_MAX,
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
from paimon_table.options import option_names as known
from paimon_table.options.field_options import AllFieldOptions, is_field_option, parse_field_options
from paimon_table.schema.table_schema import TableSchema

_T = TypeVar("_T")

BUCKET_FUNCTIONS = ("default", "mod", "hive")
CHANGELOG_PRODUCERS = ("none", "input", "lookup", "full-compaction")
SEQUENCE_PADDINGS = ("row-kind-flag", "second-to-micro", "millis-to-micro")
MERGE_ENGINES = ("deduplicate", "first-row", "partial-update", "aggregation")


_IGNORE_DELETE_ALIASES = ("deduplicate.ignore-delete", "first-row.ignore-delete", "partial-update.ignore-delete")


def _option(name: str, parse: Callable[[str, str], _T], default: _T, *aliases: str) -> _T:
    metadata = {"name": name, "aliases": aliases, "parse": parse}
    value: _T = field(default=default, metadata=metadata)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What the options of one table say; sizes in bytes, times in milliseconds."""

    bucket: int = _option("bucket", integer(), -1)
    bucket_function: str = _option("bucket-function.type", one_of(*BUCKET_FUNCTIONS), "default")
    merge_engine: str = _option("merge-engine", word_of(*MERGE_ENGINES), "deduplicate")
    changelog_producer: str = _option("changelog-producer", word_of(*CHANGELOG_PRODUCERS), "none")
    row_deduplicate: bool = _option("changelog-producer.row-deduplicate", boolean, False)
    row_deduplicate_ignore_fields: tuple[str, ...] = _option(
        "changelog-producer.row-deduplicate-ignore-fields", names, ()
    )
    sequence_fields: tuple[str, ...] = _option("sequence.field", names, ())
    sequence_sort_order: str = _option("sequence.field.sort-order", one_of("ascending", "descending"), "ascending")
    snapshot_ordering: bool = _option("sequence.snapshot-ordering", boolean, False)
    """Whether rows of flushes are ordered by the snapshot that added them instead of by their arrival in the bucket."""
    sequence_auto_padding: tuple[str, ...] = _option("sequence.auto-padding", names_among(*SEQUENCE_PADDINGS), ())
    rowkind_field: str | None = _option("rowkind.field", plain, None)
    ignore_delete: bool = _option("ignore-delete", boolean, False, *_IGNORE_DELETE_ALIASES)
    ignore_update_before: bool = _option("ignore-update-before", boolean, False)
    compaction_trigger: int = _option("num-sorted-run.compaction-trigger", integer(1), 5)
    num_levels: int = _option("num-levels", integer(2), 6)
    """At least 2; ``compaction_trigger`` + 1 when the option is not set."""
    max_size_amplification_percent: int = _option("compaction.max-size-amplification-percent", integer(0), 200)
    size_ratio: int = _option("compaction.size-ratio", integer(0), 1)
    """Percent by which a sorted run may be larger than the newer ones and still be compacted with them."""
    small_file_ratio: float = _option("compaction.small-file-ratio", fraction, 0.7)
    target_file_row_count: int | None = _option("target-file-row-num", integer(1, LONG_MAX), None)
    """Always None: files are cut by size alone."""
    target_file_size_bytes: int = _option("target-file-size", size_bytes, 128 << 20)
    file_format: str = _option("file.format", lowered, "parquet")
    file_format_per_level: tuple[tuple[int, str], ...] = _option("file.format.per.level", lowered_per_level, ())
    """(level, format) where it is not ``file_format``; ``file_settings`` says what holds for a file."""
    file_compression: str = _option("file.compression", lowered, "zstd")
    file_compression_per_level: tuple[tuple[int, str], ...] = _option(
        "file.compression.per.level", lowered_per_level, ()
    )
    file_suffix_include_compression: bool = _option("file.suffix.include.compression", boolean, False)
    changelog_file_format: str | None = _option("changelog-file.format", lowered, None)
    changelog_file_compression: str | None = _option("changelog-file.compression", lowered, None)
    changelog_file_stats_mode: str | None = _option("changelog-file.stats-mode", plain, None)
    zstd_level: int = _option("file.compression.zstd-level", integer(), 1)
    file_block_size_bytes: int | None = _option("file.block-size", size_bytes, None)
    """Size in the file of a row group of Parquet or a stripe of ORC; Avro knows none, as in Java."""
    data_file_prefix: str = _option("data-file.prefix", file_prefix, "data-")
    changelog_file_prefix: str = _option("changelog-file.prefix", file_prefix, "changelog-")
    write_only: bool = _option("write-only", boolean, False, "write.compaction-skip")
    full_compaction_delta_commits: int | None = _option("full-compaction.delta-commits", integer(1), None)
    force_lookup: bool = _option("force-lookup", boolean, False)
    force_up_level0: bool = _option("compaction.force-up-level-0", boolean, False)
    lookup_compact: str = _option("lookup-compact", one_of("radical", "gentle"), "radical")
    lookup_compact_max_interval: int | None = _option("lookup-compact.max-interval", integer(1), None)
    deletion_vectors: bool = _option("deletion-vectors.enabled", boolean, False)
    deletion_vectors_bitmap64: bool = _option("deletion-vectors.bitmap64", boolean, False)
    """Whether vectors are written with 64-bit positions; both widths are read."""
    deletion_vectors_merge_on_read: bool = _option("deletion-vectors.merge-on-read", boolean, False)
    partition_default_name: str = _option("partition.default-name", plain, "__DEFAULT_PARTITION__")
    legacy_partition_name: bool = _option("partition.legacy-name", boolean, True)
    stats_mode: str = _option("metadata.stats-mode", plain, "truncate(16)")
    stats_mode_per_level: tuple[tuple[int, str], ...] = _option("metadata.stats-mode.per.level", per_level, ())
    stats_dense_store: bool = _option("metadata.stats-dense-store", boolean, True)
    stats_keep_first_n_columns: int = _option("metadata.stats-keep-first-n-columns", integer(-1), -1)
    field_options: AllFieldOptions = field(default_factory=AllFieldOptions)
    """What ``fields.<column>.*`` says."""
    bloom_filters: tuple[BloomFilterColumn, ...] = ()
    """What ``file-index.bloom-filter.*`` says."""
    file_index_in_manifest_bytes: int = _option("file-index.in-manifest-threshold", size_bytes, 500)
    """Size up to which a file index stands in the manifest instead of a file of its own."""
    file_index_read: bool = _option("file-index.read.enabled", boolean, True)
    aggregation_remove_record_on_delete: bool = _option("aggregation.remove-record-on-delete", boolean, False)
    partial_update_remove_record_on_delete: bool = _option("partial-update.remove-record-on-delete", boolean, False)
    partial_update_remove_record_on_sequence_group: tuple[str, ...] = _option(
        "partial-update.remove-record-on-sequence-group", names, ()
    )
    primary_key_nullable: bool = _option("primary-key.nullable", boolean, False)
    manifest_compression: str = _option("manifest.compression", one_of("zstd", "none"), "zstd")
    manifest_target_file_size_bytes: int = _option("manifest.target-file-size", size_bytes, 8 << 20)
    manifest_full_compaction_size_bytes: int = _option("manifest.full-compaction-threshold-size", size_bytes, 16 << 20)
    manifest_merge_min_count: int = _option("manifest.merge-min-count", integer(1), 30)
    dynamic_partition_overwrite: bool = _option("dynamic-partition-overwrite", boolean, True)
    """Whether INSERT OVERWRITE of a partitioned table replaces the partitions of the new rows, and no others."""
    overwrite_upgrade: bool = _option("overwrite-upgrade", boolean, True)
    """Whether the files of an overwrite go to the highest level when they need no merge."""
    commit_max_retries: int = _option("commit.max-retries", integer(0), 10)
    commit_min_retry_wait_ms: int = _option("commit.min-retry-wait", duration_ms, 10)
    commit_max_retry_wait_ms: int = _option("commit.max-retry-wait", duration_ms, 10_000)
    commit_timeout_ms: int | None = _option("commit.timeout", duration_ms, None)

    @property
    def sequence_descending(self) -> bool:
        """Whether the smallest user sequence is the newest."""
        return self.sequence_sort_order == "descending"

    @property
    def update_before_first(self) -> bool:
        """Whether retracts come before adds of the same user sequence, whatever arrived first."""
        return "row-kind-flag" in self.sequence_auto_padding

    @property
    def max_level(self) -> int:
        return self.num_levels - 1

    @property
    def named_levels(self) -> set[int]:
        """The levels that an option for single levels names, also those above ``max_level``."""
        options = (self.file_format_per_level, self.file_compression_per_level, self.stats_mode_per_level)
        return {level for of_option in options for level, _ in of_option}

    @property
    def needs_lookup(self) -> bool:
        """Whether compaction of level 0 looks up what the levels above its output hold."""
        is_looked_at = self.changelog_producer == "lookup" or self.deletion_vectors
        return is_looked_at or self.merge_engine == "first-row" or self.force_lookup

    @property
    def upper_rows_are_whole(self) -> bool:
        """Whether a row on a level above 0 includes the rows of its key on higher levels, and must replace them.

        Not asked of deduplicate and first-row, whose merge gives the same with the older rows.
        """
        return self.needs_lookup and self.merge_engine in {"partial-update", "aggregation"}

    @property
    def hides_level0(self) -> bool:
        """Whether batch reads pass over level 0, because only compaction decides what its rows mean."""
        if self.deletion_vectors:
            return not self.deletion_vectors_merge_on_read
        return self.merge_engine == "first-row"

    @property
    def upper_keys_are_unique(self) -> bool:
        """Whether levels above 0 hold every key in one live row at most, because compaction looks for older ones."""
        return self.deletion_vectors or self.merge_engine == "first-row"

    @property
    def level0_patience(self) -> int:
        """Number of level-0 files from which on they are compacted even if the universal strategy would wait."""
        if self.lookup_compact == "radical":
            return 1
        return max(self.compaction_trigger, self.lookup_compact_max_interval or 2 * self.compaction_trigger)

    @property
    def compacts_without_rows(self) -> bool:
        """Whether a batch may have to compact buckets that get no rows in it."""
        return not self.write_only and (self.full_compaction_interval is not None or self.hides_level0)

    @property
    def full_compaction_interval(self) -> int | None:
        """Every so many batches all buckets are compacted fully; None for never."""
        if self.full_compaction_delta_commits is None and self.changelog_producer == "full-compaction":
            return 1
        return self.full_compaction_delta_commits


_DECLARED: Mapping[str, Any] = {
    option: f for f in fields(TableOptions) if f.metadata for option in (f.metadata["name"], *f.metadata["aliases"])
}
_ALSO_KNOWN = frozenset({"bucket-key", "type"})


def parse_options(options: Mapping[str, str], schema: TableSchema) -> TableOptions:
    """The typed options of a table; ``schema`` gives the column names that options may refer to.

    Raises ConfigError for unknown names and unreadable values, UnsupportedFeature for what Paimon knows and Tidemark
    does not do. Rules between options and columns are checked by ``table_validation.validate_table``.
    """
    values: dict[str, Any] = {}
    for name, text in options.items():
        declared = _DECLARED.get(name)
        if declared is not None and (name == declared.metadata["name"] or declared.name not in values):
            values[declared.name] = declared.metadata["parse"](name, text)
    parsed = TableOptions(**_with_dependent_defaults(values))
    # First, so that an engine that is not supported is named rather than one of its options.
    _check_supported(parsed)
    for name, text in options.items():
        if name not in _DECLARED and not is_field_option(name) and not is_bloom_filter_option(name):
            _check_undeclared(name, text)
    by_column = parse_field_options(options, schema.column_names)
    return replace(parsed, field_options=by_column, bloom_filters=parse_bloom_filters(options))


def options_of(schema: TableSchema) -> TableOptions:
    """The typed options of a schema."""
    return parse_options(schema.options, schema)


def known_names() -> tuple[str, ...]:
    """Every option name that may stand in a table's options, sorted."""
    return tuple(sorted({*_DECLARED, *_ALSO_KNOWN, *known.KEPT_FOR_OTHERS, *known.REFUSED}))


def is_acted_on(name: str) -> bool:
    """Whether the option has a typed value among ``TableOptions`` itself, which is not so for families of names."""
    return name in _DECLARED


def _with_dependent_defaults(values: dict[str, Any]) -> dict[str, Any]:
    if "compaction_trigger" in values:
        values.setdefault("num_levels", min(values["compaction_trigger"] + 1, INT_MAX))
    return values


def _check_undeclared(name: str, text: str) -> None:
    if name == "type" and text.lower() != "table":
        raise UnsupportedFeature(f"option 'type': {text!r} is not supported; supported: table")
    if name in _ALSO_KNOWN:
        return
    instead = known.refusal_of(name, text)
    if instead is not None:
        raise UnsupportedFeature(f"option {name!r} is not supported yet: {instead}")
    if name in known.REFUSED or known.is_kept_for_others(name):
        return
    near = difflib.get_close_matches(name, known_names(), n=1, cutoff=0.0)
    raise ConfigError(f"option {name!r} is unknown; the nearest known option is {near[0]!r}")


def _check_supported(options: TableOptions) -> None:
    for name, value, supported in (
        ("merge-engine", options.merge_engine, MERGE_ENGINES),
        ("changelog-producer", options.changelog_producer, CHANGELOG_PRODUCERS),
    ):
        if value not in supported:
            raise UnsupportedFeature(f"option {name!r}: {value!r} is not supported; supported: {', '.join(supported)}")
    if options.update_before_first and len(options.sequence_auto_padding) > 1:
        # In the old versions that know the option arrival order decides between such values, never the flag.
        raise UnsupportedFeature(
            "option 'sequence.auto-padding': row-kind-flag has no meaning beside a padding with micros, which leaves "
            "no equal values; use row-kind-flag alone"
        )
    if options.target_file_row_count is not None:
        raise UnsupportedFeature("option 'target-file-row-num' is not supported: files are cut by 'target-file-size'")
