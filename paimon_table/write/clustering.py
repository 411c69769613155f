"""Sorts rows of tables without keys and buckets before they are written, so that file statistics prune more.

Implements ``clustering.columns`` with the strategy ``order``: rows are sorted by the columns, one after the other, NULL
first. A writer or a compaction sorts the rows of one write buffer together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER
from paimon_table.rows.gather import concat


def clustering_columns(options: TableOptions) -> tuple[str, ...]:
    """The columns to sort by; none if rows keep their order.

    Buckets keep the order of arrival, and Tidemark does not implement the space-filling curves of other strategies.
    """
    return options.clustering_columns if options.is_unaware and options.clusters_in_order else ()


def sorted_by(rows: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """The rows in the order of the columns; sequence numbers stay at their places."""
    if not columns or rows.num_rows < 2:
        return rows
    keys = [(name, "ascending", "at_start") for name in columns]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=keys))
    if SEQUENCE_NUMBER not in rows.column_names:
        return ordered
    place = rows.schema.get_field_index(SEQUENCE_NUMBER)
    return ordered.set_column(place, rows.schema.field(place), rows.column(place))


def sorted_in_stretches(batches: Iterable[pa.Table], columns: tuple[str, ...], most_bytes: int) -> Iterator[pa.Table]:
    """All rows, sorted within parts of about ``most_bytes``."""
    if not columns:
        yield from batches
        return
    held: list[pa.Table] = []
    size_bytes = 0
    for rows in batches:
        held.append(rows)
        size_bytes += rows.nbytes
        if size_bytes >= most_bytes:
            yield sorted_by(concat(held), columns)
            held, size_bytes = [], 0
    if held:
        yield sorted_by(concat(held), columns)
