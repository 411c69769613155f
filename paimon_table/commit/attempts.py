"""Attempts to publish a snapshot: the wait before a retry, and the metadata files of each attempt.

Implements Paimon's manifest lists: the base list names the files that were live before, the delta list the changes of
the commit, the changelog list its changelog. Files that all attempts of one commit share are written once.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from paimon_table.commit.delta import Delta
from paimon_table.commit.next_snapshot import ManifestLists
from paimon_table.metadata.manifest import ManifestFileMeta
from paimon_table.metadata.manifest_merging import merge_manifests
from paimon_table.metadata.manifest_store import ManifestDraft, ManifestReader
from paimon_table.metadata.snapshot import BEFORE_THE_FIRST, Snapshot, SnapshotIdentity
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import TableOptions
from paimon_table.patience import Patience
from paimon_table.surroundings import many_values


@dataclass(frozen=True, slots=True)
class RetryWait:
    """The wait after a lost race; tests pass a sleep that does nothing."""

    sleep_s: Callable[[float], None] = time.sleep
    random_fraction: Callable[[], float] = random.random

    def after(self, failures: int, elapsed_s: float, options: TableOptions) -> bool:
        """Wait for a random time between half and all of the backoff, to separate writers. False after the last
        retry."""
        first_s, longest_s = options.commit_min_retry_wait_ms / 1000, options.commit_max_retry_wait_ms / 1000
        timeout_s = math.inf if options.commit_timeout_ms is None else options.commit_timeout_ms / 1000
        wait_s = Patience(first_s, longest_s, options.commit_max_retries, timeout_s).wait_s(failures, elapsed_s)
        if wait_s is not None:
            self.sleep_s(wait_s * (0.5 + self.random_fraction() / 2))
        return wait_s is not None


class AttemptFiles:
    """Writes the metadata files for one committer; keeps the manifests of its newest snapshot in memory."""

    def __init__(self, ctx: TableContext, new_uuid: Callable[[], str]) -> None:
        self._ctx = ctx
        self._new_uuid = new_uuid
        self._partition_types = [f.type for f in ctx.schema.partition_fields]
        self._reader = ManifestReader(ctx.io, ctx.paths)
        self._known: tuple[SnapshotIdentity, tuple[ManifestFileMeta, ...]] = (BEFORE_THE_FIRST, ())

    def draft(self) -> ManifestDraft:
        """A draft of new files; ``discard`` removes those that no snapshot names."""
        ctx = self._ctx
        return ManifestDraft(ctx.io, ctx.paths, ctx.options, self._partition_types, self._new_uuid)

    def merged_manifests(self, snapshot: Snapshot | None, draft: ManifestDraft) -> tuple[ManifestFileMeta, ...]:
        """The base and delta manifests of a snapshot, merged if that is due; new ones go into ``draft``."""
        if snapshot is None:
            return ()
        at, known = self._known
        with many_values():
            return merge_manifests(
                known if at == snapshot.identity else self._reader.all_manifests(snapshot),
                self._ctx.options,
                self._partition_types,
                self._reader.stored_entries_of,
                draft.add_stored,
            )

    def published(self, snapshot: Snapshot, manifests: tuple[ManifestFileMeta, ...]) -> None:
        """Note that a snapshot with these manifests was published: the next attempt begins with them."""
        self._known = (snapshot.identity, manifests)


def delta_lists(shared: ManifestDraft, delta: Delta) -> ManifestLists:
    """Write the lists that all attempts of a commit share."""
    manifests = shared.add_manifests(delta.entries)
    changelog = shared.add_manifests(delta.changelog)
    changelog_list = shared.add_list(changelog) if changelog else None
    return ManifestLists(delta, manifests, shared.add_list(manifests), changelog_list)
