"""The number of bad records in the quarantines of a run, counted in the background at intervals.

Readers get the last count. A count reads the log of facts, and the files whose open records have changed since the
previous count. Counting takes a bounded share of one processor, so a large quarantine is counted less often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

from paimon_table.errors import TidemarkError
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.facts import Facts
from pipelines.bad_records.log import QuarantineLog
from pipelines.batch.decode_report import kind_of_reason
from pipelines.config.config import PipelineConfig
from pipelines.tables.target_names import SourceNames, TargetNames
from pipelines.views.bad_counts import Group
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.run_state import RunState
from sinks.commit.positions import Position

log = logging.getLogger(__name__)

SOONEST_S, OFTEN_S = 2.0, 15.0
"""The least time between two counts, and the interval while nothing is known to have changed."""

_SHARE = 0.05
"""The share of one processor, or of one connection to the storage."""

_LAST_S = 3.0
"""The most seconds that the end of a run waits for the last count."""

_Kind: TypeAlias = tuple[str, SourceNames | None, str]
"""Topic, source table and kind of reason of bad records."""


def _positions(config: PipelineConfig) -> Iterable[tuple[str, Position]]:
    from pipelines.prepared import own_tables  # loads pyspark, which `tidemark status` does without

    return own_tables(config).positions().known.items()


class OpenRecords:
    """The quarantine of one pipeline."""

    def __init__(self, rest: Callable[[float], None] = lambda _: None) -> None:
        """``rest`` is called during a count with the seconds that its last part took."""
        self._rest = rest
        self._log: QuarantineLog | None = None
        self._known: dict[tuple[str, str], tuple[bytes, tuple[tuple[_Kind, int], ...]]] = {}
        """By file: its open records, and their numbers by kind."""
        self._kinds: dict[_Kind, _Kind] = {}

    def count(self, config: PipelineConfig) -> Mapping[Group, int]:
        """By table and kind of reason, the numbers of records that `tidemark quarantine list` would list."""
        if config.source.on_bad_record == "fail":
            return {}
        bad = DeadLetters(config, self._log)
        self._log = bad.log
        facts, before, self._known = bad.facts(), self._known, {}
        kinds: Counter[_Kind] = Counter()
        for file, of_file in facts.by_file():
            opened = b"".join(column.tobytes() for column in (of_file.key, of_file.offset, of_file.ts))
            known = before.get(file)
            counts = known[1] if known is not None and known[0] == opened else self._read(bad, of_file)
            self._known[file] = opened, counts
            kinds.update(dict(counts))
        names = TargetNames(config, lambda: _positions(config))
        groups: Counter[Group] = Counter()
        for (topic, source, reason), count in kinds.items():
            groups[names.table(topic, source), reason] += count
        return groups

    def _read(self, bad: DeadLetters, facts: Facts) -> tuple[tuple[_Kind, int], ...]:
        began_s = time.monotonic()
        found: Counter[_Kind] = Counter()
        for line in bad.records(facts):
            kind = (line.topic, line.source, kind_of_reason(line.reason))
            found[self._kinds.setdefault(kind, kind)] += 1
        self._rest(time.monotonic() - began_s)
        return tuple(found.items())


@contextmanager
def counted_records(configs: Sequence[PipelineConfig], state: RunState) -> Iterator[None]:
    """Count the bad records of all pipelines during the block, and again at its end if that is quick."""
    counts = [_Count(config, state.pipelines[config.name]) for config in configs]
    threads = [threading.Thread(target=count.keep, name="tidemark-bad-records", daemon=True) for count in counts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for count in counts:
            count.end()
        for thread in threads:
            thread.join(_LAST_S)


class _Count:
    """Counts the bad records of one pipeline at intervals, on a separate thread."""

    def __init__(self, config: PipelineConfig, seen: PipelineState) -> None:
        self._config = config
        self._seen = seen
        self._records = OpenRecords(self._rest)
        self._ended = threading.Event()
        self._ended_s = 0.0
        self._rested_s = 0.0
        self._is_told = False

    def end(self) -> None:
        self._ended_s = time.monotonic()
        self._ended.set()
        self._seen.has_new_bad_records.set()

    def keep(self) -> None:
        with suppress(_Ended):
            while True:
                is_last, began_s, self._rested_s = self._ended.is_set(), time.monotonic(), 0.0
                self._seen.has_new_bad_records.clear()
                self._count()
                if is_last:
                    return
                worked_s = time.monotonic() - began_s - self._rested_s
                self._ended.wait(max(SOONEST_S, worked_s / _SHARE - self._rested_s))
                self._seen.has_new_bad_records.wait(OFTEN_S - SOONEST_S)

    def _count(self) -> None:
        time_s = time.time()
        try:
            self._seen.put_open_bad_records(self._records.count(self._seen.config or self._config), time_s)
            self._is_told = False
        except (TidemarkError, OSError) as error:
            if not self._is_told:
                log.warning("%s: the records in quarantine cannot be counted: %s", self._config.name, error)
            self._is_told = True

    def _rest(self, took_s: float) -> None:
        """Leave the processor to others; at the end of the run there is little time left."""
        if not self._ended.is_set():
            self._rested_s += took_s / _SHARE
            self._ended.wait(took_s / _SHARE)
        elif time.monotonic() - self._ended_s > _LAST_S:
            raise _Ended


class _Ended(Exception):
    """There is no time left to finish the count."""
