"""Publishing the work of bucket writers as snapshots, exactly once.

Implements Paimon's commit: manifests first, then one snapshot file that is created atomically or not at all, then the
LATEST hint. One commit gives up to two snapshots of the same user and identifier: APPEND (new files and their
changelog) and COMPACT (files replaced by compaction and its changelog).

Exactly once, the argument. A commit user numbers its commits with strictly rising identifiers and repeats an identifier
only with the same input. Before each attempt the committer looks through every snapshot that it has not seen yet for
those of its own user; a part whose identifier is there already is not published again. The attempt then publishes under
the next snapshot id, which succeeds only if nobody else, not even an older process of the same user, has published in
between; otherwise it looks again. So a part is in the table at most once, and a commit that returns has it there. The
one gap, own snapshots that have expired before the search, is noticed and reported instead of guessed at.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from paimon_table.commit_delta import Commit, Delta, append_delta, compact_delta
from paimon_table.conflict import find_bucket_change, find_conflict, find_inconsistency
from paimon_table.data_file import CommitMessage
from paimon_table.errors import (
    BrokenInvariant,
    CommitConflict,
    CommitOutcomeUnknown,
    ConfigError,
    CorruptFile,
    SinkUnavailable,
)
from paimon_table.file_io import FileIO
from paimon_table.manifest import ManifestFileMeta
from paimon_table.manifest_merging import merge_manifests
from paimon_table.manifest_store import ManifestDraft, ManifestReader
from paimon_table.options import TableOptions
from paimon_table.paths import TablePaths
from paimon_table.schema import TableSchema
from paimon_table.snapshot import CommitKind, Snapshot, SnapshotStore
from paimon_table.table_state import TableState, advance_state

CLOCK_SKEW_MS = 600_000
"""How far the clocks of two committers may be apart when a commit's start is compared with snapshot times."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The snapshots of one commit. None: the part was empty, or an earlier run had published it."""

    append: Snapshot | None = None
    compact: Snapshot | None = None
    replayed: bool = False
    """Whether the APPEND part (or all of the commit) was found in the table and skipped."""


@dataclass(frozen=True, slots=True)
class RetryWait:
    """How a lost race is waited out; tests pass a sleep that does nothing."""

    sleep_s: Callable[[float], None] = time.sleep
    random_fraction: Callable[[], float] = random.random

    def after(self, attempt: int, options: TableOptions) -> None:
        """Wait between half and all of min * 2^attempt, at most the longest wait."""
        wait_ms = min(options.commit_min_retry_wait_ms << min(attempt, 20), options.commit_max_retry_wait_ms)
        self.sleep_s(wait_ms * (0.5 + self.random_fraction() / 2) / 1000)


@dataclass(frozen=True, slots=True)
class _Lists:
    """Manifest lists that are the same in every attempt of one part."""

    delta_manifests: tuple[ManifestFileMeta, ...]
    delta: tuple[str, int]
    changelog: tuple[str, int] | None


def _ignore_step(step: str) -> None:
    """Steps matter to crash tests only."""


