"""Finds the stored rows of given keys, at a cost that depends on the number of keys.

Implements the reading side of Paimon's lookup. Per sorted run it selects the files whose key range can include a key,
then the lookup file of each. One binary search finds all keys of a batch at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.data_files.bucket_files import BucketFiles
from paimon_table.deletion_vectors.deletion_vector import without_deleted
from paimon_table.lookup.cache import LookupCache
from paimon_table.lookup.lookup_file import BrokenLookupFile, Hits, KeyWords, Located, LookupFile, ProbeKeys, merge_hits
from paimon_table.mergetree.levels import SortedRun
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.rows.words import Indices
from paimon_table.step_times import timed

T = TypeVar("T")
Mask = npt.NDArray[np.bool_]

_FORMS = ("", "-begun")
"""The ends of names of lookup files: for whole keys, and for the first columns of the key."""

OnFound = Callable[[DataFileMeta, Indices], None]
"""Called with a file and the positions of rows found in it."""


class StoredRows:
    """Rows of one bucket by key. Lookup files are built at first use and shared through the cache directory."""

    def __init__(self, table: str, files: BucketFiles, cache: LookupCache, words: KeyWords) -> None:
        """``table`` is the path of the table; it keeps the table's lookup files apart from the files of its copies."""
        self._table = hashlib.sha1(table.encode()).hexdigest()[:16]
        self._files = files
        self._cache = cache
        self._words = words
        self._order = words.order
        self._form = _FORMS[words.order.is_prefix]
        self._opened: dict[str, LookupFile] = {}
        self._known: set[str] = set()

    @timed("lookup")
    def newest(self, runs: Sequence[SortedRun], keys: pa.Table, on_found: OnFound | None = None) -> Hits:
        """For each key its row in the first run that has the key; retracts count, deleted rows do not.

        ``keys`` are sorted, each once; ``runs`` are newest first. ``on_found`` is called for every returned row.
        """
        probe = ProbeKeys(keys, self._words)
        found = np.zeros(keys.num_rows, np.bool_)
        parts = []
        for run in runs:
            hits = self._find(run, probe, found, on_found)
            found[hits.positions] = True
            parts.append(hits)
        return self._merged(parts)

    @timed("lookup")
    def all_versions(self, runs: Sequence[SortedRun], keys: pa.Table) -> Hits:
        """For each key its rows in all of the runs; ``keys`` as in ``newest``."""
        probe = ProbeKeys(keys, self._words)
        return self._merged([self._find(run, probe, None, None) for run in runs])

    @timed("lookup")
    def holds(self, runs: Sequence[SortedRun], keys: pa.Table, on_found: OnFound | None = None) -> Mask:
        """Which keys have a row in any of the runs, otherwise as ``newest``. Reads no values."""
        probe = ProbeKeys(keys, self._words)
        found = np.zeros(keys.num_rows, np.bool_)
        for run in runs:
            for file, start, stop in self._candidates(run, probe, found):
                located = self._locate(file, probe, start, stop, found, on_found)
                found[located.positions] = True
        return found

    @timed("lookup")
    def remember(self, file: DataFileMeta, rows: Iterable[pa.Table]) -> LookupFile:
        """Build the lookup file of a data file from all of its rows, including deleted ones."""
        self._known.add(file.file_name)
        name = self._name(file.file_name)
        built = self._cache.build(name, self._words, self._files.row_schema, rows)
        in_this_form = {self._name_in(file.file_name, id_, self._form) for id_ in self._files.schema_ids}
        self._cache.discard(in_this_form - {name})
        return built

    def has_copy(self, file: DataFileMeta) -> bool:
        """Whether a data file has a lookup file, so that ``batches`` need not read the data file."""
        return self._opened_copy(file) is not None

    def batches(self, file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
        """The live rows of a file in key order, from its lookup file: uses disk space instead of memory."""
        deleted = self._files.deleted(file)
        position = 0
        for rows in self._read(file, LookupFile.verified).batches(batch_rows):
            yield without_deleted(rows, position, deleted)
            position += rows.num_rows

    def keep_only(self, files: Iterable[DataFileMeta]) -> None:
        """Declare that lookups use only these files from now on: deletes the lookup files of former ones."""
        kept = {file.file_name for file in files}
        for file_name in self._known - kept:
            self._cache.discard(self._names(file_name))
        self._known = kept
        self._opened = {name: opened for name, opened in self._opened.items() if name in kept}

    def _find(self, run: SortedRun, probe: ProbeKeys, found: Mask | None, on_found: OnFound | None) -> Hits:
        parts = []
        for file, start, stop in self._candidates(run, probe, found):
            located = self._locate(file, probe, start, stop, found, on_found)
            rows = self._read(file, partial(LookupFile.rows_at, row_numbers=located.row_numbers))
            parts.append(Hits(located.positions, rows))
        return self._merged(parts)

    def _locate(
        self,
        file: DataFileMeta,
        probe: ProbeKeys,
        start: int,
        stop: int,
        found: Mask | None,
        on_found: OnFound | None,
    ) -> Located:
        """Where the keys ``start`` to ``stop`` that are not ``found`` yet have live rows in one file."""
        located = self._read(file, lambda opened: opened.locate(probe, start, stop, found))
        deleted = self._files.deleted(file)
        if deleted is not None:
            lives = ~deleted.contains(located.row_numbers)
            located = Located(located.positions[lives], located.row_numbers[lives])
        if on_found is not None:
            on_found(file, located.row_numbers)
        return located

    def _candidates(
        self, run: SortedRun, probe: ProbeKeys, found: Mask | None
    ) -> Iterator[tuple[DataFileMeta, int, int]]:
        """The files whose key range covers keys ``start`` to ``stop`` of the probe that are not found yet."""
        for file in run.files:
            start = self._order.count_below(probe.keys, self._order.file_key(file.min_key), inclusive=False)
            stop = self._order.count_below(probe.keys, self._order.file_key(file.max_key), inclusive=True)
            if start < stop and (found is None or not found[start:stop].all()):
                yield file, start, stop

    def _merged(self, parts: list[Hits]) -> Hits:
        return merge_hits([Hits(np.zeros(0, np.int64), self._files.row_schema.empty_table()), *parts])

    def _read(self, file: DataFileMeta, read: Callable[[LookupFile], T]) -> T:
        """The result of ``read`` on the lookup file; rebuilds a damaged one from the data file."""
        try:
            return read(self._open(file))
        except BrokenLookupFile:
            self._opened.pop(file.file_name, None)
            self._cache.discard([self._name(file.file_name)])
            return read(self._open(file))

    def _open(self, file: DataFileMeta) -> LookupFile:
        opened = self._opened_copy(file)
        if opened is None:
            opened = self._opened[file.file_name] = self.remember(file, self._files.stored_batches(file))
        return opened

    def _opened_copy(self, file: DataFileMeta) -> LookupFile | None:
        """The existing lookup file, which now stays open; None if there is none."""
        opened = self._opened.get(file.file_name)
        if opened is None:
            opened = self._cache.open(self._name(file.file_name), self._words, self._files.row_schema)
            if opened is not None:
                self._opened[file.file_name] = opened
        return opened

    def _name(self, file_name: str) -> str:
        return self._name_in(file_name, self._files.schema_id, self._form)

    def _names(self, file_name: str) -> set[str]:
        """The names for all schema versions, in both forms."""
        return {self._name_in(file_name, id_, form) for id_ in self._files.schema_ids for form in _FORMS}

    def _name_in(self, file_name: str, schema_id: int, form: str) -> str:
        """The name for one schema version: a copy has its rows in the schema of its reader."""
        return f"{self._table}/{file_name}-{schema_id}{form}"
