"""Publishing the work of bucket writers as snapshots, exactly once.

Implements Paimon's commit: manifests first, then one snapshot file that is created atomically or not at all, then the
LATEST hint. One commit publishes up to two snapshots of the same user and identifier. APPEND has new files and their
changelog, COMPACT has the files replaced by compaction and its changelog. An overwrite publishes one: OVERWRITE.

Why a commit happens exactly once: A commit user numbers its commits with strictly rising identifiers and repeats an
identifier only with the same input. Before each attempt the committer searches all new snapshots for those of its own
user. It does not publish a part whose identifier it finds. The attempt then publishes under the next snapshot id. This
succeeds only if no other process, not even an older one of the same user, has published in between. Otherwise the
committer searches again. So a part is in the table at most once, and it is there when a commit returns. There is one
gap: own snapshots may expire before the search. The committer detects this and reports it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from paimon_table.commit.attempts import AttemptFiles, RetryWait, delta_lists
from paimon_table.commit.conflict import (
    find_conflict,
    find_inconsistency,
    find_unseen,
    find_unseen_hashes,
    find_unseen_rows,
    find_unseen_vectors,
)
from paimon_table.commit.delta import Commit, CommitResult, Delta, DeltaAt, append_delta, compact_delta
from paimon_table.commit.next_snapshot import ManifestLists, next_snapshot
from paimon_table.commit.other_buckets import find_other_buckets
from paimon_table.commit.overwrite import (
    PartitionContent,
    check_keys_stay_alone,
    overwrite_delta,
    replaced_partitions,
    replacing_delta,
    whole_delta,
)
from paimon_table.commit.own_commits import CommitsOfUser, OwnCommits
from paimon_table.commit.snapshot_ordering import stamped
from paimon_table.errors import (
    BrokenInvariant,
    BucketCountChanged,
    CommitConflict,
    CorruptFile,
)
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_manifest import IndexEntry, combined, find_index_conflict
from paimon_table.metadata.manifest import ManifestFileMeta
from paimon_table.metadata.manifest_store import ManifestDraft
from paimon_table.metadata.publisher import Publisher
from paimon_table.metadata.schema_files import read_schema
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotIdentity
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import TableState, advance_state
from paimon_table.options.option_parsing import parse_options
from paimon_table.storage.outages import storage_failure


def _ignore_step(step: str) -> None:
    """Steps matter to crash tests only."""


def _ignore_attempt() -> None:
    """Most committers check only conflicts."""


class TableCommit:
    """Commits of one user to one table; runs on the driver, in one thread.

    Keeps the table's state in memory and updates it, so that a commit reads only the commits of others. It calls
    ``on_step`` with before-append, after-append, and so on for the other kinds of snapshots. It calls ``on_attempt``
    before each attempt to publish a snapshot, after loading all commits of others. If ``on_attempt`` raises, the commit
    ends and the part is not published.
    """

    def __init__(
        self,
        ctx: TableContext,
        publisher: Publisher,
        commit_user: str,
        clock_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        *,
        on_step: Callable[[str], None] | None = None,
        on_attempt: Callable[[], None] | None = None,
        retry_wait: RetryWait | None = None,
        state: TableState | None = None,
        own: OwnCommits | None = None,
        before: TableCommit | None = None,
    ) -> None:
        self._io = ctx.io
        self._paths = ctx.paths
        self._options = ctx.options
        self._schema = ctx.schema
        self._publisher = publisher
        self._user = commit_user
        self._clock_ms = clock_ms
        self._new_uuid = new_uuid
        self._on_step = on_step or _ignore_step
        self._on_attempt = on_attempt or _ignore_attempt
        self._retry_wait = retry_wait or RetryWait()
        self._key_types = [f.type for f in ctx.schema.key_fields]
        self._schema_id = ctx.schema.id
        self._snapshots = ctx.snapshots
        self._files = AttemptFiles(ctx, new_uuid)
        self._state: TableState = before.state if before is not None else state or TableState()
        self._own: OwnCommits = own or CommitsOfUser(self._snapshots, ctx.paths.root, commit_user)
        self._rollback_count = 0
        if before is not None:
            self._own, self._rollback_count = before._own, before._rollback_count

    def refresh(self) -> TableState:
        """The table's state at the latest snapshot; reads only changes since the last call or commit."""
        known = self._state.snapshot
        latest = self._snapshots.latest_since(known)
        if known is not None and not known.is_same(latest):
            is_ahead = latest is not None and latest.id > known.id
            at_its_id = self._snapshots.find(known.id) if is_ahead else None
            if not known.is_same(at_its_id):
                # Rolled back or recreated, perhaps with the same ids again; an expired snapshot proves nothing.
                self._state = TableState()
                if not is_ahead or at_its_id is not None:
                    self._own.forget()
                    self._rollback_count += 1
        self._state = advance_state(self._io, self._paths, self._state, latest)
        return self._state

    @property
    def state(self) -> TableState:
        """The state as of the last refresh or commit, whichever is newer."""
        return self._state

    @property
    def rollback_count(self) -> int:
        """How often the snapshot of the state had disappeared, by a rollback or because the table was recreated.

        After that, results from an earlier state, such as sequence numbers, are invalid.
        """
        return self._rollback_count

    def committed_identifier(self, started_ms: int | None = None) -> int | None:
        """The identifier of this user's newest commit; None if it has none. ``started_ms`` is as for ``commit``."""
        newest = self._own.newest(self.refresh().snapshot, started_ms)
        return None if newest is None else newest.commit_identifier

    def commit(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        properties: Mapping[str, str],
        watermark: int | None = None,
        *,
        started_ms: int | None = None,
        also_empty: bool = False,
    ) -> CommitResult:
        """Publish the messages' APPEND part, then their COMPACT part; skips parts that are published already.

        With ``also_empty`` it publishes an APPEND without files too, for its properties.

        ``started_ms`` is a time before this identifier's first commit (the first start of its batch). The search ends
        at older snapshots, expired or not. Without it, a search that ends at expired snapshots raises
        CommitOutcomeUnknown instead of risking a second commit.

        Raises CommitConflict (the part is not published: others deleted its files, or the race was lost too often),
        CommitOutcomeUnknown (repeat the whole commit, which finds the outcome), SinkUnavailable, CorruptFile. Raises
        BucketCountChanged if the rows were written for another number of buckets, or before older waiting rows got
        theirs.
        """
        request = Commit(identifier=identifier, properties=properties, watermark=watermark, started_ms=started_ms)
        with self._storage_errors():
            self.refresh()
            replayed = self._is_committed(request, CommitKind.APPEND)
            added, compacted = append_delta(messages), compact_delta(messages)
            append = (
                None
                if replayed
                else self._commit_part(request, CommitKind.APPEND, lambda _: added, also_empty=also_empty)
            )
            compact = self._commit_part(request, CommitKind.COMPACT, lambda _: compacted)
        return CommitResult(append, compact, replayed)

    def overwrite(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        properties: Mapping[str, str],
        partition: Mapping[str, Any] | None = None,
        watermark: int | None = None,
        *,
        started_ms: int | None = None,
    ) -> CommitResult:
        """Replace partitions by the messages of ``OverwriteWriter``s, in one snapshot; skipped if it is published
        already.

        ``partition`` has the values of some or all partition columns, in the Python forms of ``binary_row``; None
        replaces the partitions of the new rows, or the whole table (see ``overwrite``). It also replaces rows that
        others commit to these partitions until the snapshot is published.

        Raises as ``commit``. Raises ConfigError for rows outside of ``partition``, and for rows of single partitions if
        their keys may have rows in others.
        """
        request = Commit(identifier=identifier, properties=properties, watermark=watermark, started_ms=started_ms)
        covers = replaced_partitions(self._schema, self._options, messages, partition)

        def delta_at(state: TableState) -> Delta:
            check_keys_stay_alone(self._schema, messages, covers, state)
            return overwrite_delta(messages, covers, state)

        return self._overwrite(request, delta_at)

    def replace(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        properties: Mapping[str, str],
        read: Mapping[bytes, PartitionContent],
        *,
        started_ms: int | None = None,
    ) -> CommitResult:
        """Replace partitions (given as serialized rows) with the result of rewriting their content, in one OVERWRITE
        snapshot.

        As ``overwrite``, but if others have committed to the partitions since they were ``read``, it raises
        CommitConflict and publishes nothing. Partitions without messages are left without rows.
        """
        request = Commit(identifier=identifier, properties=properties, started_ms=started_ms)
        return self._overwrite(request, partial(replacing_delta, messages, read))

    def replace_all(
        self,
        identifier: int,
        messages: Sequence[CommitMessage],
        properties: Mapping[str, str],
        before: SnapshotIdentity,
    ) -> CommitResult:
        """Replace all files that the table has at the snapshot ``before``, in one OVERWRITE snapshot.

        As with ``replace``, any later snapshot raises CommitConflict, and nothing is published. The commit user must
        have no other commits.
        """
        request = Commit(identifier=identifier, properties=properties)
        return self._overwrite(request, partial(whole_delta, messages, before))

    def analyze(self, identifier: int, statistics: str) -> CommitResult:
        """Publish an ANALYZE snapshot without data files, which names a durable statistics file."""
        request = Commit(identifier=identifier, statistics=statistics)
        with self._storage_errors():
            self.refresh()
            told = Delta(CommitKind.ANALYZE, (), ())
            published = self._commit_part(request, CommitKind.ANALYZE, lambda _: told, also_empty=True)
        return CommitResult(replayed=published is None, analyze=published)

    def _overwrite(self, request: Commit, delta_at: DeltaAt) -> CommitResult:
        """Publish one OVERWRITE snapshot unless it is published already."""
        with self._storage_errors():
            self.refresh()
            replayed = self._is_committed(request, CommitKind.OVERWRITE)
            published = None if replayed else self._commit_part(request, CommitKind.OVERWRITE, delta_at)
        return CommitResult(replayed=replayed, overwrite=published)

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        """Turn failures of storage into errors with a remedy."""
        try:
            yield
        except FileNotFoundError as error:
            raise CorruptFile(
                f"a metadata file of table {self._paths.root} is missing ({error}); open the table again"
            ) from error
        except OSError as error:
            raise storage_failure(error, f"{self._paths.root} cannot be read or written") from error

    # ------------------------------------------------------------ one part

    def _commit_part(
        self, request: Commit, kind: CommitKind, delta_at: DeltaAt, *, also_empty: bool = False
    ) -> Snapshot | None:
        """Publish one snapshot; None if there is nothing to publish or it is published already."""
        delta = delta_at(self._state)
        if (delta.is_empty and not also_empty) or self._is_committed(request, kind):
            return None
        wrong = find_inconsistency(delta.entries)
        if wrong is not None:
            raise BrokenInvariant(
                f"{self._name(request, delta.kind)}: {wrong}; nothing was published: please report this"
            )
        self._on_step(f"before-{kind.lower()}")
        published = self._publish(request, kind, delta_at)
        self._on_step(f"after-{kind.lower()}")
        return published

    def _is_committed(self, request: Commit, kind: CommitKind) -> bool:
        return self._own.find(request, kind, self._state.snapshot) is not None

    def _publish(self, request: Commit, kind: CommitKind, delta_at: DeltaAt) -> Snapshot:
        """Try until the snapshot is published or found; conflicts and too many lost races raise an error."""
        first_ms = self._clock_ms()
        shared = self._files.draft()
        lists: ManifestLists | None = None
        for attempts in itertools.count(1):
            if attempts > 1:
                self.refresh()
                found = self._own.find(request, kind, self._state.snapshot)
                if found is not None:
                    shared.discard()
                    return found
            delta = self._ordered(delta_at(self._state))
            self._check_conflict(request, delta, shared)
            self._look_before_attempt(shared)
            if lists is None or lists.of is not delta:
                # Unreferenced: the ids of all attempts so far belong to snapshots of other uuids.
                shared.discard()
                shared = self._files.draft()
                lists = delta_lists(shared, delta)
            snapshot = self._attempt(request, delta, shared, lists)
            if snapshot is not None:
                return snapshot
            if not self._retry_wait.after(attempts, (self._clock_ms() - first_ms) / 1000, self._options):
                break
        shared.discard()
        raise CommitConflict(
            f"{self._name(request, kind)}: another committer was faster {attempts} times; nothing was published: retry"
        )

    def _look_before_attempt(self, shared: ManifestDraft) -> None:
        try:
            self._on_attempt()
        except Exception:
            shared.discard()
            raise

    def _ordered(self, delta: Delta) -> Delta:
        """``delta`` with the sequence numbers of its files in the next snapshot."""
        return stamped(delta, self._state.snapshot_id + 1) if self._options.snapshot_ordering else delta

    def _check_conflict(self, request: Commit, delta: Delta, shared: ManifestDraft) -> None:
        has_key, root = bool(self._schema.primary_keys), self._paths.root
        changed = find_other_buckets(self._state, delta, self._newest_bucket_option, has_key=has_key, root=root)
        conflict = (
            changed
            or delta.conflict
            or find_conflict(self._state, delta.entries, self._key_types)
            or find_unseen_hashes(self._state, delta.hashes_seen)
            or find_index_conflict(self._state.index, delta.index, many_vector_files=self._options.is_unaware)
            or find_unseen_vectors(self._state, delta.entries, delta.index)
            or find_unseen_rows(delta.keys_seen, self._state, self._snapshots.find)
            or find_unseen(self._state, delta.seen)
        )
        if conflict is None:
            return
        shared.discard()
        if changed is not None:
            raise BucketCountChanged(f"{self._name(request, delta.kind)}: {changed}")
        raise CommitConflict(
            f"{self._name(request, delta.kind)}: {conflict}; nothing was published: restore the state and retry"
        )

    def _newest_bucket_option(self) -> int:
        """The current option ``bucket``, which others may have changed since the table was opened."""
        newest = self._latest_schema_id()
        if newest == self._schema.id:
            return self._options.bucket
        schema = read_schema(self._io, self._paths, newest)
        return parse_options(schema.options, schema).bucket

    def _attempt(self, request: Commit, delta: Delta, shared: ManifestDraft, lists: ManifestLists) -> Snapshot | None:
        """Write a base list for the current state and publish the next snapshot; None after a lost race.

        The first attempt also writes the lists that all attempts share.
        """
        draft = self._files.draft()
        manifests = self._files.merged_manifests(self._state.snapshot, draft)
        base = draft.add_list(manifests)
        index = combined(self._state.index, delta.index, many_vector_files=self._options.is_unaware)
        previous = self._state.snapshot
        index_manifest = previous.index_manifest if previous else None
        if delta.index:
            index_manifest = draft.add_index_manifest(index)
        draft.write(shared)
        snapshot = next_snapshot(
            self._state.snapshot,
            request,
            lists,
            base,
            index_manifest,
            schema_id=self._latest_schema_id(),
            commit_user=self._user,
            uuid=self._new_uuid(),
            now_ms=self._clock_ms(),
        )
        self._own.trying()
        if self._publisher.publish_snapshot(snapshot, previous, delta.entries):
            self._accept(snapshot, delta, (*manifests, *lists.delta_manifests), index)
            return snapshot
        self._own.lost()
        # Unreferenced: the id belongs to a snapshot of another uuid or to none, so no snapshot names these files.
        draft.discard()
        return None

    def _accept(
        self, snapshot: Snapshot, delta: Delta, manifests: tuple[ManifestFileMeta, ...], index: tuple[IndexEntry, ...]
    ) -> None:
        self._state = self._state.with_committed(snapshot, delta.entries, index)
        self._files.published(snapshot, manifests)
        self._own.add(snapshot)

    def _latest_schema_id(self) -> int:
        while self._io.exists(self._paths.schema_file(self._schema_id + 1)):
            self._schema_id += 1
        return self._schema_id

    def _name(self, request: Commit, kind: CommitKind) -> str:
        return f"{kind} {request.identifier} of user {self._user} to {self._paths.root}"
