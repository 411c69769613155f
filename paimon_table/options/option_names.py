"""Paimon's table options without effect in Tidemark: those that it keeps for others, and those that it refuses.

An option that would change the files or the meaning of the table must have an effect or be refused, never ignored. An
option that only readers, maintenance jobs or other writers use stays unchanged in the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_table.option_declaration import ChangeRule, freely, never
from paimon_table.options.names import DELETION_VECTORS_MODIFIABLE, STREAMING_READ_OVERWRITE

HONOURED = frozenset({
    # when a commit waits for its compaction: here compaction is always part of the commit
    "changelog-producer.lookup-wait", "commit.force-compact", "lookup-wait",
    # a permission for ALTER TABLE
    DELETION_VECTORS_MODIFIABLE,
    # a permission not to keep the order of rows, which is always kept
    "bucket-append-ordered",
    # hints that Tidemark always honours
    "manifest.merge-optimize.enabled",
    # where the table is opened
    "path",
    # snapshots always expire in parallel with commits
    "snapshot.expire.execution-mode",
})  # fmt: skip
"""Exact names that are kept in the schema and only confirm what Tidemark does."""

KEPT_FOR_OTHERS = HONOURED | frozenset({
    # readers
    "batch-scan-mode", "continuous.discovery-interval", "file-reader-async-threshold", "incremental-between",
    "incremental-between-scan-mode", "incremental-between-tag-to-snapshot", "incremental-between-timestamp",
    "incremental-to-auto-tag",
    "parallel-scan.split-size", "query-auth.enabled", "streaming-read-append-overwrite", "streaming-read-mode",
    STREAMING_READ_OVERWRITE, "streaming.read.snapshot.delay", "table-read.sequence-number.enabled",
    # engines that run Paimon's own jobs
    "async-file-write", "auto-create", "delete.force-produce-changelog",
    "end-input.check-partition-expire", "postpone.batch-write-fixed-bucket", "unaware-bucket.compaction.parallelism",
    # maintenance jobs
    "partition.idle-time-to-report-statistic", "partition.mark-done-action", "partition.mark-done-action.http.url",
    "partition.mark-done-action.custom.class",
    # memory, threads and caches of other writers
    "cache-page-size", "commit.catalog.lock", "compaction.max.file-num",
    "file-operation.thread-num", "local-merge-buffer-size", "local-sort.max-num-file-handles",
    "num-sorted-run.stop-trigger", "page-size", "sort-compaction.range-strategy",
    "sort-compaction.local-sample.magnification", "sort-engine", "sort-spill-buffer-size", "sort-spill-threshold",
    "spill-compression", "spill-compression.zstd-level", "write-buffer-for-append", "write-buffer-size",
    "write-buffer-spill.max-disk-size", "write-buffer-spillable", "write-manifest-cache", "write-max-writers-to-spill",
    "zorder.var-length-contribution",
    # a limit for append tables (a bucket has one index file)
    "deletion-vector.index-file.target-size",
})  # fmt: skip
"""Exact names that are kept in the schema and have no effect on what Tidemark writes."""

READER_PREFIXES = (
    "scan.", "read.", "source.", "consumer.", "consumer-", "lookup.async", "lookup.refresh", "metastore.",
)  # fmt: skip
"""Families of names that only readers and streaming readers use."""

OWN_PREFIX = "tidemark."
"""The facts that a pipeline stores about the sources of a table; only pipelines read them."""

KEPT_PREFIXES = (
    *READER_PREFIXES, "snapshot.", "tag.", "lookup.", "sink.", "partition.end-input-", "partition.mark-done.", "orc.",
    "parquet.", "avro.", "catalog.", "global-index.search.",
    OWN_PREFIX,
)  # fmt: skip
"""Families of names that are kept like the ones above."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an option is refused, and the values that change nothing and are therefore accepted."""

    instead: str
    harmless: frozenset[str] = field(default_factory=frozenset)
    change: ChangeRule = freely
    misleads_readers: bool = False
    """Whether readers that do not know the option misread the rows of a table with it."""


def _off(instead: str, change: ChangeRule = freely, misleads_readers: bool = False) -> Refusal:
    return Refusal(instead, frozenset({"false"}), change, misleads_readers)


_NO_DYNAMIC = "only fixed buckets are supported; set 'bucket' to a number of at least 1 and remove the option"
_NO_INDEX = "bloom filters are the only file indexes that are written; use file-index.bloom-filter.columns"
_NO_EXTERNAL = "data files are written below the table directory only; remove the option"
_NO_TIME_TYPE = "the type of the column defines the unit of its times; remove the option"
_NO_BRANCH = "Tidemark reads and writes the table itself, not a branch; remove the option"
_NO_EARLY = "full compaction runs on request only; remove the option"

