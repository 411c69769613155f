"""Table options without effect: another option replaces them, or the table does not use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from paimon_table import TableOptions
from paimon_table.options.file_settings import used_settings
from paimon_table.options.names import (
    ASSIGNER_PARALLELISM,
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    DYNAMIC_OVERWRITE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FORCE_LOOKUP,
    INITIAL_BUCKETS,
    LEGACY_PARTITION_NAME,
    LOOKUP_COMPACT,
    MERGE_ENGINE,
    NUM_LEVELS,
    PARTITION_DEFAULT_NAME,
    PLAN_SORT_PARTITION,
    POSTPONE_BUCKET_ROWS,
    POSTPONE_BUCKET_SIZE,
    POSTPONE_BUCKETS,
    ROW_DEDUPLICATE,
    STATS_MODE_PER_LEVEL,
    ZSTD_LEVEL,
)
from pipelines.config.options_without_effect import parsed

_OF_FILES = (FILE_FORMAT, FILE_FORMAT_PER_LEVEL, FILE_COMPRESSION, FILE_COMPRESSION_PER_LEVEL)
_OF_PARTITIONS = (
    PARTITION_DEFAULT_NAME,
    LEGACY_PARTITION_NAME,
    PLAN_SORT_PARTITION,
    DYNAMIC_OVERWRITE,
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The reason why an option has no effect, from the typed values of the options that it reads."""

    option: str
    reads: tuple[str, ...]
    reason: Callable[[TableOptions], str | None]


def _looks_up(options: TableOptions) -> str | None:
    wanted = "changelog-producer = lookup, merge-engine = first-row, deletion-vectors.enabled or force-lookup"
    return None if replace(options, has_key=True).needs_lookup else f"without {wanted}"


def _has_zstd(options: TableOptions) -> str | None:
    found = sorted({settings.compression for settings in used_settings(options)})
    return None if "zstd" in found else f"on files with compression {', '.join(found)}"


def _has_updates(options: TableOptions) -> str | None:
    return "with merge-engine = first-row, whose changelog has no updates" if _is_first_row(options) else None


def _is_first_row(options: TableOptions) -> bool:
    return options.merge_engine == "first-row"


def _beside(name: str, value: Callable[[TableOptions], object]) -> Callable[[TableOptions], str | None]:
    return lambda options: None if value(options) is None else f"with {name}, which replaces it"


_RULES = (
    _Rule(LOOKUP_COMPACT, (CHANGELOG_PRODUCER, MERGE_ENGINE, DELETION_VECTORS, FORCE_LOOKUP), _looks_up),
    _Rule(
        ZSTD_LEVEL,
        (*_OF_FILES, CHANGELOG_PRODUCER, CHANGELOG_FILE_FORMAT, CHANGELOG_FILE_COMPRESSION, NUM_LEVELS),
        _has_zstd,
    ),
    _Rule(ROW_DEDUPLICATE, (MERGE_ENGINE,), _has_updates),
    _Rule(
        ASSIGNER_PARALLELISM,
        (INITIAL_BUCKETS,),
        _beside(INITIAL_BUCKETS, lambda options: options.dynamic_bucket_initial_buckets),
    ),
    _Rule(
        POSTPONE_BUCKET_ROWS,
        (POSTPONE_BUCKETS,),
        _beside(POSTPONE_BUCKETS, lambda options: options.postpone_default_bucket_num),
    ),
    _Rule(
        POSTPONE_BUCKET_SIZE,
        (POSTPONE_BUCKETS,),
        _beside(POSTPONE_BUCKETS, lambda options: options.postpone_default_bucket_num),
    ),
    _Rule(
        POSTPONE_BUCKET_SIZE,
        (POSTPONE_BUCKET_ROWS,),
        _beside(POSTPONE_BUCKET_ROWS, lambda options: options.postpone_target_row_num),
    ),
)


def options_replaced(
    stated: Collection[str], effective: Mapping[str, str], has_key: bool, has_partitions: bool
) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for the options of a table with or without a key and partitions."""
    for rule in _RULES:
        options = parsed(effective, rule.reads) if rule.option in stated else None
        reason = None if options is None else rule.reason(options)
        if reason is not None:
            yield rule.option, f"option '{rule.option}' has no effect {reason}; remove it"
    for name in () if has_partitions else _OF_PARTITIONS:
        if name in stated:
            yield name, f"option '{name}' has no effect on a table without `partition_by`; remove it"
    for name in () if has_key else (FILE_FORMAT_PER_LEVEL, FILE_COMPRESSION_PER_LEVEL, STATS_MODE_PER_LEVEL):
        options = parsed(effective, (name,)) if name in stated else None
        if options is not None and max(options.named_levels, default=0) > 0:
            yield (
                name,
                f"option '{name}' has no effect on level {max(options.named_levels)}: all files of a table without"
                " primary key are on level 0; remove that level",
            )
