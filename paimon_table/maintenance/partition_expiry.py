"""Dropping partitions whose time has passed.

Implements Paimon's partition expiry by the values of partitions (strategy values-time): drops a partition whose time is
longer ago than ``partition.expiration-time``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partition_times import PartitionTimes
from paimon_table.maintenance.partitions import PartitionFacts, drop_partitions, partition_facts
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class OldPartitions:
    """The expired partitions, oldest values first, up to the limit of one check; and the partitions without a time,
    which stay."""

    over: dict[bytes, PartitionFacts]
    without_time: tuple[str, ...] = ()
    """The directories of partitions whose values are not times."""


def partitions_that_are_over(table: Table, now: datetime) -> OldPartitions:
    """The partitions that a check drops at ``now``, a local time; none if the table never drops partitions."""
    ctx, options = table.context, table.options.retention
    if options.partition_expiration_time_ms is None or not table.schema.partition_keys:
        return OldPartitions({})
    kept_since = now - timedelta(milliseconds=options.partition_expiration_time_ms)
    times = PartitionTimes.of(table.schema.partition_fields, options)
    facts = partition_facts(ctx, table.state())
    found = {partition: times.time(ctx.partition_values(partition)) for partition in facts}
    over = [p for p, time in found.items() if time is not None and time < kept_since]
    over.sort(key=lambda p: ",".join(map(str, ctx.partition_values(p))))
    without = tuple(facts[p].directory for p, time in found.items() if time is None)
    return OldPartitions({p: facts[p] for p in over[: options.partition_expiration_max_num]}, without)


def expire_partitions(table: Table, job: Job, now: datetime) -> list[PartitionFacts]:
    """Drop expired partitions, in one snapshot or in batches by the options; returns the dropped ones.

    Raises CommitConflict if other writers keep committing to the partitions; earlier drops stay.
    """
    over = list(partitions_that_are_over(table, now).over)
    size = table.options.retention.partition_expiration_batch_size or max(len(over), 1)
    gone: list[PartitionFacts] = []
    for at in range(0, len(over), size):
        gone += drop_partitions(table, over[at : at + size], job).partitions.values()
    return gone