REFUSED: Mapping[str, Refusal] = {
    "branch": Refusal(_NO_BRANCH, frozenset({"main"}), misleads_readers=True),
    "fallback-branch": Refusal(_NO_BRANCH, misleads_readers=True),
    "scan.fallback-branch": Refusal(_NO_BRANCH, misleads_readers=True),
    "scan.primary-branch": Refusal(_NO_BRANCH, misleads_readers=True),
    "scan.fallback-snapshot-branch": Refusal(_NO_BRANCH, misleads_readers=True),
    "scan.fallback-delta-branch": Refusal(_NO_BRANCH, misleads_readers=True),
    "data-file.thin-mode": _off("data files always have the key columns; remove the option"),
    "data-file.external-paths": Refusal(_NO_EXTERNAL),
    "data-file.external-paths.strategy": Refusal(_NO_EXTERNAL, frozenset({"none"})),
    "data-file.external-paths.specific-fs": Refusal(_NO_EXTERNAL),
    "data-file.path-directory": Refusal(_NO_EXTERNAL, change=never, misleads_readers=True),
    "index-file-in-data-file-dir": _off(_NO_EXTERNAL, change=never, misleads_readers=True),
    "write.sequence-number-init-mode": Refusal("sequence numbers start after those of the files", frozenset({"scan"})),
    "record-level.time-field-type": Refusal(_NO_TIME_TYPE),
    "compaction.optimization-interval": Refusal(_NO_EARLY),
    "compaction.total-size-threshold": Refusal(_NO_EARLY),
    "compaction.incremental-size-threshold": Refusal(_NO_EARLY),
    "compaction.offpeak-ratio": Refusal("there are no off-peak hours; remove the option", frozenset({"0"})),
    "compaction.offpeak.start.hour": Refusal("there are no off-peak hours; remove the option", frozenset({"-1"})),
    "compaction.offpeak.end.hour": Refusal("there are no off-peak hours; remove the option", frozenset({"-1"})),
    "compaction.force-rewrite-all-files": _off("unchanged files are never rewritten; remove the option"),
    "commit.force-create-snapshot": _off("a batch without rows makes no snapshot; remove the option"),
    "commit.callbacks": Refusal("commit callbacks are Java classes; remove the option"),
    "commit.user-prefix": Refusal("the commit user is the identity of the checkpoint; remove the option"),
    "row-tracking.enabled": _off(
        "rows have no ids in a table with a primary-key; remove the option", change=never, misleads_readers=True
    ),
    "data-evolution.enabled": _off(
        "rows have no ids in a table with a primary-key; remove the option", change=never, misleads_readers=True
    ),
    "pk-clustering-override": _off(
        "rows are clustered by the primary key; remove the option", change=never, misleads_readers=True
    ),
    "manifest.delete-file-drop-stats": _off("DELETE entries repeat the statistics; remove the option"),
    "manifest.sidecar.enabled": _off("manifests have no sidecar files; remove the option"),
    "manifest-sort.enabled": _off("manifests are not sorted; remove the option"),
    "metadata.iceberg.storage": Refusal("no Iceberg metadata is written", frozenset({"disabled"})),
    "chain-table.enabled": _off("chain tables are not supported; remove the option", misleads_readers=True),
    "format-table.implementation": Refusal(
        "only Paimon tables are supported; remove the option", misleads_readers=True
    ),
    "object-location": Refusal("only Paimon tables are supported; remove the option", misleads_readers=True),
    "tag.callbacks": Refusal("callbacks of tags are Java classes; remove the option", frozenset({""})),
    "tag.create-success-file": _off("a tag is a single file; remove the option"),
    "partition.timestamp-format.strict": _off("partitions whose values are not times are never dropped; remove it"),
    "field-default-func": Refusal("default values are not supported; remove the option"),
    "blob-field": Refusal("type BLOB is not supported; remove the option", misleads_readers=True),
}
"""Names that would change files or results in a way that Tidemark does not implement."""

REFUSED_PREFIXES: Mapping[str, str] = {
    "file-index.": _NO_INDEX,
    "metadata.iceberg.": "no Iceberg metadata is written; remove the option",
    "postpone.": _NO_DYNAMIC,
    "record-level.": "Paimon 1.4 has no such option; remove it",
    "chain-table.": "chain tables are not supported; remove the option",
    "global-index.": "global indexes are not supported; remove the option",
    "iceberg.": "no Iceberg metadata is written; remove the option",
    "blob-": "type BLOB is not supported; remove the option",
}
"""Families of names that are refused like the ones above."""


UNSUPPORTED = frozenset({
    "add-column-before-partition", "alter-column-null-to-not-null.disabled",
    "clustering.incremental", "clustering.incremental.mode", "clustering.incremental.optimize-write",
    "commit.discard-duplicate-files", "commit.strict-mode.last-safe-snapshot",
    "compaction.file-num-limit", "data-file.external-paths.weights",
    "delete-file.thread-num", "disable-explicit-type-casting", "format-table.commit-hive-sync-url",
    "format-table.file.compression", "format-table.partition-path-only-value", "key-value.sequence_number.enabled",
    "log.scan", "log.scan.timestamp-millis", "manifest.format", "partition.mark-done-action.http.params",
    "partition.sink-strategy", "stream-scan-mode", "upsert-key", "vector-field", "vector.file.format",
    "vector.target-file-size", "write.batch-memory", "write.batch-size",
})  # fmt: skip
"""Options of Paimon that Tidemark neither supports nor keeps."""

UNSUPPORTED_PREFIXES = (
    "blob.", "clustering.history-partition.", "commit.callback.", "materialized-table.", "variant.",
    "visibility-callback.",
)  # fmt: skip
"""Families of names like the ones above."""


def is_unsupported(name: str) -> bool:
    """Whether the name is an option of Paimon that Tidemark does not support."""
    return name in UNSUPPORTED or name.startswith(UNSUPPORTED_PREFIXES)


def is_kept_for_others(name: str) -> bool:
    """Whether only readers, maintenance jobs or other writers use this option."""
    return name in KEPT_FOR_OTHERS or name.startswith(KEPT_PREFIXES)


def refusal_of(name: str, value: str) -> str | None:
    """The remedy for an option that Tidemark does not implement; None if the option is accepted."""
    if name in KEPT_FOR_OTHERS:
        return None
    refusal = REFUSED.get(name)
    if refusal is not None:
        return None if value.strip().lower() in refusal.harmless else refusal.instead
    return next((text for prefix, text in REFUSED_PREFIXES.items() if name.startswith(prefix)), None)
