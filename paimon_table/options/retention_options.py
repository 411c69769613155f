"""The options for retention: of snapshots, changelogs, tags, partitions, consumers."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.option_declaration import Need, option
from paimon_table.option_values import INT_MAX, boolean, duration_ms, integer, one_of, plain, word_of
from paimon_table.options.names import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    CONSUMER_EXPIRATION_TIME,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    PROCESS_TIME_ZONE,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
    TAG_CREATION,
    TAG_CREATION_DELAY,
    TAG_CREATION_PERIOD,
    TAG_PERIOD_DURATION,
)

PARTITION_STRATEGIES = ("values-time",)
TAG_CREATIONS = ("none", "process-time")
TAG_PERIODS = ("daily", "hourly", "two-hours")
TAG_PERIOD_FORMATTERS = ("with_dashes", "without_dashes", "without_dashes_and_spaces")

_HOUR_MS = 3_600_000
_EXPIRES_PARTITIONS = Need(PARTITION_EXPIRATION_TIME)
_MAKES_TAGS = Need(TAG_CREATION, ("process-time",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """The retention of a table; times in milliseconds."""

    snapshot_num_min: int = option(SNAPSHOT_NUM_RETAINED_MIN, integer(1), 10)
    snapshot_num_max: int = option(SNAPSHOT_NUM_RETAINED_MAX, integer(1), INT_MAX)
    snapshot_time_ms: int = option(SNAPSHOT_TIME_RETAINED, duration_ms, _HOUR_MS)
    snapshot_expire_limit: int = option(SNAPSHOT_EXPIRE_LIMIT, integer(1), 50)
    """The most snapshots that one expiry removes."""
    clean_empty_directories: bool = option(
        "snapshot.clean-empty-directories", boolean, False, "snapshot.expire.clean-empty-directories"
    )
    """Whether directories of buckets and partitions are removed with their last file."""
    changelog_num_min: int | None = option(CHANGELOG_NUM_RETAINED_MIN, integer(1), None)
    """If this option or one of the next two is None, the option for snapshots applies."""
    changelog_num_max: int | None = option(CHANGELOG_NUM_RETAINED_MAX, integer(1), None)
    changelog_time_ms: int | None = option(CHANGELOG_TIME_RETAINED, duration_ms, None)
    consumer_expiration_time_ms: int | None = option(CONSUMER_EXPIRATION_TIME, duration_ms, None)
    """The age of its file at which a consumer is deleted."""
    consumer_changelog_only: bool = option("consumer.changelog-only", boolean, False)
    """Whether consumers keep only changelogs, not snapshots."""
    partition_expiration_time_ms: int | None = option(PARTITION_EXPIRATION_TIME, duration_ms, None)
    """The age, by the time in its values, at which a partition is dropped."""
    partition_check_interval_ms: int = option(
        "partition.expiration-check-interval", duration_ms, _HOUR_MS, needs=_EXPIRES_PARTITIONS
    )
    partition_strategy: str = option(
        PARTITION_EXPIRATION_STRATEGY, word_of(*PARTITION_STRATEGIES), "values-time", needs=_EXPIRES_PARTITIONS
    )
    partition_timestamp_formatter: str | None = option(
        PARTITION_TIMESTAMP_FORMATTER, plain, None, needs=_EXPIRES_PARTITIONS
    )
    partition_timestamp_pattern: str | None = option(
        PARTITION_TIMESTAMP_PATTERN, plain, None, needs=_EXPIRES_PARTITIONS
    )
    partition_expiration_max_num: int = option(
        "partition.expiration-max-num", integer(1), 100, needs=_EXPIRES_PARTITIONS
    )
    """The most partitions that one check drops."""
    partition_expiration_batch_size: int | None = option(
        "partition.expiration-batch-size", integer(1), None, needs=_EXPIRES_PARTITIONS
    )
    """The most partitions that one snapshot drops."""
    tag_creation: str = option(TAG_CREATION, word_of(*TAG_CREATIONS), "none")
    tag_period: str = option(TAG_CREATION_PERIOD, one_of(*TAG_PERIODS), "daily", needs=_MAKES_TAGS)
    tag_period_duration_ms: int | None = option(TAG_PERIOD_DURATION, duration_ms, None, needs=_MAKES_TAGS)
    """Replaces ``tag_period``."""
    tag_delay_ms: int = option(TAG_CREATION_DELAY, duration_ms, 0, needs=_MAKES_TAGS)
    tag_period_formatter: str = option(
        "tag.period-formatter", one_of(*TAG_PERIOD_FORMATTERS), "with_dashes", needs=_MAKES_TAGS
    )
    tag_num_max: int | None = option("tag.num-retained-max", integer(1), None, needs=_MAKES_TAGS)
    """The number of automatic tags that are kept."""
    tag_automatic_completion: bool = option("tag.automatic-completion", boolean, False, needs=_MAKES_TAGS)
    """Whether a tag's period is the one right after that of the previous tag."""
    tag_time_zone: str | None = option(PROCESS_TIME_ZONE, plain, None, needs=_MAKES_TAGS)
    """The time zone in which periods begin; None means the time zone of the process."""
    tag_default_time_ms: int | None = option("tag.default-time-retained", duration_ms, None)
    """The default lifetime of tags; None: unlimited."""
    tag_time_expiry: bool = option("tag.time-expire-enabled", boolean, True)

    @property
    def least_changelogs(self) -> int:
        return self.snapshot_num_min if self.changelog_num_min is None else self.changelog_num_min

    @property
    def most_changelogs(self) -> int:
        return self.snapshot_num_max if self.changelog_num_max is None else self.changelog_num_max

    @property
    def longest_changelog_ms(self) -> int:
        return self.snapshot_time_ms if self.changelog_time_ms is None else self.changelog_time_ms

    @property
    def outlives_snapshots(self) -> bool:
        """Whether the changelog of a snapshot is kept longer than the snapshot."""
        return (
            self.most_changelogs > self.snapshot_num_max
            or self.least_changelogs > self.snapshot_num_min
            or self.longest_changelog_ms > self.snapshot_time_ms
        )
