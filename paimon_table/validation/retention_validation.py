"""Rules between the options for retention, expiring rows and kept deletes.

Conflicts that Java finds only at a commit or a write are refused here.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.options.names import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    KEEP_DELETES,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_PATTERN,
    PROCESS_TIME_ZONE,
    RECORD_EXPIRE_TIME,
    RECORD_TIME_FIELD,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    TAG_CREATION_DELAY,
    TAG_PERIOD_DURATION,
)
from paimon_table.options.partition_time_pattern import formatter_pattern
from paimon_table.options.retention_options import RetentionOptions
from paimon_table.options.table_options import TableOptions
from paimon_table.options.time_zones import zone_of
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import TIMES_OF_ROWS

_PERIODS_MS = {"daily": 86_400_000, "hourly": 3_600_000, "two-hours": 7_200_000}


def check_retention(schema: TableSchema, options: RetentionOptions) -> None:
    """Check that upper limits are not below lower limits, that a delay is shorter than a period, and that times can be
    parsed."""
    for most, least, names in (
        (options.snapshot_num_max, options.snapshot_num_min, (SNAPSHOT_NUM_RETAINED_MAX, SNAPSHOT_NUM_RETAINED_MIN)),
        (options.most_changelogs, options.least_changelogs, (CHANGELOG_NUM_RETAINED_MAX, CHANGELOG_NUM_RETAINED_MIN)),
    ):
        if most < least:
            raise ConfigError(
                f"option {names[0]!r}: {most} is less than {least} of {names[1]!r}; set {names[1]!r} to at most {most}",
                option=names[0],
            )
    zone_of(PROCESS_TIME_ZONE, options.tag_time_zone)
    if options.tag_period_duration_ms is not None and options.tag_period_duration_ms < 60_000:
        raise ConfigError(
            f"option {TAG_PERIOD_DURATION!r}: names of tags have minutes; write at least 1 min",
            option=TAG_PERIOD_DURATION,
        )
    if options.tag_delay_ms >= (options.tag_period_duration_ms or _PERIODS_MS[options.tag_period]):
        raise ConfigError(
            f"option {TAG_CREATION_DELAY!r}: {options.tag_delay_ms} ms is not shorter than a period; write less",
            option=TAG_CREATION_DELAY,
        )
    _check_partitions(schema, options)


def _check_partitions(schema: TableSchema, options: RetentionOptions) -> None:
    if options.partition_timestamp_formatter is not None:
        formatter_pattern(options.partition_timestamp_formatter)
    if options.partition_expiration_time_ms is None:
        return
    if not schema.partition_keys:
        raise ConfigError(
            f"option {PARTITION_EXPIRATION_TIME!r}: the table has no partitions; remove it, or partition the table",
            option=PARTITION_EXPIRATION_TIME,
        )
    pattern = options.partition_timestamp_pattern
    if pattern is not None and not any(f"${name}" in pattern for name in schema.partition_keys):
        raise ConfigError(
            f"option {PARTITION_TIMESTAMP_PATTERN!r}: {pattern!r} names no partition column; write $ before one of "
            f"{', '.join(schema.partition_keys)}",
            option=PARTITION_TIMESTAMP_PATTERN,
        )


def check_expiry(schema: TableSchema, options: TableOptions) -> None:
    """Check that the column with the time exists and has a type for times."""
    if options.record_expire_time_ms is None:
        return
    name = options.record_time_field
    if not name:
        raise ConfigError(
            f"option {RECORD_EXPIRE_TIME!r} needs {RECORD_TIME_FIELD!r}, the column with the time of a row; name it",
            option=RECORD_EXPIRE_TIME,
        )
    if not schema.has_column(name):
        raise ConfigError(
            f"option {RECORD_TIME_FIELD!r}: can not find time field {name!r}; columns are: "
            f"{', '.join(schema.column_names)}",
            option=RECORD_TIME_FIELD,
        )
    field = schema.field(name)
    if field.type.root not in TIMES_OF_ROWS:
        raise ConfigError(
            f"option {RECORD_TIME_FIELD!r}: column {name!r} should be one of INT, BIGINT, or TIMESTAMP, but is "
            f"{field.type}; name another column",
            option=RECORD_TIME_FIELD,
        )


def check_kept_deletes(options: TableOptions) -> None:
    """Check that every reader skips kept deletes, and that a key has one deciding row."""
    if options.keep_deletes_ms is None:
        return
    wrong = None
    if options.merge_engine != "deduplicate":
        wrong = f"needs 'merge-engine' = deduplicate, not {options.merge_engine}"
    elif options.deletion_vectors:
        wrong = "and 'deletion-vectors.enabled' exclude each other, because readers would have to merge"
    elif options.is_postponed:
        wrong = "needs another 'bucket' than -2, whose rows wait for a compaction job"
    if wrong is not None:
        raise ConfigError(f"option {KEEP_DELETES!r} {wrong}; remove one of the two", option=KEEP_DELETES)
