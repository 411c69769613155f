"""What `tidemark table remove-orphans` and `repair` do; ``upkeep_commands`` has the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from paimon_table.maintenance.orphans import Orphan, check_age, find_orphans
from paimon_table.maintenance.orphans import remove_orphans as remove_files
from paimon_table.option_values import duration_ms
from pipelines.inspect.table_views import Options, open_table
from pipelines.jobs.job_progress import new_job, watched
from sources.wording import counted, first_of

_LISTED = 20


def remove_orphans(path: str, older_than: str, nobody_writes: bool, dry_run: bool, storage: Options) -> None:
    """Remove the files that nothing refers to, or list them."""
    older_than_ms = duration_ms("--older-than", older_than)
    check_age(older_than_ms, nobody_writes=nobody_writes)
    table = open_table(path, storage, for_reading=False)
    with watched() as progress:
        job = new_job(progress)
        found = find_orphans(table, job, older_than_ms)
        files = found.files if dry_run else remove_files(table, found, job)
    size = len(f"{max((orphan.size_bytes for orphan in files), default=0):,}")
    for orphan in files if dry_run else ():
        below = orphan.path.removeprefix(f"{table.paths.root}/")
        typer.echo(f"{_time(orphan.modified_ms)}  {orphan.size_bytes:>{size},}  {below}")
    if files:
        typer.echo(f"{'would remove' if dry_run else 'removed'} {_sizes(files)} that nothing refers to")
    else:
        typer.echo(f"nothing to remove: of {counted(found.file_count, 'file')} none is unreferenced and old enough")
    if found.young:
        young = f"{_sizes(found.young)} are not referred to either, but younger than {older_than}"
        typer.echo(f"{young}: a writer may be about to publish them", err=True)
    if found.unknown:
        names = [path.removeprefix(f"{table.paths.root}/") for path in found.unknown]
        listed = "\n  ".join(first_of(names, _LISTED))
        typer.echo(f"not files of a Paimon table, left alone:\n  {listed}", err=True)


def _sizes(orphans: Sequence[Orphan]) -> str:
    return f"{counted(len(orphans), 'file')} of {sum(orphan.size_bytes for orphan in orphans):,} bytes"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
