"""The contract of a merge engine: it reduces many versions of a key to one row.

Implements the calling rules of Paimon's merge functions; each engine is a module in this folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from paimon_table.errors import UnsupportedFeature
from paimon_table.merge.aggregation import aggregation
from paimon_table.merge.deduplicate import Deduplicate, FirstRow
from paimon_table.merge.partial_update import partial_update
from paimon_table.merge.sort import KeyGroups
from paimon_table.options.table_options import MERGE_ENGINES, TableOptions
from paimon_table.row_kind import VALUE_KIND, are_adds
from paimon_table.schema.table_schema import TableSchema


class MergeFunction(Protocol):
    """Reduces the versions of each key to one row; stateless."""

    def merge(self, rows: pa.Table, groups: KeyGroups, single_passes: bool = True) -> pa.Table:
        """One row per key, in key order, with the columns of ``rows``; row i belongs to key i of ``groups``.

        ``rows`` may be in any order, ``groups`` puts them into merge order. If all versions of a key are ignored, the
        result is the newest one, a retract, which is dropped like other retracts. With ``single_passes`` a key with one
        version passes through unchanged (flush, batch read, compaction). Without it, the engine merges this key too
        (compaction that looks up older values).
        """

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The value columns that must be read to get correct merged values in ``columns``.

        Includes ``columns``; key columns and ``sequence.field`` are always read and need not be named.
        """


def merge_function(schema: TableSchema, options: TableOptions) -> MergeFunction:
    """The merge function of a table; raises UnsupportedFeature for unsupported engines."""
    match options.merge_engine:
        case "deduplicate":
            return Deduplicate(options.ignore_delete)
        case "first-row":
            return FirstRow(schema.trimmed_primary_keys, options.ignore_delete)
        case "partial-update":
            return partial_update(schema, options)
        case "aggregation":
            return aggregation(schema, options)
    raise UnsupportedFeature(
        f"merge-engine {options.merge_engine!r} is not supported; use one of: {', '.join(MERGE_ENGINES)}"
    )


def without_retracts(rows: pa.Table) -> pa.Table:
    """The rows of kind +I and +U."""
    kinds = rows.column(VALUE_KIND).to_numpy()
    keep = are_adds(kinds)
    return rows if keep.all() else rows.filter(pa.array(keep))
