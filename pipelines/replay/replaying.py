"""The code of `tidemark replay`: it records the range, then has it read slice by slice."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from paimon_table import Table, TableName
from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.history.tags import TagStore
from paimon_table.nearest_name import did_you_mean
from pipelines.catchup.reading import Step
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import UNKNOWN, held_checkpoints, holder_of, runner_of
from pipelines.checkpoint.replay_state import Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.control.asking import done_or_raised, wait_for
from pipelines.control.guest import Guest
from pipelines.control.requests import RULES, Answer, State, digest_of_rules
from pipelines.prepared import continued, own_tables
from pipelines.replay.rebuild_requests import end_words, give_up, note_end, taken_up, with_rebuild
from pipelines.replay.rebuild_rules import count_pinned, unpin
from pipelines.replay.rebuilding import aside_branch, tag_of
from pipelines.replay.replay_progress import Progress, ReplayProgress, shown_progress
from pipelines.replay.replay_range import point_of, read_of, refusal
from pipelines.replay.replay_slices import COMMAND, GIVE_UP, check_in_stream, local_slices
from pipelines.report.say import say
from pipelines.tables.merged_sources import source_words
from pipelines.tables.own_tables import OwnTables
from sinks.commit.positions import newest_position
from sources.wording import counted

WAIT_S = 0.3
"""Seconds between two checks whether the stream has closed its batch."""

DoSlice = Callable[[str], Progress]
"""Does the next slice of the replay with this id."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters on the command line."""

    table: str
    begin: str
    end: str | None
    abandons: bool
    """Give up an unfinished replay of the table with another range; with ``rebuilds`` its unfinished rebuild."""
    rebuilds: bool = False
    """Build the new content in a branch, then switch."""
    allows_missing: bool = False
    """Also rebuild if the result may lack rows that the table has."""


def replay(config: PipelineConfig, wanted: Wanted) -> None:
    """Replay a range of a table's topics into the table, or rebuild its content from it."""
    config = continued(config)
    checkpoint = Checkpoint(config)
    if wanted.rebuilds and wanted.abandons:
        _give_up(config, checkpoint, wanted.table)
        return
    state = _noted(config, checkpoint, wanted)
    name, replays = f"{_kind(state)} {state.id} of {state.table}", Replays(checkpoint)
    try:
        with _slices(config, state) as slices, shown_progress(state.table, _KINDS[wanted.rebuilds][1]) as progress:

            def count_beside() -> None:
                slices.release()
                count(config, replays, state.id)

            done = driven(slices.do, state.id, progress, count_beside)
    except (KeyboardInterrupt, SinkUnavailable, OSError):
        say(f"{name} is kept; the same command continues it", err=True)
        raise
    except ConfigError:
        if not replays.get(state.id).is_begun:  # its range was refused: nothing is left to resume
            replays.remove(state.id)
        raise
    state = replays.get(state.id)
    failed, good = "", note_end(config, state)
    if done.failed_count:
        failed = f", {done.failed_count:,} could not be read and are in the quarantine"
    if state.rebuild is not None:
        unpin(state.id, _table(own_tables(config), config, state.table))
    replays.remove(state.id)
    say(f"replayed {counted(done.record_count, 'record')} of the topics of {state.table}, {state.words}{failed}")
    if good:
        say(f"{counted(good, 'record')} removed from the quarantine: the table has them now")
    for one in Book(checkpoint).entry(state.table).ruleless if state.rebuild is not None else ():
        say(
            f"no rule routes records of {source_words(one.source)} to {state.table} now, so the table has "
            "lost them: rebuild it once a rule does again"
        )
    for line in end_words(state) if state.rebuild is not None else ():
        say(line)


_KINDS = (("replay", "replaying"), ("rebuild", "rebuilding"))
_DOES = ("replays records into", "rebuilds")


def _kind(state: ReplayState) -> str:
    return _KINDS[state.rebuild is not None][0]


def _give_up(config: PipelineConfig, checkpoint: Checkpoint, identifier: str) -> None:
    table, replays = _table(own_tables(config), config, identifier), Replays(checkpoint)
    before = replays.unfinished(identifier)
    if before is None or before.rebuild is None:
        raise ConfigError(f"table {identifier} has no unfinished rebuild; there is nothing to give up")
    arguments = {"replay": before.id}
    if runner_of(config) is None or (answer := _waited_for(config, GIVE_UP, arguments)) is None:
        with held_checkpoints([config], f"gives up a rebuild of {identifier}"):
            now = _still(replays, before)  # the holder of the checkpoint has continued it
            if now is None:
                raise _ended_meanwhile(before, table)
            give_up(replays, now, table)
    else:
        if answer.state is State.REFUSED and _still(replays, before) is None:
            raise _ended_meanwhile(before, table)
        done_or_raised(answer)
    say(f"gave up rebuild {before.id} of {identifier}; its rows are removed, and the table is unchanged")
    if TagStore(table.io, table.paths).find(tag_of(before.id)) is not None:
        say(
            f"Tidemark cannot tell whether the table took the rebuilt rows: tag {tag_of(before.id)!r} keeps"
            " the old one until you delete it (tidemark table tags delete)"
        )


def _still(replays: Replays, before: ReplayState) -> ReplayState | None:
    return next((state for state in replays.all() if state.id == before.id), None)


def _ended_meanwhile(before: ReplayState, table: Table) -> SinkUnavailable:
    name, tag = f"rebuild {before.id} of {before.table}", tag_of(before.id)
    if TagStore(table.io, table.paths).find(tag) is None:
        return SinkUnavailable(f"{name} was not given up: another call has done so already")
    return SinkUnavailable(
        f"{name} was not given up: it ended in the meantime, and the table has its rows. Its old content is tag "
        f"{tag!r}, to which the table can be rolled back"
    )


