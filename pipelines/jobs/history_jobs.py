"""The code of `tidemark table expire | tags | rollback | branches | consumers`.

``history_commands`` has the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from paimon_table import CommitKind, Snapshot, Table
from paimon_table.errors import ConfigError
from paimon_table.history.automatic_tags import would_make_tags
from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.names import check_name
from paimon_table.history.removal import carry_out, finish_interrupted
from paimon_table.history.retention import Limits
from paimon_table.history.rollback import Rollback, plan_rollback, plan_rollback_to_tag, roll_back
from paimon_table.history.tag_removal import plan_tag_removal
from paimon_table.history.tags import Tag, TagStore
from paimon_table.history.tags import create_tag as tag_snapshot
from paimon_table.maintenance.expiration import Surroundings, would_expire
from paimon_table.maintenance.partition_expiry import partitions_that_are_over
from paimon_table.maintenance.tidying import Tidied, tags_to_delete, tidy
from pipelines.config.config_values import parse_instant
from pipelines.inspect.table_views import Options, continued_words, open_table
from pipelines.jobs.consent import confirm
from pipelines.jobs.given_duration import given_duration_ms
from pipelines.jobs.history_rows import branch_rows, consumer_rows, tag_rows
from pipelines.jobs.job_progress import new_job, watched
from pipelines.report.output import RowFormat, quiet_pipe
from pipelines.report.row_output import write_rows
from pipelines.report.say import say
from pipelines.tidying.pipeline_claims import pipeline_claims
from sinks.commit.pipeline_mark import marking_pipelines
from sinks.commit.positions import REPLAY_PROPERTY, RETRY_PROPERTY
from sources.wording import counted, first_of

_LISTED = 20


def expire(
    path: str, least: int | None, most: int | None, older_than: str | None, dry_run: bool, storage: Options
) -> None:
    """Remove snapshots and other data that the table no longer keeps."""
    table = open_table(path, storage, for_reading=False)
    limits = _limits(table, least, most, older_than)
    surroundings = Surroundings(claims=pipeline_claims(None))
    if dry_run:
        now = datetime.now()
        over = partitions_that_are_over(table, now)
        options = table.options.retention
        consumers = ConsumerStore(table.io, table.paths)
        _tell_tidied(
            Tidied(
                tuple(would_make_tags(table.context)),
                tuple(tag.name for tag in tags_to_delete(table, surroundings)),
                tuple(over.over.values()),
                tuple(consumers.forgotten(surroundings.clock_ms(), options.consumer_expiration_time_ms)),
                would_expire(table.context, surroundings, limits),
            ),
            "would be ",
        )
        _tell_without_time(over.without_time)
        return
    with watched("files") as progress:
        plan = would_expire(table.context, surroundings, limits)
        progress.begin("expiring", plan.file_count + plan.metadata_count)
        surroundings = replace(surroundings, advance=progress.advance)
        done = tidy(table, surroundings, new_job(), limits=limits)
    _tell_tidied(done, "")
    _tell_without_time(partitions_that_are_over(table, datetime.now()).without_time)


def _limits(table: Table, least: int | None, most: int | None, older_than: str | None) -> Limits:
    of_options = Limits.of_snapshots(table.options.retention)
    limits = replace(
        of_options,
        least=of_options.least if least is None else least,
        most=of_options.most if most is None else most,
        time_ms=of_options.time_ms if older_than is None else given_duration_ms("--older-than", older_than),
    )
    if limits.most < limits.least:
        raise ConfigError(f"--retain-max {limits.most} is less than --retain-min {limits.least}; use values that fit")
    return limits


def _tell_tidied(done: Tidied, would: str) -> None:
    told = [
        *(f"tag {name} {would}made" for name in done.tags_made),
        *(f"tag {name} {would}deleted" for name in done.tags_deleted),
        *(f"partition {p.directory} {would}dropped with {counted(p.row_count, 'row')}" for p in done.partitions),
        *(f"consumer {name} {would}forgotten" for name in done.consumers),
    ]
    for line in first_of(told, _LISTED):
        say(line)
    expired = done.expired
    if expired.finished:
        say(f"finished {counted(expired.finished, 'removal')} that a crash interrupted")
    if expired.dropped:
        say(
            f"did not finish {counted(expired.dropped, 'interrupted removal')}: a consumer still reads from there, or"
            " the table was rolled back; 'remove-orphans' finds the unreferenced files"
        )
    for what, ids in (("snapshot", expired.snapshots), ("changelog", expired.changelogs)):
        if ids:
            say(f"{counted(len(ids), what)} {would}expired: {_range(ids)}")
    if expired.file_count or expired.metadata_count:
        files = f"{counted(expired.file_count, 'file')} of {expired.size_bytes:,} bytes"
        say(f"{would}removed: {files}, {counted(expired.metadata_count, 'file')} of metadata")
    if not told and not expired.snapshots and not expired.changelogs and not (expired.finished or expired.dropped):
        say("nothing to expire")
    if expired.keeper is not None:
        say(f"snapshot {expired.keeper.snapshot_id} and later ones are kept: {expired.keeper.text}", err=True)


def _tell_without_time(directories: Sequence[str]) -> None:
    if directories:
        names = ", ".join(first_of(list(directories), 5))
        say(
            f"{counted(len(directories), 'partition')} never expire, because their values are not times: {names}; "
            "see partition.timestamp-pattern, or use drop-partition",
            err=True,
        )


def _range(ids: Sequence[int]) -> str:
    return str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"


# ---------------------------------------------------------------- rollback


def rollback(
    path: str,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    yes: bool,
    dry_run: bool,
    storage: Options,
) -> None:
    """Roll the table back, after a confirmation."""
    if sum(one is not None for one in (snapshot, tag, timestamp)) != 1:
        raise ConfigError("the target is missing: give one of --snapshot, --tag and --timestamp")
    table = open_table(path, storage, for_reading=False)
    ctx = table.context
    if not dry_run:
        finish_interrupted(ctx)  # a removed snapshot cannot be a target
    if tag is not None:
        plan = plan_rollback_to_tag(ctx, tag)
    else:
        plan = plan_rollback(ctx, snapshot if snapshot is not None else _snapshot_at(table, timestamp or ""))
    if not plan.snapshots and plan.tag is None:
        say(f"nothing to do: snapshot {plan.to.id} is the newest one")
        return
    _tell_rollback(plan, "would roll back to" if dry_run else "rolling back to")
    _tell_beside(table, plan)
    pipelines = marking_pipelines(table.io, table.paths)
    later = continued_words(table) if pipelines else None
    if later is not None:
        say(f"{later}: no pipeline rereads the records that this table then lacks", err=True)
    elif pipelines:
        say(
            f"written by pipeline {', '.join(pipelines)}: stop it and all other writers first. Its next start "
            "rereads the records that the table then lacks. A pipeline of dump files refuses to start, and its "
            "message has the remedy",
            err=True,
        )
    if dry_run:
        return
    confirm("Go back?", yes)
    roll_back(ctx, plan)
    say(f"snapshot {plan.to.id} is now the newest one; remove-orphans removes the files that are no longer needed")


def rollback_to_tag(path: str, tag: str, yes: bool, dry_run: bool, storage: Options) -> None:
    """Roll the table back to a tag, after a confirmation."""
    rollback(path, None, tag, None, yes, dry_run, storage)


def _snapshot_at(table: Table, timestamp: str) -> int:
    try:
        moment = int(timestamp) if timestamp.isascii() and timestamp.isdigit() else timestamp
        found = table.snapshots.at_or_before(int(parse_instant(moment, zone=UTC).timestamp() * 1000))
    except ValueError as error:
        raise ConfigError(f"--timestamp: {error}") from None
    if found is None:
        raise ConfigError(f"--timestamp: {table.paths.root} has no snapshot that is not after {timestamp}")
    return found.id


def _tell_rollback(plan: Rollback, what: str) -> None:
    say(f"{what} snapshot {plan.to.id} of {_time(plan.to)}, {counted(plan.to.total_record_count, 'stored row')}")
    for name, ids in (("snapshot", plan.snapshots), ("changelog", plan.changelogs)):
        if ids:
            say(f"  without {counted(len(ids), name)}: {_range(sorted(ids))}")
    if plan.tags:
        say(f"  without {counted(len(plan.tags), 'tag')}: {', '.join(first_of(list(plan.tags), _LISTED))}")


def _tell_beside(table: Table, plan: Rollback) -> None:
    """Report the retries and replays whose snapshots would be removed: no start of the pipeline reads them again."""
    retries: list[int] = []
    replays: set[str] = set()
    for snapshot_id in plan.snapshots:
        found = table.snapshots.find(snapshot_id)
        properties = {} if found is None else found.properties or {}
        if RETRY_PROPERTY in properties and found is not None and found.commit_kind != CommitKind.COMPACT:
            retries.append(snapshot_id)
        if REPLAY_PROPERTY in properties:
            replays.add(properties[REPLAY_PROPERTY])
    if retries:
        say(
            f"{counted(len(retries), 'snapshot')} ({_range(sorted(retries))}) with rows of `quarantine retry`: "
            "afterwards their records are open in the quarantine again (tidemark quarantine retry FILE)",
            err=True,
        )
    if replays:
        say(
            f"this removes rows of {counted(len(replays), 'replay')} "
            f"({', '.join(first_of(sorted(replays), _LISTED))}). Run each again afterwards; if one has not "
            "ended, add --abandon, or it continues after these rows",
            err=True,
        )


def _time(snapshot: Snapshot) -> str:
    return datetime.fromtimestamp(snapshot.time_ms / 1000, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")


# ---------------------------------------------------------------- tags


def list_tags(path: str, form: RowFormat, storage: Options) -> None:
    """One row per tag."""
    table = open_table(path, storage)
    with quiet_pipe():
        write_rows([tag_rows(TagStore(table.io, table.paths).all())], form)


def create_tag(
    path: str, name: str, snapshot: int | None, retained: str | None, dry_run: bool, storage: Options
) -> None:
    """Tag a snapshot."""
    table = open_table(path, storage, for_reading=False)
    chosen = snapshot if snapshot is not None else table.snapshots.latest_id()
    if chosen is None:
        raise ConfigError(f"{path} has no snapshot yet; write to it first")
    of_options = table.options.retention.tag_default_time_ms
    lives_ms = of_options if retained is None else given_duration_ms("--retained", retained)
    tags = TagStore(table.io, table.paths)
    if dry_run:
        tags.check_new(name)
        list(table.snapshots.between(chosen, chosen))
        say(f"would tag snapshot {chosen} as {name}")
        return
    finish_interrupted(table.context)  # otherwise an unfinished removal could delete the new tag of the same name
    tag_snapshot(tags, name, table.paths.snapshot_file(chosen), now=datetime.now, retained_ms=lives_ms)
    say(f"tagged snapshot {chosen} as {name}")


def delete_tags(path: str, names: Sequence[str], dry_run: bool, storage: Options) -> None:
    """Delete tags with the files that only they needed."""
    table = open_table(path, storage, for_reading=False)
    store = TagStore(table.io, table.paths)
    if not dry_run:
        finish_interrupted(table.context)  # a killed deletion, perhaps of the same tag
    tags = [store.read(name) for name in dict.fromkeys(names)]
    for tag in tags:
        _delete_tag(table, tag, dry_run)


def _delete_tag(table: Table, tag: Tag, dry_run: bool) -> None:
    plan = plan_tag_removal(table.context, tag)
    removal = plan.removal
    if not dry_run:
        with watched("files") as progress:
            progress.begin(f"deleting tag {tag.name}", len(removal.files) + len(removal.metadata))
            carry_out(table.io, table.paths, removal, Surroundings().new_uuid, progress.advance)
    files = f"{counted(len(removal.files), 'file')} of {plan.size_bytes:,} bytes"
    what = "would delete" if dry_run else "deleted"
    say(f"{what} tag {tag.name} with {files}, {counted(len(removal.metadata), 'file')} of metadata")


# ---------------------------------------------------------------- branches, consumers


def list_branches(path: str, form: RowFormat, storage: Options) -> None:
    """One row per branch."""
    table = open_table(path, storage)
    with quiet_pipe():
        write_rows([branch_rows(BranchStore(table.io, table.paths))], form)


def create_branch(path: str, name: str, tag: str | None, dry_run: bool, storage: Options) -> None:
    """Begin a branch at a tag, or without rows."""
    table = open_table(path, storage, for_reading=False)
    branches = BranchStore(table.io, table.paths)
    begin = None if tag is None else TagStore(table.io, table.paths).read(tag)
    branches.check_new(name)
    where = "without rows" if begin is None else f"at tag {begin.name}, snapshot {begin.snapshot.id}"
    if not dry_run:
        branches.create(name, begin)
    say(f"{'would begin' if dry_run else 'began'} branch {name} {where}")


def delete_branch(path: str, name: str, yes: bool, dry_run: bool, storage: Options) -> None:
    """Delete a branch, after a confirmation."""
    table = open_table(path, storage, for_reading=False)
    branches = BranchStore(table.io, table.paths)
    branches.check_there(name)
    newest = branches.snapshots(name).latest()
    rows = "no rows" if newest is None else f"{counted(newest.total_record_count, 'stored row')}"
    say(f"{'would delete' if dry_run else 'deleting'} branch {name} with {rows}")
    if dry_run:
        return
    confirm("Delete it?", yes)
    branches.delete(name)
    say(f"deleted branch {name}; remove-orphans removes the files that only it needed")


def list_consumers(path: str, form: RowFormat, storage: Options) -> None:
    """One row per consumer."""
    table = open_table(path, storage)
    with quiet_pipe():
        write_rows([consumer_rows(ConsumerStore(table.io, table.paths).all())], form)


def reset_consumer(path: str, name: str, snapshot: int, create: bool, dry_run: bool, storage: Options) -> None:
    """Set the next snapshot of a consumer; creates it on request. A new consumer then keeps snapshots."""
    table = open_table(path, storage, for_reading=False)
    earliest, latest = table.snapshots.earliest_id() or 1, table.snapshots.latest_id() or 0
    if not earliest <= snapshot <= latest + 1:
        raise ConfigError(
            f"--snapshot {snapshot}: {path} has the snapshots {earliest} to {latest}; name one of them or the next"
        )
    check_name("consumer", name)
    consumers = ConsumerStore(table.io, table.paths)
    if not create and name not in consumers.names():
        there = ", ".join(sorted(consumers.names())) or "none"
        raise ConfigError(
            f"{path} has no consumer {name!r}; it has: {there}. --create creates one, which keeps snapshots"
        )
    if not dry_run:
        consumers.reset(name, snapshot)
        left = table.snapshots.earliest_id() or 1
        if snapshot < left:  # the process that expired it may not have seen the consumer
            raise ConfigError(
                f"--snapshot {snapshot} of {path} expired in the meantime; reset consumer {name!r} to {left} or later, "
                "or delete it: it keeps all snapshots from now on"
            )
    say(f"consumer {name} {'would read' if dry_run else 'reads'} snapshot {snapshot} next")


def delete_consumer(path: str, name: str, dry_run: bool, storage: Options) -> None:
    """Delete a consumer."""
    table = open_table(path, storage, for_reading=False)
    consumers = ConsumerStore(table.io, table.paths)
    consumers.check_there(name)
    if not dry_run:
        consumers.delete(name)
    say(f"{'would forget' if dry_run else 'forgot'} consumer {name}")
