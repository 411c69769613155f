"""Table options that are only stored: the known names of each family, and what a file that states them should know.

The table engine stores every name of these families for others, whatever follows the prefix. The author of a pipeline
file means a name that exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from paimon_table.nearest_name import SURE, nearest
from paimon_table.options.names import KEEP_DELETES, SEQUENCE_FIELD
from paimon_table.options.option_facts import is_typed, known_names
from paimon_table.options.option_names import (
    HONOURED,
    KEPT_PREFIXES,
    OWN_PREFIX,
    READER_PREFIXES,
    REFUSED,
    is_kept_for_others,
)
from pipelines.config.kept_values import without_column

TABLE_OPTIONS = frozenset({
    "consumer-id", "consumer.ignore-progress", "consumer.mode", "global-index.build.max-parallelism",
    "global-index.build.max-shard", "lookup.cache-file-retention", "lookup.cache-max-disk-size",
    "lookup.cache-max-memory-size", "lookup.cache-spill-compression", "lookup.cache.bloom.filter.enabled",
    "lookup.cache.bloom.filter.fpp", "lookup.cache.high-priority-pool-ratio", "lookup.hash-load-factor",
    "lookup.merge-buffer-size", "lookup.merge-records-threshold", "lookup.remote-file.enabled",
    "lookup.remote-file.level-threshold", "metastore.partitioned-table", "metastore.tag-to-partition",
    "metastore.tag-to-partition.preview", "partition.end-input-to-done", "read.batch-size", "scan.bounded.watermark",
    "scan.creation-time-millis", "scan.file-creation-time-millis", "scan.ignore-corrupt-files",
    "scan.ignore-lost-files", "scan.manifest.parallelism", "scan.max-splits-per-task", "scan.mode",
    "scan.snapshot-id", "scan.tag-name", "scan.timestamp", "scan.timestamp-millis",
    "scan.version", "scan.watermark",
    "sink.watermark-time-zone", "snapshot.watermark-idle-timeout", "source.split.open-file-cost",
    "source.split.target-size", "tag.batch.customized-name",
})  # fmt: skip
"""Paimon's options of tables (1.4) below the kept prefixes."""

ENGINE_OPTIONS = frozenset({
    "lookup.async", "lookup.async-thread-number", "lookup.bootstrap-parallelism", "lookup.cache",
    "lookup.dynamic-partition.refresh-interval", "lookup.refresh.async",
    "lookup.refresh.async.pending-snapshot-count", "lookup.refresh.full-load-threshold",
    "lookup.refresh.time-periods-blacklist", "partition.mark-done.recover-from-state", "read.allow.fullScan",
    "read.changelog", "read.readChangeLog", "read.stream.maxBytesPerTrigger", "read.stream.maxFilesPerTrigger",
    "read.stream.maxRowsPerTrigger", "read.stream.maxTriggerDelayMs", "read.stream.minRowsPerTrigger",
    "scan.bounded", "scan.infer-parallelism", "scan.infer-parallelism.max", "scan.parallelism",
    "scan.partitions", "scan.remove-normalize", "scan.split-enumerator.batch-size",
    "scan.split-enumerator.mode", "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval", "scan.watermark.emit.strategy", "scan.watermark.idle-timeout",
    "sink.clustering.sample-factor", "sink.clustering.sort-in-cluster", "sink.committer-cpu",
    "sink.committer-memory", "sink.committer-operator-chaining", "sink.cross-partition.managed-memory",
    "sink.managed.writer-buffer-memory", "sink.operator-uid.suffix", "sink.parallelism",
    "sink.savepoint.auto-tag", "sink.use-managed-memory-allocator", "sink.writer-coordinator.enabled",
    "sink.writer-cpu", "sink.writer-memory", "source.checkpoint-align.enabled",
    "source.checkpoint-align.timeout", "source.operator-uid.suffix",
})  # fmt: skip
"""Options of its Flink and Spark connectors."""

