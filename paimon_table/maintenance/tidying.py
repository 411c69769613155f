"""The work after a commit, in Paimon's order: tags, partitions, consumers, snapshots and changelogs.

Each part may be skipped or repeated, while others read and write. The job that compacts a ``write-only`` table also
tidies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_table.history.automatic_tags import make_automatic_tags, superfluous_tags
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.removal import carry_out
from paimon_table.history.retention import Limits
from paimon_table.history.tag_removal import plan_tag_removal, tags_that_are_over
from paimon_table.history.tags import Tag, TagStore
from paimon_table.maintenance.expiration import Expired, Surroundings, expire
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partition_expiry import expire_partitions
from paimon_table.maintenance.partitions import PartitionFacts
from paimon_table.options.time_zones import local_time
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class Tidied:
    """The results of a tidying."""

    tags_made: tuple[str, ...]
    tags_deleted: tuple[str, ...]
    partitions: tuple[PartitionFacts, ...]
    consumers: tuple[str, ...]
    expired: Expired


@dataclass(slots=True)
class PartitionChecks:
    """The time of the last check of a table's partitions; the caller keeps it."""

    last_ms: int | None = None

    def is_due(self, table: Table, now_ms: int) -> bool:
        """Whether ``partition.expiration-check-interval`` has passed; records a check now."""
        options = table.options.retention
        if options.partition_expiration_time_ms is None:
            return False
        if self.last_ms is not None and now_ms - self.last_ms < options.partition_check_interval_ms:
            return False
        self.last_ms = now_ms
        return True


def tidy(
    table: Table,
    surroundings: Surroundings,
    job: Job,
    *,
    checks_partitions: bool = True,
    limits: Limits | None = None,
) -> Tidied:
    """Create and delete tags, drop partitions, delete consumers, and expire snapshots and changelogs, by the options.

    ``limits`` replaces the options for snapshots.
    """
    ctx, options = table.context, table.options.retention
    now = local_time(surroundings.clock_ms(), None)
    made = make_automatic_tags(ctx, now)
    deleted = delete_tags(table, tags_to_delete(table, surroundings), surroundings)
    partitions = expire_partitions(table, job, now) if checks_partitions else []
    consumers = ConsumerStore(ctx.io, ctx.paths)
    forgotten = consumers.forgotten(surroundings.clock_ms(), options.consumer_expiration_time_ms)
    for name in forgotten:
        consumers.io.delete(ctx.paths.consumer_file(name))
    return Tidied(tuple(made), tuple(deleted), tuple(partitions), tuple(forgotten), expire(ctx, surroundings, limits))


def tags_to_delete(table: Table, surroundings: Surroundings) -> list[Tag]:
    """Tags whose time has passed, and automatic tags beyond the limit."""
    options = table.options.retention
    counts = options.tag_creation != "none" and options.tag_num_max is not None
    if not counts and not options.tag_time_expiry:
        return []
    tags = TagStore(table.io, table.paths).all()
    over = tags_that_are_over(tags, local_time(surroundings.clock_ms(), None)) if options.tag_time_expiry else []
    chosen = {tag.name: tag for tag in (*superfluous_tags(table.context, tags), *over)}
    return list(chosen.values())


def delete_tags(table: Table, tags: Iterable[Tag], surroundings: Surroundings) -> list[str]:
    """Delete tags with the files that only they needed; returns their names."""
    names = []
    for tag in tags:
        removal = plan_tag_removal(table.context, tag).removal
        carry_out(table.io, table.paths, removal, surroundings.new_uuid, surroundings.advance)
        names.append(tag.name)
    return names
