"""The entries of a key index in local files: sorted runs, newest first.

An entry is a whole primary key and the place of its row. Runs are lookup files in the shared directory of lookup files.
So each use verifies them. They may be evicted; then the index is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.lookup.cache import Contents, LookupCache
from paimon_table.lookup.lookup_file import BrokenLookupFile, KeyWords, LookupFile, ProbeKeys
from paimon_table.merge.sort import KeyOrder
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.gather import concat, gather
from paimon_table.schema.table_schema import TableSchema

Slots = npt.NDArray[np.int32]
"""The places of keys, as the numbers of buckets in an index; -1 for a key that the index does not have."""

SLOT = "_SLOT"
"""Column of the entries: the place of the key's row, -1 if the row was removed."""

KEYS = Contents(
    "the index of keys", "tables whose rows move between partitions need a local directory with room for all their keys"
)

LARGEST_RUN_ROWS = 1 << 23
"""The most entries of a merged run, because all entries of a run are in memory when it is written."""

MOST_SMALL_RUNS = 8
"""The number of small runs that a search reads, in addition to the large runs."""


def whole_key_order(schema: TableSchema, options: TableOptions) -> KeyOrder:
    """The order of whole primary keys, including their partition columns."""
    return KeyOrder(replace(schema, partition_keys=()), options)


@dataclass(frozen=True, slots=True)
class Run:
    """One file."""

    name: str
    row_count: int


class IndexRuns:
    """Reads and writes the runs of one index."""

    def __init__(self, cache: LookupCache, order: KeyOrder, key_schema: pa.Schema) -> None:
        self.order = order
        self._cache = cache
        self._words = KeyWords(order)
        self._schema = key_schema.append(pa.field(SLOT, pa.int32(), False))
        self._written: set[Run] = set()
        """The files written since the last ``keep``. A run may be merged with others before any index with it is
        kept."""

    def find(self, runs: Sequence[Run], keys: pa.Table) -> Slots:
        """The slot of each key; ``keys`` are sorted, each once. Raises BrokenLookupFile if a run is missing or
        damaged."""
        slots = np.full(keys.num_rows, -1, np.int32)
        found = np.zeros(keys.num_rows, np.bool_)
        probe = ProbeKeys(keys, self._words)
        for run in runs:
            located = self._open(run).locate(probe, 0, keys.num_rows, found)
            if len(located.positions):
                entries = self._open(run).rows_at(located.row_numbers, [SLOT])
                slots[located.positions] = entries.column(SLOT).to_numpy()
                found[located.positions] = True
        return slots

    def write(self, name: str, keys: pa.Table, slots: Slots) -> Run:
        """Write a run of these entries; ``keys`` as in ``find``."""
        entries = pa.Table.from_arrays([*keys.columns, pa.array(slots, pa.int32())], schema=self._schema)
        self._cache.build(name, self._words, self._schema, [entries], KEYS)
        run = Run(name, keys.num_rows)
        self._written.add(run)
        return run

    def merged(self, name: str, runs: Sequence[Run]) -> Run:
        """Write a run with the entries of several runs, given newest first."""
        entries = concat([rows for run in runs for rows in self._open(run).verified().batches(LARGEST_RUN_ROWS)])
        first, _ = self.order.distinct(entries)
        entries = gather(entries, first)
        return self.write(name, entries.drop_columns([SLOT]), entries.column(SLOT).to_numpy())

    def keep(self, named: Iterable[Run], before: Iterable[Run] = ()) -> None:
        """Delete the files written since the last call and those kept ``before``, except the runs ``named``."""
        self._cache.discard(run.name for run in {*before, *self._written} - {*named})
        self._written.clear()

    def _open(self, run: Run) -> LookupFile:
        opened = self._cache.open(run.name, self._words, self._schema)
        if opened is None or opened.row_count != run.row_count:
            raise BrokenLookupFile(f"run {run.name} of a key index is gone")
        return opened


def runs_to_merge(row_counts: Sequence[int]) -> int:
    """How many of the newest runs to merge into one, given their sizes, newest first; 0 for none.

    A run is included once the newer ones together have as many entries. So an entry is rewritten a logarithmic number
    of times.
    """
    small = next((i for i, count in enumerate(row_counts) if count > LARGEST_RUN_ROWS // 2), len(row_counts))
    if small <= MOST_SMALL_RUNS:
        return 0
    total, taken = 0, 0
    for count in row_counts[:small]:
        if taken >= 2 and (count > total or total + count > LARGEST_RUN_ROWS):
            break
        total, taken = total + count, taken + 1
    return taken
