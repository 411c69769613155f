"""Table options that are only stored: their names, and the values that their readers accept.

The names come from Paimon 1.4, from its Flink and Spark connectors, and from the libraries for Parquet, ORC and Avro.
Java's writers and readers pass options on to these libraries.

Paimon and the libraries parse such a value when they open, read or write the table, and fail if it is wrong. One
exception: if a value is neither true nor false, some libraries use the default. For the file formats, these rules were
checked against Java. The file formats take plain numbers where Paimon takes sizes with units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from paimon_table.errors import ConfigError
from paimon_table.option_values import (
    INT_MAX,
    LONG_MAX,
    Parser,
    boolean,
    duration_ms,
    fraction,
    integer,
    one_of,
    plain,
    size_bytes,
)

_int = integer()
_count = integer(1)
_long = integer(-LONG_MAX - 1, LONG_MAX)
_bytes = integer(1, LONG_MAX)
"""A size as file formats read it: a plain number."""
_page_bytes = integer(64)


def _zero_or(minimum: int, maximum: int) -> Parser:
    """Whole numbers between both, or 0 for none."""
    read = integer(minimum, maximum)
    return lambda name, text: 0 if text == "0" else read(name, text)


def _parquet_version(name: str, text: str) -> str:
    """In exactly this case."""
    if text not in ("v1", "v2", "PARQUET_1_0", "PARQUET_2_0"):
        raise ConfigError(f"option {name!r}: {text!r} is unknown; use one of: v1, v2", option=name)
    return text


_BY_TYPE: tuple[tuple[Parser, tuple[str, ...]], ...] = (
    (boolean, (
        "async-file-write", "auto-create", "bucket-append-ordered", "changelog-producer.lookup-wait",
        "commit.force-compact", "consumer.ignore-progress", "delete.force-produce-changelog",
        "deletion-vectors.modifiable", "end-input.check-partition-expire", "incremental-between-tag-to-snapshot",
        "lookup-wait", "lookup.async", "lookup.cache.bloom.filter.enabled", "lookup.refresh.async",
        "lookup.remote-file.enabled", "manifest.merge-optimize.enabled", "metastore.partitioned-table",
        "orc.block.padding", "orc.buffer.size.enforce", "orc.create.index", "orc.dictionary.early.check",
        "orc.timestamp-ltz.legacy.type", "orc.write.variable.length.blocks",
        "parquet.bloom.filter.adaptive.enabled", "parquet.bloom.filter.enabled",
        "parquet.column.statistics.enabled", "parquet.enable.dictionary", "parquet.filter.bloom.enabled",
        "parquet.filter.columnindex.enabled", "parquet.filter.dictionary.enabled",
        "parquet.filter.record-level.enabled", "parquet.filter.stats.enabled",
        "parquet.page.size.check.estimate", "parquet.page.verify-checksum.enabled",
        "parquet.page.write-checksum.enabled", "parquet.size.statistics.enabled", "parquet.strict.typing",
        "partition.end-input-to-done", "partition.mark-done.recover-from-state", "query-auth.enabled",
        "postpone.batch-write-fixed-bucket",
        "read.allow.fullScan", "read.changelog", "read.readChangeLog", "scan.bounded", "scan.ignore-corrupt-files",
        "scan.ignore-lost-files", "scan.infer-parallelism", "scan.remove-normalize",
        "sink.clustering.sort-in-cluster", "sink.committer-operator-chaining", "sink.savepoint.auto-tag",
        "sink.use-managed-memory-allocator", "sink.writer-coordinator.enabled", "source.checkpoint-align.enabled",
        "streaming-read-append-overwrite", "streaming-read-overwrite", "table-read.sequence-number.enabled",
        "write-buffer-for-append", "write-buffer-spillable",
    )),
    (size_bytes, (
        "cache-page-size", "deletion-vector.index-file.target-size", "file-reader-async-threshold",
        "local-merge-buffer-size", "lookup.cache-max-disk-size", "lookup.cache-max-memory-size",
        "lookup.merge-buffer-size", "page-size", "sink.committer-memory", "sink.cross-partition.managed-memory",
        "sink.managed.writer-buffer-memory", "sink.writer-memory", "sort-spill-buffer-size",
        "source.split.open-file-cost", "source.split.target-size", "write-buffer-size",
        "write-buffer-spill.max-disk-size", "write-manifest-cache",
    )),
    (duration_ms, (
        "continuous.discovery-interval", "lookup.cache-file-retention", "lookup.dynamic-partition.refresh-interval",
        "partition.idle-time-to-report-statistic", "scan.watermark.alignment.max-drift",
        "scan.watermark.alignment.update-interval", "scan.watermark.idle-timeout",
        "snapshot.watermark-idle-timeout", "source.checkpoint-align.timeout", "streaming.read.snapshot.delay",
    )),
    (_int, (
        "compaction.max.file-num", "file-operation.thread-num", "global-index.build.max-parallelism",
        "global-index.build.max-shard", "local-sort.max-num-file-handles", "lookup.async-thread-number",
        "lookup.bootstrap-parallelism", "lookup.merge-records-threshold",
        "lookup.refresh.async.pending-snapshot-count", "lookup.refresh.full-load-threshold",
        "lookup.remote-file.level-threshold", "num-sorted-run.stop-trigger", "orc.compression.zstd.level",
        "orc.row.batch.size", "orc.row.child.limit", "orc.rows.between.memory.checks",
        "parquet.block.row.count.limit", "parquet.bloom.filter.candidates.number", "parquet.bloom.filter.max.bytes",
        "parquet.columnindex.truncate.length", "parquet.compression.codec.zstd.level",
        "parquet.compression.codec.zstd.workers", "parquet.page.size.row.check.max",
        "parquet.page.size.row.check.min", "parquet.page.value.count.threshold",
        "parquet.statistics.truncate.length", "parquet.writer.max-padding", "read.stream.maxFilesPerTrigger",
        "scan.infer-parallelism.max", "scan.manifest.parallelism", "scan.max-splits-per-task", "scan.parallelism",
        "scan.split-enumerator.batch-size", "sink.clustering.sample-factor", "sink.parallelism",
        "sort-compaction.local-sample.magnification", "sort-spill-threshold", "spill-compression.zstd-level",
        "unaware-bucket.compaction.parallelism", "write-max-writers-to-spill", "zorder.var-length-contribution",
    )),
    (_count, ("orc.write.batch-size", "parquet.page.row.count.limit", "read.batch-size")),
    (_page_bytes, ("parquet.dictionary.page.size", "parquet.page.size")),
    (_zero_or(1000, INT_MAX), ("orc.row.index.stride",)),
    (_zero_or(10, 31), ("orc.compression.zstd.windowlog",)),
    (_long, (
        "parquet.bloom.filter.expected.ndv", "parquet.memory.min.chunk.size", "read.stream.maxBytesPerTrigger",
        "read.stream.maxRowsPerTrigger", "read.stream.maxTriggerDelayMs", "read.stream.minRowsPerTrigger",
        "scan.bounded.watermark", "scan.creation-time-millis", "scan.file-creation-time-millis", "scan.snapshot-id",
        "scan.timestamp-millis", "scan.watermark",
    )),
    (_bytes, (
        "orc.block.size", "orc.compress.size", "orc.stripe.row.count", "orc.stripe.size", "parquet.block.size",
    )),
    (fraction, (
        "lookup.cache.bloom.filter.fpp", "lookup.cache.high-priority-pool-ratio", "lookup.hash-load-factor",
        "orc.block.padding.tolerance", "orc.bloom.filter.fpp", "orc.dictionary.key.threshold", "orc.memory.pool",
        "parquet.bloom.filter.fpp", "parquet.memory.pool.ratio", "sink.committer-cpu", "sink.writer-cpu",
    )),
    (_parquet_version, ("parquet.writer.version",)),
    (plain, (
        "avro.codec", "avro.row-name-mapping", "commit.catalog.lock", "consumer-id",
        "incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag",
        "lookup.cache-spill-compression", "lookup.refresh.time-periods-blacklist", "metastore.tag-to-partition",
        "orc.bloom.filter.columns", "orc.column.encoding.direct", "orc.dictionary.implementation", "orc.encrypt",
        "orc.mask", "orc.write.format", "parallel-scan.split-size", "parquet.variant.shreddingSchema",
        "partition.mark-done-action", "partition.mark-done-action.custom.class",
        "partition.mark-done-action.http.url", "path", "scan.partitions", "scan.tag-name",
        "scan.timestamp", "scan.version", "scan.watermark.alignment.group", "sink.operator-uid.suffix",
        "sink.watermark-time-zone", "source.operator-uid.suffix", "spill-compression", "streaming-read-mode",
        "tag.batch.customized-name",
    )),
)  # fmt: skip

_ONE_OF: Mapping[str, tuple[str, ...]] = {
    "batch-scan-mode": ("none", "compact"),
    "consumer.mode": ("exactly-once", "at-least-once"),
    "incremental-between-scan-mode": ("auto", "delta", "changelog", "diff"),
    "lookup.cache": ("auto", "full", "memory"),
    "metastore.tag-to-partition.preview": ("none", "process-time", "watermark", "batch"),
    "orc.compress": ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli"),
    "orc.compression.strategy": ("speed", "compression"),
    "orc.encoding.strategy": ("speed", "compression"),
    "parquet.compression": ("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"),
    "scan.mode": (
        "default", "latest-full", "full", "latest", "latest-delta", "compacted-full", "from-timestamp",
        "from-creation-timestamp", "from-file-creation-time", "from-snapshot", "from-snapshot-full", "incremental",
    ),
    "scan.split-enumerator.mode": ("fair", "preemptive"),
    "scan.watermark.emit.strategy": ("on-periodic", "on-event"),
    "snapshot.expire.execution-mode": ("sync", "async"),
    "sort-compaction.range-strategy": ("size", "quantity"),
    "sort-engine": ("min-heap", "loser-tree"),
}  # fmt: skip

PARSERS: Mapping[str, Parser] = dict(
    chain(
        ((name, parse) for parse, names in _BY_TYPE for name in names),
        ((name, one_of(*words)) for name, words in _ONE_OF.items()),
    )
)
"""The parser of each known option; ``plain`` for those that take any text."""


def without_column(name: str) -> str:
    """The setting that a name means, which Parquet's may state for one column as ``name#column``."""
    return name.partition("#")[0] if name.startswith("parquet.") else name


def unreadable_values(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for values that no reader of the option can parse."""
    for name, text in options.items():
        parse = PARSERS.get(without_column(name))
        if parse is None:
            continue
        try:
            parse(name, text)
        except ConfigError as error:
            yield name, f"{error}; other engines that read or write the table may fail or ignore it"
