"""The options of a table as typed values with units, parsed once from the schema's string map.

Each field of ``TableOptions`` declares its Paimon name, its parser and its default, and nothing else does. Options that
Tidemark does not act on are classified in ``option_names``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from paimon_table import option_names as known
from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.option_values import boolean, duration_ms, fraction, integer, names, one_of, plain, size_bytes
from paimon_table.schema import TableSchema

_T = TypeVar("_T")

BUCKET_FUNCTIONS = ("default", "mod", "hive")
CHANGELOG_PRODUCERS = ("none", "input", "lookup")
MERGE_ENGINES = ("deduplicate",)


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
    merge_engine: str = _option("merge-engine", plain, "deduplicate")
    changelog_producer: str = _option("changelog-producer", plain, "none")
    row_deduplicate: bool = _option("changelog-producer.row-deduplicate", boolean, False)
    row_deduplicate_ignore_fields: tuple[str, ...] = _option(
        "changelog-producer.row-deduplicate-ignore-fields", names, ()
    )
    sequence_fields: tuple[str, ...] = _option("sequence.field", names, ())
    sequence_sort_order: str = _option("sequence.field.sort-order", one_of("ascending", "descending"), "ascending")
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
    target_file_size_bytes: int = _option("target-file-size", size_bytes, 128 << 20)
    file_format: str = _option("file.format", plain, "parquet")
    file_compression: str = _option("file.compression", plain, "zstd")
    zstd_level: int = _option("file.compression.zstd-level", integer(), 1)
    file_block_size_bytes: int | None = _option("file.block-size", size_bytes, None)
    data_file_prefix: str = _option("data-file.prefix", plain, "data-")
    changelog_file_prefix: str = _option("changelog-file.prefix", plain, "changelog-")
    write_only: bool = _option("write-only", boolean, False, "write.compaction-skip")
    lookup_wait: bool = _option("lookup-wait", boolean, True)
    lookup_compact: str = _option("lookup-compact", one_of("radical", "gentle"), "radical")
    partition_default_name: str = _option("partition.default-name", plain, "__DEFAULT_PARTITION__")
    legacy_partition_name: bool = _option("partition.legacy-name", boolean, True)
    stats_mode: str = _option("metadata.stats-mode", plain, "truncate(16)")
    stats_dense_store: bool = _option("metadata.stats-dense-store", boolean, True)
    stats_keep_first_n_columns: int = _option("metadata.stats-keep-first-n-columns", integer(-1), -1)
    field_stats_modes: tuple[tuple[str, str], ...] = ()
    """(column, mode) of every ``fields.<column>.stats-mode``."""
    primary_key_nullable: bool = _option("primary-key.nullable", boolean, False)
    manifest_compression: str = _option("manifest.compression", one_of("zstd", "none"), "zstd")
    manifest_target_file_size_bytes: int = _option("manifest.target-file-size", size_bytes, 8 << 20)
    manifest_full_compaction_size_bytes: int = _option("manifest.full-compaction-threshold-size", size_bytes, 16 << 20)
    manifest_merge_min_count: int = _option("manifest.merge-min-count", integer(1), 30)
    commit_max_retries: int = _option("commit.max-retries", integer(0), 10)
    commit_min_retry_wait_ms: int = _option("commit.min-retry-wait", duration_ms, 10)
    commit_max_retry_wait_ms: int = _option("commit.max-retry-wait", duration_ms, 10_000)
    commit_timeout_ms: int | None = _option("commit.timeout", duration_ms, None)

    @property
    def sequence_descending(self) -> bool:
        """Whether the smallest user sequence is the newest."""
        return self.sequence_sort_order == "descending"

    @property
    def max_level(self) -> int:
        return self.num_levels - 1

    @property
    def needs_lookup(self) -> bool:
        """Whether level 0 is compacted at once to find the value before each change."""
        return self.changelog_producer == "lookup"


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
    stats_modes = []
    for name, text in options.items():
        if name.startswith("fields."):
            stats_modes.append(_field_option(name, text, schema))
        elif name not in _DECLARED:
            _check_undeclared(name, text)
    return replace(parsed, field_stats_modes=tuple(stats_modes))


def options_of(schema: TableSchema) -> TableOptions:
    """The typed options of a schema."""
    return parse_options(schema.options, schema)


def known_names() -> tuple[str, ...]:
    """Every option name that may stand in a table's options, sorted."""
    return tuple(sorted({*_DECLARED, *_ALSO_KNOWN, *known.KEPT_FOR_OTHERS, *known.REFUSED}))


def _with_dependent_defaults(values: dict[str, Any]) -> dict[str, Any]:
    if "compaction_trigger" in values:
        values.setdefault("num_levels", values["compaction_trigger"] + 1)
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


def _field_option(name: str, text: str, schema: TableSchema) -> tuple[str, str]:
    """Split ``fields.<column>.stats-mode``; every other per-field option belongs to engines to come."""
    parts = name.split(".")
    if name == "fields.default-aggregate-function":
        raise UnsupportedFeature(f"option {name!r} is not supported yet: {known.REFUSED[name].instead}")
    for column in parts[1].split(","):
        if not schema.has_column(column):
            raise ConfigError(
                f"option {name!r}: field {column} can not be found in the table schema; columns are: "
                f"{', '.join(schema.column_names)}"
            )
    if len(parts) == 3 and parts[2] == "stats-mode":
        return parts[1], text
    raise UnsupportedFeature(
        f"option {name!r} is not supported yet: only fields.<column>.stats-mode is, as merge-engine=deduplicate needs "
        "no other per-field option; remove the option"
    )


def _check_supported(options: TableOptions) -> None:
    for name, value, supported in (
        ("merge-engine", options.merge_engine, MERGE_ENGINES),
        ("changelog-producer", options.changelog_producer, CHANGELOG_PRODUCERS),
        ("file.format", options.file_format, ("parquet",)),
        ("lookup-wait", str(options.lookup_wait).lower(), ("true",)),
        ("lookup-compact", options.lookup_compact, ("radical",)),
    ):
        if value not in supported:
            raise UnsupportedFeature(f"option {name!r}: {value!r} is not supported; supported: {', '.join(supported)}")
