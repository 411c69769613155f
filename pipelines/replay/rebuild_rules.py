"""The conditions for rebuilding a table's content and switching to it: its rule, its topics, its rows.

A count that takes longer for larger tables runs outside of turns. In a turn in which the branch has all records of the
stream so far, Tidemark pins the newest snapshots of table and branch. A tag pins the table's snapshot. The branch's
snapshot needs no tag: only slices change the branch, and no slice runs during the count. Both snapshots contain the
same records, and table and branch get the same records afterwards. So the count shows the rows that one of the two
lacks, as it would at the switch. A rollback of the table removes the tag and voids the count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from paimon_table import Snapshot, Table, TableName, apply_changes
from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.history.tags import TagStore
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.rescale import RESCALE_PROPERTY
from paimon_table.maintenance.row_counts import RowCounting
from paimon_table.maintenance.take_over import adds_files
from paimon_table.maintenance.tidying import delete_tags
from paimon_table.options.names import BUCKET
from paimon_table.options.option_facts import columns_named_by
from pipelines.checkpoint.replay_state import Counts, Kind, Point, Rebuild, Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.config.row_rules import mask_digests
from pipelines.config.table_rules import TargetRule
from pipelines.tables.known_routes import known_sources, rules_for
from pipelines.tables.rule_options import OF_MERGING, option_changes
from pipelines.tables.writable_tables import check_keys
from sinks import faults
from sinks.commit.pipeline_mark import marking_pipelines
from sinks.commit.positions import (
    PIPELINE_PROPERTY,
    REPLAY_PROPERTY,
    RETRY_EDITED_PROPERTY,
    RETRY_PROPERTY,
    newest_position,
)
from sources.wording import first_of

_SHOWN = 5


def changed_options(config: PipelineConfig, identifier: str, table: Table, topics: Collection[str]) -> dict[str, str]:
    """The differences between rule and table, if they are more than the running pipeline may change; else nothing.

    Raises ConfigError for rules that are about a table which cannot be made of this one.
    """
    rules = _rules(config, identifier, table, topics)
    if not rules:
        raise ConfigError(f"no rule of pipeline {config.name} writes table {identifier} now; add its rule again first")
    changed: dict[str, str] = {}
    is_needed = False
    for rule in rules:
        check_keys(table, identifier, rule)
        for change in option_changes(table, rule, identifier):
            changed[change.name] = change.value or ""
            try:
                apply_changes(table.schema, [change], 0)
                is_free = change.name != BUCKET
            except ConfigError:
                is_free = False
            if not is_free:
                _check_may_change(config, identifier, change.name)
                is_needed = True
    _check_columns(table, identifier, changed)
    return changed if is_needed else {}


def _rules(config: PipelineConfig, identifier: str, table: Table, topics: Collection[str]) -> list[TargetRule]:
    """The rules of the source tables that fed the table; if none is known, the rules that may write it."""
    name = TableName.of(identifier)
    position = newest_position(table.snapshots, config.name)
    known = known_sources(config, name, () if position is None else position.sources).values()
    rules = [rule.for_table(table.schema) for rule in known or rules_for(config, name, sorted(topics))]
    return [rule for i, rule in enumerate(rules) if rule not in rules[:i]]


def rules_digest(config: PipelineConfig, identifier: str, topics: Collection[str]) -> str:
    """A digest of the rules that determine the table's rows: a rebuild that began under other rules would mix both."""
    rules = rules_for(config, TableName.of(identifier), sorted(topics))
    masks = [mask_digests(rule.columns) for rule in rules]
    decisive = (config.source.format, config.source.on_bad_record, rules, masks)
    return hashlib.sha256(repr(decisive).encode()).hexdigest()


def _check_may_change(config: PipelineConfig, identifier: str, name: str) -> None:
    if name in OF_MERGING:
        return
    remedy = "Rescale the table first (tidemark table rescale)" if name == BUCKET else "Undo the change"
    raise ConfigError(
        f"pipeline {config.name}: the rule of table {identifier} changes option {name!r}, which a rebuild cannot do. "
        f"It can change how rows are merged ({', '.join(OF_MERGING[:2])} and the like), not their keys, partitions and "
        f"buckets. {remedy}, or write into a new table (another `into`, with `backfill: true`)",
        option=name,
    )


