"""Postponed buckets while rows are appended: all of a partition go into bucket -2, see ``write.postponed_writer``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.bucket_assignment.fixed_buckets import FixedAssigner
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.errors import UnsupportedFeature
from paimon_table.metadata.bucket_id import POSTPONED, BucketId


@dataclass(frozen=True, slots=True)
class PostponedAssigner(FixedAssigner):
    """All rows of a partition go into bucket -2, where no row can be found again."""

    bucket: int | None = POSTPONED
    root: str = ""
    """The table, for errors."""

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """Raises UnsupportedFeature: the newest row of a key may be among waiting rows, which cannot be looked up."""
        raise UnsupportedFeature(
            f"{self.root} has postponed buckets ('bucket' = -2), in which stored rows cannot be looked up,"
            " and events leave out values that did not change; let the source send whole rows (REPLICA IDENTITY FULL),"
            " or set a number of buckets"
        )
