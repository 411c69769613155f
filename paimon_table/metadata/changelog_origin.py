"""Finds the files with the changes of a snapshot, even if the table got another changelog producer later.

A snapshot names the schema that it was written with, and this schema names the producer. Without a producer, the
changes are the rows of the files that the snapshot added. Otherwise they are in its changelog files.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.names import CHANGELOG_PRODUCER

NO_PRODUCER = "none"


def producer_of(ctx: TableContext, snapshot: Snapshot) -> str:
    """The changelog producer under which a snapshot was written."""
    return _producer(ctx, snapshot.schema_id)


def has_been_without_producer(ctx: TableContext) -> bool:
    """Whether any snapshot may have its changes in the files that it added."""
    return ctx.options.changelog_producer == NO_PRODUCER or any(
        _producer(ctx, number) == NO_PRODUCER for number in ctx.schemas
    )


def may_need_added_files(ctx: TableContext, oldest: Iterable[Snapshot]) -> bool:
    """Whether one of these snapshots, or a later one, may have its changes in the files that it added.

    This assumes that later snapshots do not have older schemas.
    """
    first = min((snapshot.schema_id for snapshot in oldest), default=0)
    later = (number for number in ctx.schemas if number >= first)
    return ctx.options.changelog_producer == NO_PRODUCER or any(
        _producer(ctx, number) == NO_PRODUCER for number in later
    )


def _producer(ctx: TableContext, schema_id: int) -> str:
    schema = ctx.schemas.get(schema_id)
    if schema is None or schema_id == ctx.schema.id:
        return ctx.options.changelog_producer
    return schema.options.get(CHANGELOG_PRODUCER, NO_PRODUCER).lower()