def _check_columns(table: Table, identifier: str, changed: Mapping[str, str]) -> None:
    for name, value in changed.items():
        missing = next((c for c in columns_named_by(name, value) if not table.schema.has_column(c)), None)
        if missing is not None:
            raise ConfigError(
                f"the rule of table {identifier} names column {missing!r} in option {name!r}, and the table has no such"
                " column yet. Let the pipeline add it first (declare its type under columns.types), then rebuild"
            )


def missing_at_begin(config: PipelineConfig, table: Table, begin: Point) -> list[str]:
    """Why the topics from ``begin`` on may give less than the table has, as far as the table shows."""
    found = []
    if begin.kind is not Kind.EARLIEST:
        found.append(f"records before {begin.words} are not read")
    others = [name for name in marking_pipelines(table.io, table.paths) if name != config.name]
    if others:
        found.append(f"pipelines {', '.join(first_of(others, _SHOWN))} write the table too")
    return found + rows_of_others(config, table, 0)


def rows_of_others(config: PipelineConfig, table: Table, after_id: int) -> list[str]:
    """The snapshots after ``after_id`` with rows that are not from the pipeline's topics."""
    found: list[str] = []
    for snapshot in table.snapshots.newest_first():
        if snapshot.id <= after_id:
            break
        if _is_of_others(config, snapshot) and adds_files(table, snapshot):
            is_edited = RETRY_EDITED_PROPERTY in snapshot.properties
            what = "edited records of a retry" if is_edited else snapshot.commit_kind
            found.append(f"snapshot {snapshot.id} ({what} of user {snapshot.commit_user})")
    if not found:
        return []
    return [f"a writer other than the stream has written the table: {', '.join(first_of(found, _SHOWN, 'snapshots'))}"]


def _is_of_others(config: PipelineConfig, snapshot: Snapshot) -> bool:
    if snapshot.commit_kind not in ("APPEND", "OVERWRITE"):
        return False
    properties = snapshot.properties
    is_own_retry = properties.get(RETRY_PROPERTY) == config.name and RETRY_EDITED_PROPERTY not in properties
    of_topics = properties.get(PIPELINE_PROPERTY) == config.name or REPLAY_PROPERTY in properties or is_own_retry
    return not of_topics and RESCALE_PROPERTY not in properties


def check_topics(config: PipelineConfig, table: Table, state: ReplayState) -> None:
    """Raise ConfigError if new topics feed the table since its rebuild began: the rebuilt content lacks their rows."""
    position = newest_position(table.snapshots, config.name)
    fed = set() if position is None else {topic for topic, _ in position.offsets}
    new = sorted(fed - set(state.topics))
    if new:
        names = ", ".join(first_of(new, _SHOWN, "topics"))
        raise ConfigError(
            f"table {state.table} has received records of {names} since its rebuild began, and the rebuild does "
            "not read them. Give it up (--rebuild --abandon), then start it again"
        )


def pin_of(id_: str) -> str:
    """The tag that keeps the content of the table during a count."""
    return f"counted-for-rebuild-{id_}"


def pin(id_: str, table: Table, built: Table) -> Counts:
    """Keep the newest snapshots of both for the count of their rows."""
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
    """Old and new rows of a count, with its snapshot of the table; None if the count no longer holds."""
    counts = rebuild.counts
    if counts is None or counts.old_rows is None or counts.new_rows is None:
        return None
    tag = TagStore(table.io, table.paths).find(pin_of(id_))
    if tag is None or tag.snapshot.id != counts.old_id:
        return None
    return counts.old_rows, counts.new_rows, counts.old_id


def count_pinned(replays: Replays, state: ReplayState, table: Table, built: Table) -> None:
    """Count the rows of the pinned snapshots and store them in the state."""
    rebuild = state.rebuild
    assert rebuild is not None and rebuild.counts is not None
    counts, tag = rebuild.counts, TagStore(table.io, table.paths).find(pin_of(state.id))
    if tag is None or tag.snapshot.id != counts.old_id:
        return  # rolled back in the meantime: the next turn pins again
    new = built.snapshots.find(counts.new_id) if counts.new_id else None
    try:
        rows = RowCounting.of(table, tag.snapshot).total(), RowCounting.of(built, new).total()
    except FileNotFoundError as error:
        raise SinkUnavailable(
            f"{error.filename or error} was removed while the rows of table {state.table} were counted: another "
            "command gave up the rebuild, or continued it. Call again to continue"
        ) from error
    if replays.get(state.id) == state:
        replays.put(
            replace(state, rebuild=replace(rebuild, counts=replace(counts, old_rows=rows[0], new_rows=rows[1])))
        )
        faults.reached("rebuild-counted", state.number)