class TableCommit:
    """Commits of one user to one table; runs on the driver, in one thread.

    Keeps the table's state in memory and moves it forward, so that a commit reads only what others have committed.
    ``on_step`` is called with before-append, after-append, before-compact and after-compact.
    """

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        schema: TableSchema,
        options: TableOptions,
        commit_user: str,
        clock_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        *,
        on_step: Callable[[str], None] = _ignore_step,
        retry_wait: RetryWait | None = None,
        state: TableState | None = None,
    ) -> None:
        self._io = io
        self._paths = paths
        self._options = options
        self._user = commit_user
        self._clock_ms = clock_ms
        self._new_uuid = new_uuid
        self._on_step = on_step
        self._retry_wait = retry_wait or RetryWait()
        self._partition_types = [f.type for f in schema.partition_fields]
        self._key_types = [f.type for f in schema.key_fields]
        self._schema_id = schema.id
        self._snapshots = SnapshotStore(io, paths)
        self._reader = ManifestReader(io, paths)
        self._state = state or TableState()
        self._manifests: tuple[int, tuple[ManifestFileMeta, ...]] = (0, ())
        self._own: Snapshot | None = None
        self._searched_id = 0

    def refresh(self) -> TableState:
        """The table's state at the latest snapshot; reads only what has changed since the last call or commit."""
        latest_id = self._snapshots.latest_id()
        if self._state.snapshot_id != (latest_id or 0):
            self._state = advance_state(self._io, self._paths, self._state, latest_id)
        return self._state

    @property
    def state(self) -> TableState:
        """The state as of the last refresh or commit, whichever is newer."""
        return self._state

    def committed_identifier(self, started_ms: int | None = None) -> int | None:
        """Identifier of this user's newest commit, None when it has none; ``started_ms`` as for ``commit``."""
        self._search(self.refresh(), started_ms)
        return self._own.commit_identifier if self._own is not None else None

    def commit(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        properties: Mapping[str, str],
        watermark: int | None = None,
        *,
        started_ms: int | None = None,
    ) -> CommitResult:
        """Publish the messages' APPEND part, then their COMPACT part; parts that are there already are skipped.

        ``started_ms`` is a time at which this identifier had certainly not been committed yet (the first start of its
        batch): snapshots older than that need no look, expired or not. Without it, a search that ends at expired
        snapshots raises CommitOutcomeUnknown instead of risking a second commit.

        Raises CommitConflict (the part is not published: others deleted its files, or the race was lost too often),
        CommitOutcomeUnknown (repeat the whole commit: it finds out), ConfigError (the number of buckets differs from
        that of the partition's files), SinkUnavailable, CorruptFile.
        """
        request = Commit(identifier=identifier, properties=properties, watermark=watermark, started_ms=started_ms)
        try:
            self.refresh()
            replayed = self._is_committed(request, CommitKind.APPEND)
            append = None if replayed else self._commit_part(request, append_delta(messages))
            compact = self._commit_part(request, compact_delta(messages))
        except FileNotFoundError as error:
            raise CorruptFile(
                f"a metadata file of {self._paths.root} is missing ({error}); open the table again"
            ) from error
        except OSError as error:
            raise SinkUnavailable(f"{self._paths.root} cannot be read or written ({error}); retry later") from error
        return CommitResult(append, compact, replayed)

    # ------------------------------------------------------------ one part

    def _commit_part(self, request: Commit, delta: Delta) -> Snapshot | None:
        """Publish one snapshot; None when there is nothing to publish or it is there already."""
        if delta.is_empty or self._is_committed(request, delta.kind):
            return None
        wrong = find_inconsistency(delta.entries)
        if wrong is not None:
            raise BrokenInvariant(f"{self._name(request, delta)}: {wrong}; nothing was published, report this")
        self._on_step(f"before-{delta.kind.lower()}")
        published = self._publish(request, delta)
        self._on_step(f"after-{delta.kind.lower()}")
        return published

    def _publish(self, request: Commit, delta: Delta) -> Snapshot:
        """Try until the snapshot is published or found to be there; conflicts and too many lost races raise."""
        first_ms = self._clock_ms()
        shared = self._draft()
        lists: _Lists | None = None
        attempts = self._options.commit_max_retries + 1
        for attempt in range(attempts):
            if attempt:
                self._retry_wait.after(attempt - 1, self._options)
                self.refresh()
                if self._is_committed(request, delta.kind) and self._own is not None:
                    shared.discard()
                    return self._own
            self._check_conflict(request, delta, shared)
            lists = lists or self._write_lists(shared, delta)
            snapshot = self._attempt(request, delta, lists)
            if snapshot is not None:
                return snapshot
            timeout_ms = self._options.commit_timeout_ms
            if timeout_ms is not None and self._clock_ms() - first_ms > timeout_ms:
                attempts = attempt + 1
                break
        shared.discard()
        raise CommitConflict(
            f"{self._name(request, delta)}: another committer was faster {attempts} times; nothing was published: retry"
        )

    def _check_conflict(self, request: Commit, delta: Delta, shared: ManifestDraft) -> None:
        changed = find_bucket_change(self._state, delta.entries)
        conflict = changed or find_conflict(self._state, delta.entries, self._key_types)
        if conflict is None:
            return
        shared.discard()
        if changed is not None:
            raise ConfigError(
                f"{self._name(request, delta)}: {changed}; set 'bucket' back or overwrite the partition to rescale it"
            )
        raise CommitConflict(
            f"{self._name(request, delta)}: {conflict}; nothing was published: restore the state and retry"
        )

    def _attempt(self, request: Commit, delta: Delta, lists: _Lists) -> Snapshot | None:
        """Write a base list for the current state and publish the next snapshot; None when the race was lost."""
        draft = self._draft()
        manifests = self._merged_manifests(draft)
        base = draft.add_list(manifests)
        draft.write()
        snapshot = self._snapshot(request, delta, lists, base)
        if self._publish_snapshot(snapshot):
            self._accept(snapshot, delta, (*manifests, *lists.delta_manifests))
            return snapshot
        # Unreferenced: the id belongs to a snapshot of another uuid, so no snapshot names these files.
        draft.discard()
        return None

    def _publish_snapshot(self, snapshot: Snapshot) -> bool:
        """True when the snapshot is in the table, False when another one provably has its id."""
        unclear: CommitOutcomeUnknown | None = None
        try:
            if self._snapshots.publish(snapshot):
                return True
        except CommitOutcomeUnknown as error:
            unclear = error
        try:
            present = self._snapshots.find(snapshot.id)
        except OSError as error:
            present, unclear = None, unclear or CommitOutcomeUnknown(str(error))
        if present is None:
            raise CommitOutcomeUnknown(
                f"whether snapshot {snapshot.id} of {self._paths.root} was published is not known; repeat the commit, "
                "it looks before it publishes"
            ) from unclear
        if present.uuid != snapshot.uuid:
            return False
        self._snapshots.write_latest_hint(snapshot.id)
        return True

    def _accept(self, snapshot: Snapshot, delta: Delta, manifests: tuple[ManifestFileMeta, ...]) -> None:
        self._state = self._state.with_committed(snapshot, delta.entries)
        self._manifests = (snapshot.id, manifests)
        self._own = snapshot
        self._searched_id = snapshot.id

    # ------------------------------------------------------------ what is there already

    def _is_committed(self, request: Commit, kind: CommitKind) -> bool:
        """Whether this user's newest snapshot shows that the part was published, by whichever process."""
        self._search(self._state, request.started_ms)
        if self._own is None or self._own.commit_identifier < request.identifier:
            return False
        if kind is CommitKind.APPEND or self._own.commit_identifier > request.identifier:
            return True
        return self._own.commit_kind is CommitKind.COMPACT

    def _search(self, state: TableState, started_ms: int | None) -> None:
        """Look through the snapshots that have appeared since the last search for those of this user."""
        if state.snapshot_id < self._searched_id:
            # The table was rolled back: what was seen may be gone.
            self._own, self._searched_id = None, 0
        since_ms = None if started_ms is None else started_ms - CLOCK_SKEW_MS
        found = self._snapshots.search_user(self._user, state.snapshot_id, self._searched_id, since_ms)
        if not found.exhaustive:
            raise CommitOutcomeUnknown(
                f"snapshots of {self._paths.root} in which user {self._user} might have committed have expired, so "
                "whether this commit is in the table is not known; give the start of the batch, or check the table and "
                "continue with a new checkpoint"
            )
        self._own = found.newest or self._own
        self._searched_id = state.snapshot_id

    # ------------------------------------------------------------ files of an attempt

    def _draft(self) -> ManifestDraft:
        return ManifestDraft(self._io, self._paths, self._options, self._partition_types, self._new_uuid)

    def _write_lists(self, shared: ManifestDraft, delta: Delta) -> _Lists:
        manifests = shared.add_manifests(delta.entries)
        changelog = shared.add_manifests(delta.changelog)
        lists = _Lists(manifests, shared.add_list(manifests), shared.add_list(changelog) if changelog else None)
        shared.write()
        return lists

    def _merged_manifests(self, draft: ManifestDraft) -> tuple[ManifestFileMeta, ...]:
        """Manifests of the state's snapshot, base and delta, merged where that is due."""
        snapshot = self._state.snapshot
        if snapshot is None:
            return ()
        known_id, known = self._manifests
        return merge_manifests(
            known if known_id == snapshot.id else self._reader.all_manifests(snapshot),
            self._options,
            self._partition_types,
            self._reader.entries_of,
            draft.add_manifests,
        )

    def _snapshot(self, request: Commit, delta: Delta, lists: _Lists, base: tuple[str, int]) -> Snapshot:
        previous = self._state.snapshot
        schema_id = self._latest_schema_id()
        watermarks = [w for w in (request.watermark, previous.watermark if previous else None) if w is not None]
        return Snapshot(
            id=self._state.snapshot_id + 1,
            uuid=self._new_uuid(),
            schema_id=schema_id,
            base_manifest_list=base[0],
            base_manifest_list_size=base[1],
            delta_manifest_list=lists.delta[0],
            delta_manifest_list_size=lists.delta[1],
            changelog_manifest_list=lists.changelog[0] if lists.changelog else None,
            changelog_manifest_list_size=lists.changelog[1] if lists.changelog else None,
            index_manifest=previous.index_manifest if previous else None,
            commit_user=self._user,
            writer_version=WRITER_VERSION,
            commit_identifier=request.identifier,
            commit_kind=delta.kind,
            # Not before the previous one, so that time travel may search by halves.
            time_ms=max(self._clock_ms(), previous.time_ms if previous else 0),
            total_record_count=(previous.total_record_count if previous else 0) + delta.record_count,
            delta_record_count=delta.record_count,
            changelog_record_count=delta.changelog_record_count if lists.changelog else None,
            watermark=max(watermarks, default=None),
            # A snapshot has statistics only of its own schema version.
            statistics=previous.statistics if previous and previous.schema_id == schema_id else None,
            properties=dict(request.properties),
            next_row_id=(previous.next_row_id or 0) if previous else 0,
        )

    def _latest_schema_id(self) -> int:
        while self._io.exists(self._paths.schema_file(self._schema_id + 1)):
            self._schema_id += 1
        return self._schema_id

    def _name(self, request: Commit, delta: Delta) -> str:
        return f"{delta.kind} {request.identifier} of user {self._user} to {self._paths.root}"


def _writer_version() -> str:
    try:
        return f"tidemark-{version('tidemark')}"
    except PackageNotFoundError:
        return "tidemark"


WRITER_VERSION = _writer_version()
"""What snapshots name as their writer; informational."""
