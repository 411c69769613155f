"""Rows of a rebuild that are counted beside its stream, because that takes as long as the table is large.

In a turn in which the branch has all that the stream has brought, the newest snapshots of both are pinned: the one of
the table by a tag, the one of the branch because slices alone change it, which nobody asks for while rows are counted.
Both have the same records behind them, and get the same ones from there on, so that what one of them lacks is seen
there as well as at the switch. A rollback of the table takes the tag along: what was counted says nothing then.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from paimon_table import Table
from paimon_table.errors import SinkUnavailable
from paimon_table.history.tags import TagStore
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.row_counts import RowCounting
from paimon_table.maintenance.tidying import delete_tags
from pipelines.checkpoint.replay_state import Counts, Rebuild, Replays, ReplayState
from sinks import faults


def pin_of(id_: str) -> str:
    """The tag that keeps the content of the table while its rows are counted."""
    return f"counted-for-rebuild-{id_}"


def pin(id_: str, table: Table, built: Table) -> Counts:
    """Keep the newest snapshots of both, whose rows are to be counted."""
    unpin(id_, table)
    old_id = table.snapshots.latest_id() or 0
    if old_id:
        text = table.io.read(table.paths.snapshot_file(old_id))
        TagStore(table.io, table.paths).create(pin_of(id_), text, datetime.now(), None)
    return Counts(old_id, built.snapshots.latest_id() or 0)


def unpin(id_: str, table: Table) -> None:
    """Delete the tag with the files that only it needs; idempotent."""
    tag = TagStore(table.io, table.paths).find(pin_of(id_))
    if tag is not None:
        delete_tags(table, [tag], Surroundings())


def counted(id_: str, table: Table, rebuild: Rebuild) -> tuple[int, int, int] | None:
    """Old and new rows as they were counted, and at which snapshot of the table; None when that does not hold."""
    counts = rebuild.counts
    if counts is None or counts.old_rows is None or counts.new_rows is None:
        return None
    tag = TagStore(table.io, table.paths).find(pin_of(id_))
    if tag is None or tag.snapshot.id != counts.old_id:
        return None
    return counts.old_rows, counts.new_rows, counts.old_id


def count_pinned(replays: Replays, state: ReplayState, table: Table, built: Table) -> None:
    """Count the rows of what is pinned and write them into the state."""
    rebuild = state.rebuild
    assert rebuild is not None and rebuild.counts is not None
    counts, tag = rebuild.counts, TagStore(table.io, table.paths).find(pin_of(state.id))
    if tag is None or tag.snapshot.id != counts.old_id:
        return  # rolled back meanwhile: the next turn pins anew
    new = built.snapshots.find(counts.new_id) if counts.new_id else None
    try:
        rows = RowCounting.of(table, tag.snapshot).total(), RowCounting.of(built, new).total()
    except FileNotFoundError as error:
        raise SinkUnavailable(
            f"{error.filename or error} has gone while the rows of table {state.table} were counted: is its rebuild"
            " given up, or called twice? Call it again to continue"
        ) from error
    if replays.get(state.id) == state:
        replays.put(
            replace(state, rebuild=replace(rebuild, counts=replace(counts, old_rows=rows[0], new_rows=rows[1])))
        )
        faults.reached("rebuild-counted", state.number)
