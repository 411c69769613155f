"""What `tidemark table remove-duplicates` does; ``upkeep_commands`` has the arguments."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_table import TableContext
from paimon_table.maintenance.repeated_keys import RepeatedKeys, find_repeated, remove_repeated
from pipelines.inspect.table_views import Options, open_table
from pipelines.jobs.consent import confirm
from pipelines.jobs.job_progress import new_job, watched
from pipelines.report.say import say
from sources.wording import counted

_LISTED = 20


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
