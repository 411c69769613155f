"""The destination of a rebuild: a branch of the table, whose content the table takes over in one step.

The slices are the same as in any replay, but they are committed to the branch. The switch happens exactly once: it is
one snapshot of the table, published by a commit user that publishes nothing else. It happens in a turn in which the
branch has all records of the stream so far and no batch runs that could add more. The state records the switch, with
its user, before the attempt. After a crash, the next process first checks whether the table has the switch, and writes
into the branch only if not. The snapshot of the switch records the table's position, so the pipeline continues as
before. The branch is removed last: from the switch on, its files are the table's.

The turn takes as long as reading the metadata of table and branch. Rows that only data files show are counted outside
of a turn (``rebuild_rules``), and the turn after the count switches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from paimon_table import CLOCK_SKEW_MS, SetOption, Snapshot, Table, TableName, key_lane_properties
from paimon_table.catalog.aside_catalog import AsideCatalog
from paimon_table.errors import CommitConflict, CommitOutcomeUnknown, ConfigError
from paimon_table.history.tags import TagStore
from paimon_table.maintenance.aside_branch import AsideBranch
from paimon_table.maintenance.job import ATTEMPTS
from paimon_table.maintenance.row_counts import RowCounting
from paimon_table.maintenance.take_over import settle, take_over
from pipelines.batch.batch_report import BatchReport
from pipelines.catchup.reading import Step
from pipelines.checkpoint.reached import Reached
from pipelines.checkpoint.replay_state import Rebuild, ReplayState, Switch
from pipelines.jobs.job_progress import new_job
from pipelines.replay.in_place import InPlace, ReplayContext, commit_user_of
from pipelines.replay.rebuild_rules import check_topics, counted, pin, rows_of_others
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import (
    REPLAY_PROPERTY,
    Position,
    aside_user,
    newest_position,
    to_properties,
)

COUNTED_IN_TURN = 200_000
"""The most stored rows that are counted within the turn of a switch; more are counted outside of the turn."""

ANYWAY = "add --allow-missing to continue anyway"


def branch_of(id_: str) -> str:
    """The branch in which a rebuild builds."""
    return f"rebuild-{id_}"


def tag_of(id_: str) -> str:
    """The tag that keeps the content that a rebuild has replaced."""
    return f"before-rebuild-{id_}"


def aside_branch(table: Table, rebuild: Rebuild) -> AsideBranch:
    """The branch of a rebuild, by the table that is rebuilt."""
    return AsideBranch.of(table, rebuild.branch, rebuild.options)


def is_switched(table: Table, rebuild: Rebuild) -> bool:
    """Whether the table has the rebuilt content. Raises CommitOutcomeUnknown if its snapshots no longer show it."""
    switch, snapshots = rebuild.switch, table.snapshots
    if switch is None:
        return False
    since_ms = switch.tried_at_ms - CLOCK_SKEW_MS
    found = snapshots.search_user(switch.user, snapshots.latest_id(), since_ms=since_ms)
    if found.newest is None and not found.exhaustive:
        raise CommitOutcomeUnknown(
            f"Tidemark cannot tell whether {table.paths.root} has the content of branch {rebuild.branch!r}: the"
            f" snapshots that show it have expired. Compare the table with its tag {switch.tag!r}. Give up the rebuild"
            " (--rebuild --abandon, which keeps all files that the table may have), and start it again if needed"
        )
    return found.newest is not None


class Rebuilding(InPlace):
    """``Destination`` of a rebuild: a branch, whose content the table takes over at the end."""

    def __init__(self, context: ReplayContext, state: ReplayState, counted_in_turn: int = COUNTED_IN_TURN) -> None:
        super().__init__(context, state)
        self._counted_in_turn = counted_in_turn

    @property
    def takes_slices(self) -> bool:
        """Whether the branch takes slices: not once the table has taken it over, with its files."""
        rebuild = self._rebuild
        return rebuild.switch is None or not is_switched(self._table(), rebuild)

    def open(self) -> PipelineTables:
        def properties(position: Position) -> dict[str, str]:
            return {**to_properties(self.context.config.name, position), **self.recorded(position)}

        catalog = AsideCatalog(self.context.own.catalog, TableName.of(self.state.table), self._begun())
        # The branch numbers its snapshots apart from the table: no snapshot of the branch is skipped.
        return self._tables(self.context.own.through(catalog), properties, after=0)

    def check(self, limit: str) -> None:
        state, table, rebuild = self.state, self._table(), self._rebuild
        check_topics(self.context.config, table, state)
        if state.number:
            _check_buckets(state, table, self._branch(table).open())
        if rebuild.allows_missing:
            return
        newest_id = table.snapshots.latest_id() or 0
        # Before each slice, because snapshots of other writers may expire during the reading.
        _refuse(state, rows_of_others(self.context.config, table, rebuild.checked_id))
        gone = self.context.reader.missing(self.reached.position, limit, state.topics)
        if gone is not None:
            raise ConfigError(
                f"table {state.table} cannot be rebuilt completely: {gone}. Rows from those records would be lost"
                f" (unless a later snapshot of the source has brought all rows again): {ANYWAY}"
            )
        self.state = replace(state, rebuild=replace(rebuild, checked_id=newest_id))  # noted with the slice

    def note(self, reached: Reached, report: BatchReport | None = None) -> None:
        if report is not None:
            self._branch(self._table()).tidy(commit_user_of(self.context.config, self.state))
        super().note(reached, report)

    def finish(self) -> Step:
        table, branch = self._table(), self._begun()
        if self.takes_slices and not self._switched(branch):
            return self._pinned(branch)
        options = self._rebuild.options
        if options:
            changes = [SetOption(name, value) for name, value in options.items()]
            table.evolve(changes, self.context.now_ms(), rows_fit=True)
            faults.reached("rebuild-options-set", self.state.number)
        branch.remove(is_taken=True)
        return super().finish()

    @property
    def _rebuild(self) -> Rebuild:
        assert self.state.rebuild is not None
        return self.state.rebuild

    def _table(self) -> Table:
        return self.context.own.catalog.load(TableName.of(self.state.table))

    def _branch(self, table: Table) -> AsideBranch:
        return aside_branch(table, self._rebuild)

    def _begun(self) -> AsideBranch:
        branch = self._branch(self._table())
        if self.state.number == 0:
            branch.begin()
        return branch

    def _position(self, table: Table) -> Position:
        pipeline = self.context.config.name
        position = newest_position(table.snapshots, pipeline)
        if position is None or position.commit_user != self.context.stream_user:
            raise ConfigError(
                f"table {self.state.table} has no position of this checkpoint of pipeline {pipeline}:"
                " let the pipeline write it first, then call again"
            )
        return position

    def _keep_rebuild(self, rebuild: Rebuild) -> None:
        self.keep(replace(self.state, rebuild=rebuild))

    def _switched(self, branch: AsideBranch) -> bool:
        """Let the table take over the branch; False if rows must be counted first."""
        number, built = self.state.number, branch.open()
        if built.options.hides_level0:
            settle(built, new_job(), fully=False)  # otherwise the count would miss rows that readers are about to see
        if self._must_count(self._table(), built):
            return False
        settle(built, new_job(), fully=bool(self._rebuild.options) or built.options.snapshot_ordering)
        faults.reached("rebuild-compacted", number)
        # In microseconds: the commit users of catch-ups have milliseconds in their names.
        user = aside_user(self.context.stream_user, self.state.begun_at_ms * 1000)
        properties = {
            REPLAY_PROPERTY: self.state.id,
            **key_lane_properties(built.schema, built.options, built.state().live_files()),
        }
        for attempt in range(ATTEMPTS):
            table = self._table()
            commit = table.new_commit(user, is_new_user=True)  # it has not committed: slices are taken
            old = commit.refresh().snapshot
            rows = self._rows(table, built)
            if rows is None:
                return False
            switch = Switch(user, self.context.now_ms(), tag_of(self.state.id), *rows)
            _check_buckets(self.state, table, built)
            self._check_rows(table, switch)
            self._keep_rebuild(replace(self._rebuild, switch=switch))
            faults.reached("rebuild-noted", number)
            _tag(table, switch.tag, old)
            faults.reached("rebuild-tagged", number)
            try:
                position = to_properties(self.context.config.name, self._position(table))
                take_over(built, commit, 0, {**position, **properties})
                break
            except CommitConflict:
                if attempt + 1 == ATTEMPTS:
                    raise
        faults.reached("rebuild-switched", number)
        return True

    def _rows(self, table: Table, built: Table) -> tuple[int, int, int | None] | None:
        """Old and new rows, and the snapshot of an earlier count; None if they must be counted."""
        old, new = _countings(table, built)
        before = counted(self.state.id, table, self._rebuild)
        # Expired snapshots no longer show rows of other writers: the number of snapshots does.
        is_traced = before is None or (table.snapshots.earliest_id() or 0) <= before[2] + 1
        if old.to_read + new.to_read <= self._counted_in_turn or not is_traced:
            return old.total(), new.total(), None
        return before

    def _must_count(self, table: Table, built: Table) -> bool:
        """Whether ``_rows`` gives None; reads no data file."""
        is_long = sum(one.to_read for one in _countings(table, built)) > self._counted_in_turn
        return is_long and counted(self.state.id, table, self._rebuild) is None

    def _pinned(self, branch: AsideBranch) -> Step:
        counts = pin(self.state.id, self._table(), branch.open())
        faults.reached("rebuild-pinned", self.state.number)
        self._keep_rebuild(replace(self._rebuild, counts=counts))
        faults.reached("rebuild-counting", self.state.number)
        return Step.COUNTING

    def _check_rows(self, table: Table, switch: Switch) -> None:
        """Refuse to lose rows unless the user has agreed."""
        check_topics(self.context.config, table, self.state)
        if self._rebuild.allows_missing:
            return
        why = rows_of_others(self.context.config, table, self._rebuild.checked_id)
        if switch.new_rows < switch.old_rows:
            at = "" if switch.counted_at is None else f" (counted at snapshot {switch.counted_at})"
            why = [f"it has {switch.new_rows:,} rows, and the table has {switch.old_rows:,}{at}", *why]
        _refuse(self.state, why)


def _countings(table: Table, built: Table) -> tuple[RowCounting, RowCounting]:
    return RowCounting.of(table, table.snapshots.latest()), RowCounting.of(built, built.snapshots.latest())


def _check_buckets(state: ReplayState, table: Table, built: Table) -> None:
    other = sorted(set(built.state().total_buckets.values()) - {table.options.bucket})
    if other:
        raise ConfigError(
            f"table {state.table} has option 'bucket' {table.options.bucket} since its rebuild began, and the rebuilt "
            f"rows have {other[0]}: give it up (--rebuild --abandon), then start it again"
        )


def _refuse(state: ReplayState, why: Sequence[str]) -> None:
    if why:
        reasons = "; ".join(why)
        raise ConfigError(
            f"table {state.table} is rebuilt in its branch {branch_of(state.id)!r} and was not switched: {reasons}."
            f" Compare the two; {ANYWAY}, or --abandon to give up the rebuild"
        )


def _tag(table: Table, name: str, old: Snapshot | None) -> None:
    """Tag a snapshot with the name, which may still belong to a failed attempt."""
    tags = TagStore(table.io, table.paths)
    found = tags.find(name)
    if old is None or (found is not None and found.snapshot.id == old.id):
        return
    if found is not None:
        table.io.delete(table.paths.tag_file(name))
    tags.create(name, table.io.read(table.paths.snapshot_file(old.id)), datetime.now(), None)
