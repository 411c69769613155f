"""The newest event time of each topic partition, as decode tasks see it in the rows of tables with a watermark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class EventTimeColumns:
    """The column of each target with the time of its events."""

    of_target: Mapping[int, str] = field(default_factory=dict)
    until_ms: int = 0
    """Later times do not count: they are in the future (9999-12-31, infinity), and no table is complete up to them."""

    def newest_ms(self, target: int, rows: pa.Table) -> int | None:
        """The newest event time of rows for a target; None if they have none, or need none."""
        name = self.of_target.get(target)
        if name is None or name not in rows.column_names:
            return None
        times = rows.column(name)
        per_s = _PER_S[times.type.unit]
        numbers = times.cast(pa.int64())  # the ends of the range mean infinity, and have no milliseconds
        newest: int | None = pc.max(numbers.filter(pc.less_equal(numbers, self.until_ms * per_s // 1000))).as_py()
        return None if newest is None else newest * 1000 // per_s


_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
