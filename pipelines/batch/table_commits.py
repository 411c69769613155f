"""The commits of a batch to its tables: several at the same time, each as soon as its content is ready.

Tables share nothing that a commit changes, so their snapshots may appear in any order. Within a table the order is
fixed: all files that a snapshot names are durable before the snapshot is published.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from paimon_table import BucketId, CommitMessage, CommitResult, Snapshot
from paimon_table.side_by_side import Start, waits_at_once
from pipelines.batch.job_result import JobResult
from pipelines.batch.plan import BatchRun
from pipelines.tables.table_failure import TableFailure, blaming
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import TopicPartition


def at_once(tables: PipelineTables) -> int:
    """How many tables are committed to at the same time."""
    most = waits_at_once(tables.config.catalog.address)
    return 1 if faults.is_wanted() else max(1, min(most, len(tables.sinks)))


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of commits."""

    dropped: set[str]
    """Tables whose compaction met the compaction of another writer."""
    failures: list[TableFailure]


class TableCommits:
    """Commits to tables, of which several may run at once; a failure of one table does not affect the others.

    Belongs to the thread of the batch, which records the results in the order in which the commits began.
    """

    def __init__(
        self,
        batch: BatchRun,
        identifiers: Sequence[str],
        ends: Mapping[str, Mapping[TopicPartition, int]],
        watermarks_ms: Mapping[str, int],
        emptied: Collection[str],
        snapshots: dict[str, tuple[Snapshot, ...]],
        tables: PipelineTables,
        start: Start,
    ) -> None:
        """``identifiers`` are the target tables, ``ends`` where the batch ended; ``snapshots`` gets the published
        snapshots.

        ``watermarks_ms`` has the watermark of each table with one; ``emptied`` are tables that follow a TRUNCATE.
        ``start`` begins a commit, in whichever thread.
        """
        self._batch = batch
        self._identifiers = identifiers
        self._ends = ends
        self._watermarks_ms = watermarks_ms
        self._emptied = emptied
        self._snapshots = snapshots
        self._tables = tables
        self._start = start
        self._begun: list[tuple[str, Future[CommitResult]]] = []

    def begin(self, result: JobResult) -> None:
        """Commit the messages of each table."""
        messages_of = self._messages_of(result)
        self._tables.will_commit(messages_of)
        for identifier, messages in messages_of.items():
            departed = result.departed(self._identifiers.index(identifier))
            self._begun.append((identifier, self._start(partial(self._commit, identifier, messages, departed))))

    def end(self) -> Ended:
        """Wait for the running commits and record the published snapshots.

        Raises errors that are not a failure of a table.
        """
        ended = Ended(set(), [])
        others: list[BaseException] = []
        for identifier, commit in self._begun:
            error = commit.exception()
            if isinstance(error, TableFailure):
                ended.failures.append(error)
            elif error is not None:
                others.append(error)
            else:
                self._note(identifier, commit.result(), ended)
        if others:
            raise others[0]
        return ended

    def _note(self, identifier: str, committed: CommitResult, ended: Ended) -> None:
        published = tuple(s for s in (committed.append, committed.compact) if s is not None)
        self._snapshots[identifier] = self._snapshots.get(identifier, ()) + published
        if committed.is_compaction_lost:
            ended.dropped.add(identifier)

    def _messages_of(self, result: JobResult) -> dict[str, list[CommitMessage]]:
        """The changes for each touched table."""
        found: defaultdict[str, list[CommitMessage]] = defaultdict(list)
        for write in result.writes:
            messages = [message for message in write.messages if not message.is_empty]
            if messages:
                found[self._identifiers[write.target]] += messages
        for identifier in (*self._with_bad_records(result), *self._emptied):
            found[identifier] += ()
        paused = self._tables.paused
        return {name: found[name] for name in self._identifiers if name in found and name not in paused}

    def _with_bad_records(self, result: JobResult) -> set[str]:
        """The tables that would own bad records of the batch: their positions advance past these records.

        Otherwise a new checkpoint would read the records again, including those that were fixed and applied since.
        """
        tables = self._tables
        bad = {(topic, source) for report in result.reports for topic, source, _ in report.bad_kinds}
        fed = {name for topic, source in bad for name in tables.fed_by_records(topic, source)}
        return {name for name in fed if name is not None and name in tables.sinks}

    def _commit(self, identifier: str, messages: Sequence[CommitMessage], departed: Sequence[str]) -> CommitResult:
        def on_step(step: str) -> None:
            faults.reached(step, self._batch.id)

        with blaming(identifier):
            ends = self._ends.get(identifier, {})
            sink = self._tables.sinks[identifier]
            watermark_ms = self._watermarks_ms.get(identifier)
            return sink.commit(
                self._batch.id,
                messages,
                ends,
                on_step,
                self._batch.started_ms,
                departed,
                watermark_ms,
                is_emptied=identifier in self._emptied,
            )


def by_table(awaited: Iterable[tuple[int, BucketId]], results: Iterable[JobResult]) -> Iterator[JobResult]:
    """All compactions of a table as one result, once the last awaited bucket of the table has a result.

    Each of ``results`` holds one compaction, or its failure; they are consumed one by one. ``awaited`` are (target
    index, bucket) pairs. A table with a bucket that never gets a result is returned last.
    """
    left = Counter(target for target, _ in awaited)
    held: defaultdict[int, JobResult] = defaultdict(JobResult)
    for result in results:
        targets = [write.target for write in result.writes] + [failed.target for failed in result.failures]
        for target in targets:
            held[target].add(result)
            left[target] -= 1
            if not left[target]:
                yield held.pop(target)
    yield from held.values()
