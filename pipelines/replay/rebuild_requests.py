"""The stages of a rebuild: its begin, a repeated call, giving it up, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_table import Table, TableName
from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.history.tags import TagStore
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.tidying import delete_tags
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.facts import evidence_of
from pipelines.bad_records.log import Applied, Switched, replay_owner
from pipelines.checkpoint.lock import runner_of
from pipelines.checkpoint.replay_state import Rebuild, Replays, ReplayState, Switch
from pipelines.config.config import PipelineConfig
from pipelines.replay.rebuild_rules import changed_options, missing_at_begin, rules_digest, unpin
from pipelines.replay.rebuilding import ANYWAY, aside_branch, branch_of, is_switched
from pipelines.storage import catalog_of


def with_rebuild(config: PipelineConfig, state: ReplayState, table: Table, *, allows_missing: bool) -> ReplayState:
    """The state of a replay turned into a rebuild.

    Raises ConfigError with the reason if the table cannot be rebuilt.
    """
    if config.catalog.type == "rest":
        raise ConfigError(
            f"table {state.table} cannot be rebuilt: a rebuild builds its rows in a branch, and the REST catalog "
            f"(catalog.type: rest) owns branches. Use --into-place, or write into a new table (another `into`, with "
            f"`backfill: true`)"
        )
    if table.options.bucket == -2:
        raise ConfigError(
            f"table {state.table} has postponed buckets, whose rows wait for a compaction. First set a number of "
            "buckets (tidemark table rescale), or write into a new table (another `into`, with `backfill: true`)"
        )
    options = _options(config, state, table)
    rules = rules_digest(config, state.table, state.topics)
    newest_id = table.snapshots.latest_id() or 0
    missing = [] if allows_missing else missing_at_begin(config, table, state.begin)
    if missing:
        raise ConfigError(
            f"table {state.table} cannot be rebuilt completely from its topics: {'; '.join(missing)}. Rows that "
            f"only these wrote would be lost: {ANYWAY}"
        )
    return replace(state, rebuild=Rebuild(branch_of(state.id), options, rules, newest_id, allows_missing))


def taken_up(
    config: PipelineConfig, replays: Replays, before: ReplayState, table: Table, *, allows_missing: bool
) -> ReplayState:
    """A repeated call for a rebuild, with the permissions of this call; repeats counts of an earlier call."""
    rebuild = before.rebuild
    assert rebuild is not None
    if rebuild.switch is None and rebuild.rules != rules_digest(config, before.table, before.topics):
        raise ConfigError(
            f"the rule of table {before.table} has changed since its rebuild began, so its rows would mix both rules."
            " Give it up (--rebuild --abandon), then start it again"
        )
    _options(config, before, table)
    unpin(before.id, table)
    now = replace(rebuild, allows_missing=allows_missing or rebuild.allows_missing, counts=None)
    if now != rebuild:
        before = replace(before, rebuild=now)
        replays.put(before)
    return before


def give_up(replays: Replays, state: ReplayState, table: Table) -> None:
    """Remove the new content; raises ConfigError if the table has it already.

    If that is no longer known, the files that the table may have stay for ``remove-orphans``, and so does the tag of
    the old content. If the table provably still has the old content, the tag is not needed.
    """
    rebuild = state.rebuild
    assert rebuild is not None
    try:
        is_taken, is_known = is_switched(table, rebuild), True
    except CommitOutcomeUnknown:
        is_taken, is_known = False, False
    if is_taken:
        raise ConfigError(
            f"table {state.table} has the rebuilt content already: call again without --abandon, which ends the"
            f" rebuild. The old content is tag {_switch_of(rebuild).tag!r}, to which the table can be rolled back"
        )
    unpin(state.id, table)
    tag = None if rebuild.switch is None else TagStore(table.io, table.paths).find(rebuild.switch.tag)
    if tag is not None and is_known:
        delete_tags(table, [tag], Surroundings())
    replays.remove(state.id)
    aside_branch(table, rebuild).remove(is_taken=not is_known)


def end_words(state: ReplayState) -> Sequence[str]:
    """The message of a finished rebuild."""
    assert state.rebuild is not None
    switch = _switch_of(state.rebuild)
    at = "" if switch.counted_at is None else f" (counted at snapshot {switch.counted_at})"
    return (
        f"rebuilt table {state.table}: {switch.new_rows:,} rows, {switch.old_rows:,} before{at}; the old content is tag"
        f" {switch.tag!r} until you delete it (tidemark table tags delete)",
        "streaming readers do not see the difference as changes: refill the tables that they feed from this table",
    )


def _switch_of(rebuild: Rebuild) -> Switch:
    assert rebuild.switch is not None
    return rebuild.switch


def _options(config: PipelineConfig, state: ReplayState, table: Table) -> dict[str, str]:
    options = changed_options(config, state.table, table, state.topics)
    if options and runner_of(config) is not None:
        raise ConfigError(
            f"the rule of table {state.table} changes {', '.join(options)}, which a running pipeline cannot do. "
            "Stop the pipeline, rebuild the table, then start it again (or fill a new table alongside the stream: "
            "another `into`, with `backfill: true`)"
        )
    return options


def note_end(config: PipelineConfig, state: ReplayState) -> int:
    """Record the switch of a rebuild, so that its facts count; returns how many records left the quarantine.

    For a replay in place, records have left the quarantine slice by slice. Idempotent.
    """
    letters = DeadLetters(config)
    letters.log.refresh()
    if state.rebuild is None:
        entries = [e for e in letters.log.entries.values() if isinstance(e, Applied)]
        of_replay = [entry for entry in entries if entry.by.startswith(f"{replay_owner(state.id)}/")]
        return sum(len(stretch.offsets) for entry in of_replay for stretch in entry.places)
    before = {*letters.facts().places()}
    noted = any(isinstance(e, Switched) and e.rebuild == state.id for e in letters.log.entries.values())
    switch, table = state.rebuild.switch, catalog_of(config).find(TableName.of(state.table))
    if not noted and switch is not None and table is not None:
        snapshot = table.snapshots.newest_of_user(switch.user)
        if snapshot is not None:
            letters.log.append(Switched(rebuild=state.id, evidence=evidence_of(state.table, table, snapshot)))
    return len(before - {*letters.facts().places()})
