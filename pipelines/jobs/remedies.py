"""What a user can do about damaged files of a table. Pure."""

from __future__ import annotations

import shlex

from paimon_table import TableContext
from paimon_table.maintenance.damage import Damage, Inspection

_SHOWN = 3
_BACKUP = "put the files back from a backup, under the same names, and look again: that repairs everything"


def remedies(ctx: TableContext, found: Inspection) -> list[str]:
    """In the order in which they are to be tried; nothing that is said here happens by itself."""
    root, newest = shlex.quote(ctx.paths.root), found.newest_id
    if any(not str(damage.needs) for damage in found.damages):
        return [f"without these files the table cannot be read or written as a whole: {_BACKUP}"]
    if found.newest_is_whole:
        steps = [] if newest is None else [f"the newest snapshot ({newest}) is whole: who reads or writes it continues"]
        last = max((last for d in found.damages for branch, _, last in d.needs.spans if branch is None), default=0)
        if last:
            steps.append(
                f"time travel to the snapshots above, up to {last}, fails, and so does the changelog of them; "
                f"'tidemark table expire {root}' removes them once they are old enough"
            )
        return [*steps, _BACKUP]
    steps = [f"the newest snapshot ({newest}) is damaged: reading one of the files above fails", _BACKUP]
    of_newest = _newest(found)
    partitions = sorted({ctx.partition_path(d.partition) for d in of_newest if d.partition is not None} - {""})
    if partitions and all(damage.partition is not None for damage in of_newest):
        specs = " ".join(f"--partition {shlex.quote(p)}" for p in partitions[:_SHOWN])
        more = f" (and {len(partitions) - _SHOWN} more)" if len(partitions) > _SHOWN else ""
        steps.append(
            f"or give the damaged partitions up: 'tidemark table drop-partition {root} {specs}'{more}, then write "
            "their rows again by a replay of the topics"
        )
    if found.newest_whole_id is None:
        return [*steps, "or recreate the table from its topics: none of its snapshots is whole"]
    steps.append(
        f"or go back to snapshot {found.newest_whole_id}, the newest one that is whole: stop the pipelines that write "
        f"the table, call 'tidemark table rollback {root} --snapshot {found.newest_whole_id}', and let them read again "
        "what came after it"
    )
    return steps


def _newest(found: Inspection) -> list[Damage]:
    newest = found.newest_id
    return [damage for damage in found.damages if newest is not None and damage.needs.includes(newest)]
