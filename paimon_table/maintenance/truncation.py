"""Emptying a table.

Implements Paimon's truncateTable: an OVERWRITE snapshot that deletes all data files and index files and brings none.
"""

from __future__ import annotations

from paimon_table.errors import CommitConflict
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.maintenance.partitions import Dropped, partition_facts
from paimon_table.table import Table


def truncate(table: Table, job: Job) -> Dropped:
    """Take all rows out of the table, whatever kind it is of, in one snapshot; one without files gets none.

    CommitConflict when other writers keep committing to the table; nothing is gone then.
    """
    for _ in range(ATTEMPTS):
        commit = job.commit_to(table)
        state = commit.refresh()
        facts = partition_facts(table.context, state)
        try:
            done = commit.replace_all(next(job.identifiers), (), {}, state.identity)
        except CommitConflict:
            continue
        return Dropped(facts, None if done.overwrite is None else done.overwrite.id)
    raise CommitConflict(
        f"{table.paths.root}: other writers keep committing to the table; nothing was removed: try again, or stop the "
        "pipelines that write it"
    )
