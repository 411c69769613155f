"""count: how many values are not NULL, less the retracted ones.

A stored row cannot distinguish a count from a value that is not counted yet. So arriving values are replaced by their
count (1, or 0 for NULL), and merging only adds. Paimon had this function up to 0.8 without that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.merge.aggregate.sum import Sum
from paimon_table.options.field_options import FieldOptions
from paimon_table.types import DataType, parse_type


@dataclass(frozen=True, slots=True)
class Count(Sum):
    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return parse_type("BIGINT")

    @property
    def name(self) -> str:
        return "count"


def counted(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Arriving rows with the values of these columns replaced by their count."""
    for name in columns:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, rows.column(name).is_valid().cast(field.type))
    return rows
