"""The tasks of the compared readers: each declares a table that Tidemark has written, and the rows to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.side_by_side.columns import KEY
from benchmarks.side_by_side.workloads import WORKLOADS, Workload

ROW_KIND = "row_kind"
"""Leading column of changes: +I, -U, +U or -D."""
RANGE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from ``lower`` on, without ``upper``."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class Read:
    """One way to read the table of a workload that has a single one."""

    name: str
    title: str
    written: Workload
    what: Literal["rows", "changes"] = "rows"
    key_share: float = 1.0
    """Of the keys, from the middle of them."""

    def key_range(self, rows: pa.Table) -> KeyRange | None:
        """Which keys of a table are read; None if all are."""
        if self.key_share == 1.0:
            return None
        keys = 1 + pc.max(rows[KEY]).as_py()
        lower = keys // 2
        return KeyRange(lower, lower + max(1, round(keys * self.key_share)))

    def expected(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """The expected result of reading a table with these rows and changes."""
        if self.what == "changes":
            return changes
        keys = self.key_range(rows)
        return rows if keys is None else rows.filter((pc.field(KEY) >= keys.lower) & (pc.field(KEY) < keys.upper))


READS: Mapping[str, Read] = {
    read.name: read
    for read in (
        Read("read-all", "Reading all rows", WORKLOADS["uniform"]),
        Read("read-range", "Reading a hundredth of the keys", WORKLOADS["uniform"], key_share=RANGE_SHARE),
        Read("read-changes", "Reading the changelog", WORKLOADS["uniform"], "changes"),
    )
}
