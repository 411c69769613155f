"""Compares the numbers of values in nested Parquet columns with the footer.

The headers of pages have no checksum. If a header states too few values, a flat column has too few rows, which Arrow
detects, but arrays and maps only lose items. A column chunk has one level for each item, and one for each array or map
without items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_table.formats.file_format import DamagedFile


def level_counts(rows: pa.Table) -> Mapping[str, int]:
    """The number of levels of each column with arrays or maps, summed over its leaves."""
    nested = [f.name for f in rows.schema if _repeats(f.type)]
    return {name: sum(sum(_leaf_counts(chunk)) for chunk in rows.column(name).chunks) for name in nested}


def check_level_counts(metadata: pq.FileMetaData, groups: Iterable[int], found: Mapping[str, int]) -> None:
    """Raises DamagedFile if the row groups have other numbers of levels than their rows."""
    if not found:
        return
    columns = [f.name for f in metadata.schema.to_arrow_schema() for _ in range(_leaf_number(f.type))]
    expected = dict.fromkeys(found, 0)
    for group in map(metadata.row_group, groups):
        for number, name in enumerate(columns):
            if name in expected:
                expected[name] += group.column(number).num_values
    for name, count in expected.items():
        if count != found[name]:
            raise DamagedFile(f"column {name!r} has {found[name]} values, but the footer states {count}")


def _repeats(t: pa.DataType) -> bool:
    if pa.types.is_list(t) or pa.types.is_map(t):
        return True
    return pa.types.is_struct(t) and any(_repeats(f.type) for f in t)


def _leaf_number(t: pa.DataType) -> int:
    return sum(_leaf_number(t.field(i).type) for i in range(t.num_fields)) or 1


def _leaf_counts(values: pa.Array) -> list[int]:
    if pa.types.is_struct(values.type):
        return [count for child in values.flatten() for count in _leaf_counts(child)]
    if pa.types.is_map(values.type):
        entries = pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)]))
        return _leaf_counts(values.cast(entries))
    if pa.types.is_list(values.type):
        without_items = len(values) - pc.sum(pc.greater(pc.list_value_length(values), 0), min_count=0).as_py()
        return [without_items + count for count in _leaf_counts(values.flatten())]
    return [len(values)]
