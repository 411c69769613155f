"""Finding the stored rows of given keys, at a cost that follows the number of keys.

Implements the reading side of Paimon's lookup: per sorted run the files whose key range can hold a key, then the lookup
file of each, then one binary search for all keys of a batch at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_table.bucket_files import BucketFiles
from paimon_table.data_file import DataFileMeta
from paimon_table.errors import SinkUnavailable
from paimon_table.levels import SortedRun
from paimon_table.lookup_cache import LookupCache
from paimon_table.lookup_file import Hits, KeyWords, LookupFile, ProbeKeys, merge_hits

_OPEN_ATTEMPTS = 3


class StoredRows:
    """Rows of one bucket by key. Lookup files are built when first needed and shared through the cache directory."""

    def __init__(self, files: BucketFiles, cache: LookupCache, words: KeyWords) -> None:
        self._files = files
        self._cache = cache
        self._words = words
        self._order = words.order
        self._opened: dict[str, LookupFile] = {}

    def newest(self, runs: Sequence[SortedRun], keys: pa.Table) -> Hits:
        """For each key its row in the first of the runs that holds the key; tombstones count.

        ``keys`` are sorted by key, each once; ``runs`` newest first.
        """
        probe = ProbeKeys(keys, self._words)
        found = np.zeros(keys.num_rows, np.bool_)
        parts = []
        for run in runs:
            hits = self._find(run, probe, found)
            found[hits.positions] = True
            parts.append(hits)
        return self._merged(parts)

    def all_versions(self, runs: Sequence[SortedRun], keys: pa.Table) -> Hits:
        """For each key its rows in all of the runs; ``keys`` as in ``newest``."""
        probe = ProbeKeys(keys, self._words)
        return self._merged([self._find(run, probe, None) for run in runs])

    def remember(self, file: DataFileMeta, rows: Iterable[pa.Table]) -> None:
        """Build the lookup file of a data file from the rows that were just written to it."""
        self._cache.build(self._name(file), self._words, self._files.row_schema, rows)

    def batches(self, file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
        """The rows of a file in key order, read from its lookup file: takes disk space instead of memory."""
        return self._open(file).batches(batch_rows)

    def close_all_but(self, files: Iterable[DataFileMeta]) -> None:
        """Unmap the lookup files of all other files."""
        kept = {file.file_name for file in files}
        self._opened = {name: opened for name, opened in self._opened.items() if name in kept}

    def _find(self, run: SortedRun, probe: ProbeKeys, found: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> Hits:
        parts = []
        for file in run.files:
            start = self._order.count_below(probe.keys, self._order.file_key(file.min_key), inclusive=False)
            stop = self._order.count_below(probe.keys, self._order.file_key(file.max_key), inclusive=True)
            if start < stop and (found is None or not found[start:stop].all()):
                parts.append(self._open(file).find(probe, start, stop, found))
        return self._merged(parts)

    def _merged(self, parts: list[Hits]) -> Hits:
        return merge_hits([Hits(np.zeros(0, np.int64), self._files.row_schema.empty_table()), *parts])

    def _open(self, file: DataFileMeta) -> LookupFile:
        opened = self._opened.get(file.file_name)
        for _ in range(_OPEN_ATTEMPTS):
            if opened is not None:
                self._opened[file.file_name] = opened
                return opened
            opened = self._cache.open(self._name(file), self._words, self._files.row_schema)
            if opened is None:
                self.remember(file, self._files.batches(file))
        raise SinkUnavailable(f"the lookup file of {file.file_name} keeps vanishing; give lookups more disk and retry")

    def _name(self, file: DataFileMeta) -> str:
        """Rows are kept in the table's current schema, so each schema version has its own copy."""
        return f"{file.file_name}-{self._files.schema_id}"
