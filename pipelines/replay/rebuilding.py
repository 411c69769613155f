"""Where the records of a rebuild go: a branch beside the table, whose content the table takes over in one step.

Exactly once, the argument. The slices are those of any replay, committed to the branch. The switch is one snapshot of
the table, published by a commit user that publishes nothing else, in a turn in which the branch holds all that the
stream has brought and no batch is under way that could have brought more. It is noted in the state before it is tried,
with its user: who goes on after a crash looks first whether the table has it, and writes into the branch only if not.
Its snapshot records the position that the table had, so the pipeline goes on as if nothing had happened. The branch is
removed last: from the switch on, its files are the table's.

The turn is as long as the metadata of both is: rows that only data files tell are counted beside the stream
(``pinned_counts``), and the turn after that switches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from paimon_table import CLOCK_SKEW_MS, SetOption, Snapshot, Table, TableName, key_lane_properties
from paimon_table.catalog.aside_catalog import AsideCatalog
from paimon_table.errors import CommitConflict, CommitOutcomeUnknown, ConfigError
from paimon_table.history.tags import TagStore
from paimon_table.maintenance.aside_branch import AsideBranch
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.maintenance.row_counts import RowCounting
from paimon_table.maintenance.take_over import settle, take_over
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.replay_state import Rebuild, ReplayState, Switch
from pipelines.config.config import PipelineConfig
from pipelines.replay.pinned_counts import counted, pin
from pipelines.replay.rebuild_rules import check_topics, rows_of_others
from pipelines.replay.replay_job import Step, Work, commit_user_of, recorded
from pipelines.tables.beside_stream import BesideStream
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import (
    REPLAY_PROPERTY,
    Position,
    aside_user,
    newest_position,
    offsets_text,
    to_properties,
)

COUNTED_IN_TURN = 200_000
"""So many stored rows are read within the turn of a switch to count them; more are counted beside the stream."""

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
    """Whether the table has the rebuilt content; CommitOutcomeUnknown when its snapshots do not tell any more."""
    switch, snapshots = rebuild.switch, table.snapshots
    if switch is None:
        return False
    since_ms = switch.tried_at_ms - CLOCK_SKEW_MS
    found = snapshots.search_user(switch.user, snapshots.latest_id(), since_ms=since_ms)
    if found.newest is None and not found.exhaustive:
        raise CommitOutcomeUnknown(
            f"whether {table.paths.root} has the content of branch {rebuild.branch!r} is not known: the snapshots that"
            f" tell it have expired. Compare the table with its tag {switch.tag!r}, give the rebuild up (--rebuild"
            " --abandon, which leaves all files that the table may have) and begin it again if that is needed"
        )
    return found.newest is not None


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """``Destination`` of a rebuild; ``stream_user`` is the commit user of the checkpoint.

    ``topic_ids`` are the topics that the stream reads: a position in an earlier topic of the same name does not count.
    """

    config: PipelineConfig
    own: OwnTables
    work: Work
    stream_user: str
    new_job: Callable[[], Job]
    now_ms: Callable[[], int] = now_ms
    counted_in_turn: int = COUNTED_IN_TURN
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def open(self, state: ReplayState) -> PipelineTables:
        branch = self._begun(state)

        def properties(position: Position) -> dict[str, str]:
            return {**to_properties(self.config.name, position), **recorded(state, position)}

        catalog = AsideCatalog(self.own.catalog, TableName.of(state.table), branch)
        # Snapshots of the branch are numbered apart from the table's: none of them is passed over.
        beside = BesideStream(properties, lambda _name, _table: None, state.begun_at_ms)
        user, own = commit_user_of(self.config, state), self.own.through(catalog)
        return PipelineTables(self.config, user, own, only=state.table, beside=beside)

    def check(self, state: ReplayState, limit: str) -> ReplayState:
        table, rebuild = self._table(state), _of(state)
        check_topics(self.config, table, state)
        if state.number:
            _check_buckets(state, table, self._branch(state, table).open())
        if rebuild.allows_missing:
            return state
        newest_id = table.snapshots.latest_id() or 0
        # Before each slice, because the snapshots of others may expire while the rest is read.
        _refuse(state, rows_of_others(self.config, table, rebuild.checked_id))
        gone = self.work.reader.missing(state.position, limit, state.topics)
        if gone is not None:
            raise ConfigError(
                f"table {state.table} cannot be rebuilt whole: {gone}. Rows that only those records made would be lost"
                f" (unless a later snapshot of the source has brought all rows again): {ANYWAY}"
            )
        return replace(state, rebuild=replace(rebuild, checked_id=newest_id))

    def after_slice(self, state: ReplayState) -> None:
        self._branch(state, self._table(state)).tidy(commit_user_of(self.config, state))

    def is_settled(self, state: ReplayState) -> bool:
        return _of(state).switch is not None and is_switched(self._table(state), _of(state))

    def finish(self, state: ReplayState, note: Callable[[ReplayState], None]) -> ReplayState | Step:
        table, branch = self._table(state), self._begun(state)
        if not self.is_settled(state):
            if self._is_ahead(state, table):
                return Step.WAITING
            switched = self._switched(state, branch, note)
            if switched is None:
                return self._pinned(state, branch, note)
            state = switched
        options = _of(state).options
        if options:
            changes = [SetOption(name, value) for name, value in options.items()]
            table.evolve(changes, self.now_ms(), rows_fit=True)
            faults.reached("rebuild-options-set", state.number)
        branch.remove(is_taken=True)
        return state

    def _table(self, state: ReplayState) -> Table:
        return self.own.catalog.load(TableName.of(state.table))

    def _branch(self, state: ReplayState, table: Table) -> AsideBranch:
        return aside_branch(table, _of(state))

    def _begun(self, state: ReplayState) -> AsideBranch:
        branch = self._branch(state, self._table(state))
        if state.number == 0:
            branch.begin()
        return branch

    def _is_ahead(self, state: ReplayState, table: Table) -> bool:
        """Whether the table has records that the stream has yet to come to: those of an earlier checkpoint."""
        position, end = self._position(state, table).among(self.topic_ids), self.work.stream.end
        if end is None or self.config.source.kafka is None:
            return False
        return bool(self.work.reader.left(end, offsets_text(position.offsets), state.topics))

    def _position(self, state: ReplayState, table: Table) -> Position:
        position = newest_position(table.snapshots, self.config.name)
        if position is None or position.commit_user != self.stream_user:
            raise ConfigError(
                f"table {state.table} has no position of this checkpoint of pipeline {self.config.name} (any more): let"
                " the pipeline write it first, then call again"
            )
        return position

    def _switched(
        self, state: ReplayState, branch: AsideBranch, note: Callable[[ReplayState], None]
    ) -> ReplayState | None:
        """None when rows are to be counted first."""
        built = branch.open()
        if built.options.hides_level0:
            settle(built, self.new_job(), fully=False)  # else rows are not counted that readers are about to see
        if self._must_count(state, self._table(state), built):
            return None
        settle(built, self.new_job(), fully=bool(_of(state).options) or built.options.snapshot_ordering)
        faults.reached("rebuild-compacted", state.number)
        # In microseconds: those who catch tables up have milliseconds in their names.
        user = aside_user(self.stream_user, state.begun_at_ms * 1000)
        properties = {
            REPLAY_PROPERTY: state.id,
            **key_lane_properties(built.schema, built.options, built.state().live_files()),
        }
        for attempt in range(ATTEMPTS):
            table = self._table(state)
            commit = table.new_commit(user, is_new_user=True)  # ``is_settled``: it has not committed
            old = commit.refresh().snapshot
            rows = self._rows(state, table, built)
            if rows is None:
                return None
            switch = Switch(user, self.now_ms(), tag_of(state.id), *rows)
            _check_buckets(state, table, built)
            self._check_rows(state, table, switch)
            state = replace(state, rebuild=replace(_of(state), switch=switch))
            note(state)
            faults.reached("rebuild-noted", state.number)
            _tag(table, switch.tag, old)
            faults.reached("rebuild-tagged", state.number)
            try:
                position = to_properties(self.config.name, self._position(state, table))
                take_over(built, commit, 0, {**position, **properties})
                break
            except CommitConflict:
                if attempt + 1 == ATTEMPTS:
                    raise
        faults.reached("rebuild-switched", state.number)
        return state

    def _rows(self, state: ReplayState, table: Table, built: Table) -> tuple[int, int, int | None] | None:
        """Old and new rows, and at which snapshot they were counted if not now; None when they are to be counted."""
        old, new = _countings(table, built)
        before = counted(state.id, table, _of(state))
        # Rows of others are not told any more by snapshots that have expired since: their number tells them.
        is_traced = before is None or (table.snapshots.earliest_id() or 0) <= before[2] + 1
        if old.to_read + new.to_read <= self.counted_in_turn or not is_traced:
            return old.total(), new.total(), None
        return before

    def _must_count(self, state: ReplayState, table: Table, built: Table) -> bool:
        """Whether ``_rows`` gives None; reads no data file."""
        is_long = sum(one.to_read for one in _countings(table, built)) > self.counted_in_turn
        return is_long and counted(state.id, table, _of(state)) is None

    def _pinned(self, state: ReplayState, branch: AsideBranch, note: Callable[[ReplayState], None]) -> Step:
        counts = pin(state.id, self._table(state), branch.open())
        faults.reached("rebuild-pinned", state.number)
        note(replace(state, rebuild=replace(_of(state), counts=counts)))
        faults.reached("rebuild-counting", state.number)
        return Step.COUNTING

    def _check_rows(self, state: ReplayState, table: Table, switch: Switch) -> None:
        """Refuse to lose rows that nobody has agreed to lose."""
        check_topics(self.config, table, state)
        if _of(state).allows_missing:
            return
        why = rows_of_others(self.config, table, _of(state).checked_id)
        if switch.new_rows < switch.old_rows:
            at = "" if switch.counted_at is None else f" (counted at snapshot {switch.counted_at})"
            why = [f"it has {switch.new_rows:,} rows, and the table has {switch.old_rows:,}{at}", *why]
        _refuse(state, why)


def _of(state: ReplayState) -> Rebuild:
    assert state.rebuild is not None
    return state.rebuild


def _countings(table: Table, built: Table) -> tuple[RowCounting, RowCounting]:
    return RowCounting.of(table, table.snapshots.latest()), RowCounting.of(built, built.snapshots.latest())


def _check_buckets(state: ReplayState, table: Table, built: Table) -> None:
    other = sorted(set(built.state().total_buckets.values()) - {table.options.bucket})
    if other:
        raise ConfigError(
            f"table {state.table} has option 'bucket' {table.options.bucket} since its rebuild began, and what is built"
            f" has {other[0]}: give it up (--rebuild --abandon), then begin it again"
        )


def _refuse(state: ReplayState, why: Sequence[str]) -> None:
    if why:
        reasons = "; ".join(why)
        raise ConfigError(
            f"table {state.table} is rebuilt in its branch {_of(state).branch!r} and was not switched: {reasons}."
            f" Compare the two; {ANYWAY}, or --abandon to give the rebuild up"
        )


def _tag(table: Table, name: str, old: Snapshot | None) -> None:
    """Keep a snapshot under the name, which may stand for an earlier one of an attempt that failed."""
    tags = TagStore(table.io, table.paths)
    found = tags.find(name)
    if old is None or (found is not None and found.snapshot.id == old.id):
        return
    if found is not None:
        table.io.delete(table.paths.tag_file(name))
    tags.create(name, table.io.read(table.paths.snapshot_file(old.id)), datetime.now(), None)