FILE_OPTIONS = frozenset({
    "avro.codec", "avro.row-name-mapping", "orc.block.padding", "orc.block.padding.tolerance", "orc.block.size",
    "orc.bloom.filter.columns", "orc.bloom.filter.fpp", "orc.buffer.size.enforce", "orc.column.encoding.direct",
    "orc.compress", "orc.compress.size", "orc.compression.strategy", "orc.compression.zstd.level",
    "orc.compression.zstd.windowlog", "orc.create.index", "orc.dictionary.early.check",
    "orc.dictionary.implementation", "orc.dictionary.key.threshold", "orc.encoding.strategy", "orc.encrypt",
    "orc.mask", "orc.memory.pool", "orc.row.batch.size", "orc.row.child.limit", "orc.row.index.stride",
    "orc.rows.between.memory.checks", "orc.stripe.row.count", "orc.stripe.size",
    "orc.timestamp-ltz.legacy.type", "orc.write.batch-size", "orc.write.format",
    "orc.write.variable.length.blocks", "parquet.block.row.count.limit", "parquet.block.size",
    "parquet.bloom.filter.adaptive.enabled", "parquet.bloom.filter.candidates.number",
    "parquet.bloom.filter.enabled", "parquet.bloom.filter.expected.ndv", "parquet.bloom.filter.fpp",
    "parquet.bloom.filter.max.bytes", "parquet.column.statistics.enabled",
    "parquet.columnindex.truncate.length", "parquet.compression", "parquet.compression.codec.zstd.level",
    "parquet.compression.codec.zstd.workers", "parquet.dictionary.page.size", "parquet.enable.dictionary",
    "parquet.filter.bloom.enabled", "parquet.filter.columnindex.enabled", "parquet.filter.dictionary.enabled",
    "parquet.filter.record-level.enabled", "parquet.filter.stats.enabled", "parquet.memory.min.chunk.size",
    "parquet.memory.pool.ratio", "parquet.page.row.count.limit", "parquet.page.size",
    "parquet.page.size.check.estimate", "parquet.page.size.row.check.max", "parquet.page.size.row.check.min",
    "parquet.page.value.count.threshold", "parquet.page.verify-checksum.enabled",
    "parquet.page.write-checksum.enabled", "parquet.size.statistics.enabled",
    "parquet.statistics.truncate.length", "parquet.strict.typing", "parquet.variant.shreddingSchema",
    "parquet.writer.max-padding", "parquet.writer.version",
})  # fmt: skip
"""Properties of the Parquet, ORC and Avro libraries that Java's writers and readers pass on."""

_KNOWN = TABLE_OPTIONS | ENGINE_OPTIONS | FILE_OPTIONS

_NOT_HERE = (
    (("snapshot.watermark",), "`watermark.idle` of the rule says when a partition is idle"),
    (("tag.batch",), "tags are made for periods of time"),
    (("partition.",), "partitions are not marked"),
    (("parquet.", "orc.", "avro."), "files are written with file.compression and the settings of the table"),
)
"""What Tidemark does not do although the options of that name ask for it."""


def misspelt_options(stated: Collection[str]) -> Iterator[tuple[str, str]]:
    """(option, what is wrong) for names below a kept prefix that are one letter or so away from a known one.

    Options in which a pipeline remembers something are none that a file may state.
    """
    for name in stated:
        if name == KEEP_DELETES:
            yield (
                name,
                f"option '{name}' needs a '{SEQUENCE_FIELD}'; with `order_by` say it as `{{source_position:"
                " {keep_deletes: TIME}}`",
            )
        elif name.startswith(OWN_PREFIX):
            yield name, f"option '{name}' is where Tidemark stores what it has learnt about the table; remove it"
    for name in _unknown(stated):
        meant = _meant(name)
        if meant is not None:
            yield name, f"option '{name}' is unknown; did you mean '{meant}'?"


def options_for_others(stated: Collection[str]) -> Iterator[tuple[str, str]]:
    """(option, what to know) for stated options that Tidemark stores and does not act on."""
    unknown = set(_unknown(stated))
    for name in stated:
        if name.startswith(OWN_PREFIX):
            continue
        if name in unknown:
            if _meant(name) is None:
                yield name, f"option '{name}' is not known here; it is stored in the table for others as it is"
        elif is_stored_for_others(name) and name not in HONOURED and not name.startswith(READER_PREFIXES):
            reason = next((text for prefixes, text in _NOT_HERE if name.startswith(prefixes)), "")
            about = f" ({reason})" if reason else ""
            yield (
                name,
                f"option '{name}' has no effect on what Tidemark writes{about}; it is stored for other writers",
            )


def is_stored_for_others(name: str) -> bool:
    """Whether Tidemark stores the option and does not act on it."""
    return is_kept_for_others(name) and not is_typed(name) and name not in REFUSED


def _unknown(stated: Collection[str]) -> Iterator[str]:
    for name in stated:
        if name.startswith(KEPT_PREFIXES) and without_column(name) not in _KNOWN and name not in known_names():
            yield name


def _meant(name: str) -> str | None:
    """The option that a name is a misspelling of; one of a newer version looks like none."""
    return nearest(name, _KNOWN | {*known_names()}, at_least=SURE)
