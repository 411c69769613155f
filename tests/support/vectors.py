"""Deletion vectors for tests, some as Java writes them."""

from __future__ import annotations

import numpy as np

from paimon_table.deletion_vectors.deletion_vector import NOTHING_DELETED, DeletionVector

JAVA_V1 = bytes.fromhex("00000018 5e43f2d0 3a300000 01000000 00000100 10000000 01000200 c3366892")

JAVA_V2 = bytes.fromhex(
    "00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 00000100 10000000 01000200 712fa6e8"
)
"""Positions 1 and 2 as Java writes them; the index manifest says 24 and 44 bytes."""


def vector(*positions: int) -> DeletionVector:
    return NOTHING_DELETED.with_deleted(np.array(positions, np.int64))
