"""The code of `tidemark table remove-orphans | repair | remove-duplicates`.

``upkeep_commands`` has the arguments.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import typer

from paimon_table import TableContext
from paimon_table.maintenance.damage import Damage, Inspection
from paimon_table.maintenance.inspection import inspect, mend_hints, open_despite_damage
from paimon_table.maintenance.orphans import Orphan, check_age, find_orphans
from paimon_table.maintenance.orphans import remove_orphans as remove_files
from paimon_table.maintenance.repeated_keys import RepeatedKeys, find_repeated, remove_repeated
from paimon_table.storage.file_io import file_io_for
from pipelines.inspect.table_views import Options, open_table, storage_options
from pipelines.jobs.consent import confirm
from pipelines.jobs.given_duration import given_duration_ms
from pipelines.jobs.job_progress import new_job, watched
from pipelines.report.arguments import FAILED
from pipelines.report.say import say
from sources.wording import counted, first_of

_LISTED = 20


def remove_orphans(path: str, older_than: str, nobody_writes: bool, dry_run: bool, storage: Options) -> None:
    """Remove the files that nothing references, or list them."""
    older_than_ms = given_duration_ms("--older-than", older_than)
    check_age(older_than_ms, nobody_writes=nobody_writes)
    table = open_table(path, storage, for_reading=False)
    with watched() as progress:
        job = new_job(progress)
        found = find_orphans(table, job, older_than_ms)
        files = found.files if dry_run else remove_files(table, found, job)
    size = len(f"{max((orphan.size_bytes for orphan in files), default=0):,}")
    for orphan in files if dry_run else ():
        below = orphan.path.removeprefix(f"{table.paths.root}/")
        say(f"{_time(orphan.modified_ms)}  {orphan.size_bytes:>{size},}  {below}")
    if files:
        say(f"{'would remove' if dry_run else 'removed'} {_sizes(files)} that nothing references")
    else:
        say(f"nothing to remove: none of {counted(found.file_count, 'file')} is unreferenced and old enough")
    if found.young:
        young = f"{_sizes(found.young)} are not referenced either, but younger than {older_than}"
        say(f"{young}: a writer may be about to publish them", err=True)
    if found.unknown:
        names = [path.removeprefix(f"{table.paths.root}/") for path in found.unknown]
        listed = "\n  ".join(first_of(names, _LISTED))
        say(f"not files of a Paimon table, kept:\n  {listed}", err=True)


def repair(path: str, deep: bool, dry_run: bool, storage: Options) -> None:
    """Report damage; fix hints unless it is a dry run. Exits with 1 where damage is left."""
    io, root = file_io_for(path, storage_options(path, storage))
    opened = open_despite_damage(io, root)
    with watched() as progress:
        found = inspect(opened, new_job(progress), reads_rows=deep)
    if found.hints and not dry_run:
        mend_hints(io, found.hints)
    for hint in found.hints:
        said = "is missing" if hint.found is None else f"says {hint.found[:40]!r}"
        done = f"should say {hint.right}" if dry_run else f"says {hint.right} now"
        say(f"{_below(root, hint.path)}: {said}, {done}")
    for damage in found.damages:
        say(_damage_text(opened.ctx, damage))
    checked = f"{counted(len(found.snapshot_ids), 'snapshot')} and {counted(found.file_count, 'file')} looked at"
    if found.damages:
        say(f"{checked}: {counted(len(found.damages), 'damaged file')}")
        say("\n".join(remedies(opened.ctx, found)), err=True)
    else:
        say(f"{checked}: nothing is damaged" + (", but hints are wrong" if found.hints and dry_run else ""))
    if found.damages or (found.hints and dry_run):
        raise typer.Exit(FAILED)


def _damage_text(ctx: TableContext, damage: Damage) -> str:
    place = []
    if damage.partition is not None:
        directory = ctx.partition_path(damage.partition)
        place += [f"partition {directory}"] if directory else []
        place.append(f"bucket {damage.bucket}")
    needed = f"needed by {damage.needs}" if str(damage.needs) else ""
    details = "; ".join(part for part in (", ".join(place), needed) if part)
    return f"{_below(ctx.paths.root, damage.path)}: {damage.what}" + (f" ({details})" if details else "")


def _below(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/")


def _sizes(orphans: Sequence[Orphan]) -> str:
    return f"{counted(len(orphans), 'file')} of {sum(orphan.size_bytes for orphan in orphans):,} bytes"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def remove_duplicates(path: str, newest_by: str | None, yes: bool, dry_run: bool, storage: Options) -> None:
    """List the keys that have several rows, and delete all but one of each once that is confirmed."""
    table = open_table(path, storage, for_reading=False)
    with watched() as progress:
        found = find_repeated(table, new_job(progress), newest_by)
    if not found.gone:
        say("nothing to remove: no key is in two partitions")
        return
    verb = "would delete" if dry_run else "to delete"
    say("\n".join([f"{verb} {counted(len(found.gone), 'row')}:", *_told(table.context, found)]))
    if dry_run:
        return
    confirm("Delete them?", yes, done="deleted")
    with watched() as progress:
        snapshot_id = remove_repeated(table, new_job(progress), found)
    say(f"deleted {counted(len(found.gone), 'row')}, snapshot {snapshot_id}; each key has one row now")


def _told(ctx: TableContext, found: RepeatedKeys) -> Iterator[str]:
    for key, gone, kept in zip(found.keys.slice(0, _LISTED).to_pylist(), found.gone, found.kept, strict=False):
        values = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        places = (f"{ctx.partition_path(bucket.partition)}, bucket {bucket.bucket}" for bucket in (gone, kept))
        yield f"  {values}: {' goes, that of '.join(places)} stays"
    if len(found.gone) > _LISTED:
        yield f"  and {len(found.gone) - _LISTED:,} more"


_SHOWN = 3
_BACKUP = "restore the files from a backup under the same names, then run this command again: this repairs everything"


def remedies(ctx: TableContext, found: Inspection) -> list[str]:
    """The remedies, in the order in which to try them; the command itself does none of them."""
    root, newest = shlex.quote(ctx.paths.root), found.newest_id
    if any(not str(damage.needs) for damage in found.damages):
        return [f"without these files the table cannot be read or written completely: {_BACKUP}"]
    if found.newest_is_whole:
        steps = (
            []
            if newest is None
            else [f"the newest snapshot ({newest}) is complete: readers and writers of it continue"]
        )
        last = max((last for d in found.damages for branch, _, last in d.needs.spans if branch is None), default=0)
        if last:
            steps.append(
                f"time travel to the snapshots above, up to {last}, fails, and so does reading their changelog. "
                f"Once they are old enough, 'tidemark table expire {root}' removes them"
            )
        return [*steps, _BACKUP]
    steps = [
        f"the newest snapshot ({newest}) is damaged: every read or write that needs one of the files above fails",
        _BACKUP,
    ]
    of_newest = _newest(found)
    partitions = sorted({ctx.partition_path(d.partition) for d in of_newest if d.partition is not None} - {""})
    if partitions and all(damage.partition is not None for damage in of_newest):
        specs = " ".join(f"--partition {shlex.quote(p)}" for p in partitions[:_SHOWN])
        more = f" (and {len(partitions) - _SHOWN} more)" if len(partitions) > _SHOWN else ""
        steps.append(
            f"or give up the damaged partitions: 'tidemark table drop-partition {root} {specs}'{more}, then write "
            "their rows again by a replay of the topics"
        )
    if found.newest_whole_id is None:
        return [*steps, "or recreate the table from its topics: none of its snapshots is complete"]
    steps.append(
        f"or go back to snapshot {found.newest_whole_id}, the newest complete one. Stop the pipelines that write "
        f"the table, run 'tidemark table rollback {root} --snapshot {found.newest_whole_id}', then start them "
        "again: they reread the later records"
    )
    return steps


def _newest(found: Inspection) -> list[Damage]:
    newest = found.newest_id
    return [damage for damage in found.damages if newest is not None and damage.needs.includes(newest)]