def _noted(config: PipelineConfig, checkpoint: Checkpoint, wanted: Wanted) -> ReplayState:
    """The state of the replay, durable. Raises ConfigError if its result would be wrong."""
    own = own_tables(config)
    table = _table(own, config, wanted.table)
    check_in_stream(config, checkpoint, own, wanted.table)
    position = newest_position(table.snapshots, config.name)
    if position is None:
        raise ConfigError(f"pipeline {config.name} has not written table {wanted.table}; there is nothing to replay")
    if checkpoint.closed_batch is None:
        raise ConfigError(f"pipeline {config.name} has finished no batch under checkpoint {config.checkpoint} yet")
    why = None if wanted.rebuilds else refusal(wanted.table, table, ends_early=wanted.end is not None)
    if why is not None:
        raise ConfigError(f"--into-place: {why}; --rebuild rebuilds its rows")
    topic_ids = Book(checkpoint).topic_ids
    read = read_of(config, position, checkpoint.offset_after(checkpoint.closed_batch), topic_ids)
    begin = point_of("--from", wanted.begin, config, table, read, topic_ids)
    end = None if wanted.end is None else point_of("--to", wanted.end, config, table, read, topic_ids)
    id_ = f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:8]}"
    topics = tuple(sorted({topic for topic, _ in position.offsets}))
    state, replays = ReplayState(id_, wanted.table, begin, end, topics), Replays(checkpoint)
    before, allows = replays.unfinished(wanted.table), wanted.allows_missing
    is_given_up = before is not None and wanted.abandons and bool(before.void)
    is_same = before is not None and (before.rebuild is not None) == wanted.rebuilds and before.same_range(state)
    if before is not None and is_same and not is_given_up:
        say(f"continuing {_kind(before)} {before.id}: {counted(before.record_count, 'record')} read", err=True)
        return taken_up(config, replays, before, table, allows_missing=allows) if wanted.rebuilds else before
    if before is not None and (before.rebuild is not None or wanted.rebuilds or not wanted.abandons):
        raise ConfigError(
            f"a {_kind(before)} of {wanted.table} {before.words} is unfinished: call it again with that range to "
            f"continue, or give it up (--{'rebuild' if before.rebuild is not None else 'into-place'} --abandon)"
        )
    if wanted.rebuilds:
        state = with_rebuild(config, state, table, allows_missing=allows)
    if before is not None:
        replays.remove(before.id)
    replays.put(state)
    return state


def _table(own: OwnTables, config: PipelineConfig, identifier: str) -> Table:
    found = own.catalog.find(TableName.of(identifier)) if "." in identifier else None
    if found is None:
        raise ConfigError(
            f"--table: there is no table {identifier!r} of pipeline {config.name};"
            f" {did_you_mean(identifier, [str(name) for name in own.names()])}"
        )
    return found


def driven(do: DoSlice, id_: str, shown: ReplayProgress, count_rows: Callable[[], None]) -> Progress:
    """Have steps done until the last one; ``count_rows`` does the count that a step requests outside a turn."""
    while True:
        progress = do(id_)
        shown.show(progress)
        if progress.step is Step.DONE:
            return progress
        if progress.step is Step.WAITING:
            time.sleep(WAIT_S)
        if progress.step is Step.COUNTING:
            count_rows()


def count(config: PipelineConfig, replays: Replays, id_: str) -> None:
    """Count the rows for the switch of a rebuild in this process, while the pipeline continues."""
    state = replays.get(id_)
    assert state.rebuild is not None
    table = _table(own_tables(config), config, state.table)
    count_pinned(replays, state, table, aside_branch(table, state.rebuild).open())


def _slices(config: PipelineConfig, state: ReplayState) -> Guest[str, Progress]:
    """By the running pipeline, or else by this process.

    A running pipeline cannot do a rebuild whose rule changes options of the table, because it has the table open.
    """
    changes_options = state.rebuild is not None and bool(state.rebuild.options)
    return Guest(
        config,
        f"{_DOES[state.rebuild is not None]} {state.table}",
        partial(_asked, config),
        partial(_here, config),
        lambda text: say(text, err=True),
        yields=not changes_options,
    )


@contextmanager
def _here(config: PipelineConfig) -> Iterator[DoSlice]:
    say(f"pipeline {config.name} does not run: this command does the replay; starting Spark", err=True)
    with local_slices(config) as slices:
        yield lambda id_: _local(config, slices.do(id_))


def _asked(config: PipelineConfig, id_: str) -> Progress | None:
    arguments = {"replay": id_, RULES: digest_of_rules(config)}
    answer = _waited_for(config, COMMAND, arguments)
    if answer is None and holder_of(config) == UNKNOWN:
        raise SinkUnavailable(
            f"no process that runs pipeline {config.name} answers: start it, then call again; the replay then "
            "continues alongside it"
        )
    return None if answer is None else Progress.of(dict(done_or_raised(answer)))


def _waited_for(config: PipelineConfig, command: str, arguments: Mapping[str, Any]) -> Answer | None:
    return wait_for(config, command, arguments, lambda text: say(text, err=True))


def _local(config: PipelineConfig, progress: Progress) -> Progress:
    if progress.step is Step.WAITING:
        raise ConfigError(
            f"pipeline {config.name} stopped within a batch, and the table already has rows of it: start the "
            "pipeline, then call again. The replay then continues alongside it"
        )
    return progress
