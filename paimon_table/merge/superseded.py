"""Which versions of a key count in compactions that look up older values.

Implements the choice of Paimon's lookup merge. When such a compaction writes a row to a level above 0, it has already
merged the row with the older rows of higher levels. So those rows must not be merged a second time.
"""

from __future__ import annotations

import numpy as np

from paimon_table.merge.sort import KeyGroups
from paimon_table.rows.words import Indices


def without_superseded(groups: KeyGroups, levels: Indices) -> KeyGroups:
    """All level-0 versions of a key, and the one version on the lowest of the higher levels.

    ``levels[i]`` is the level of row i. Every key keeps at least one version.
    """
    level = levels[groups.indices]
    upper = np.where(level > 0, level, np.iinfo(np.int64).max)
    lowest = np.minimum.reduceat(upper, groups.starts) if len(upper) else upper
    keep = (level == 0) | (level == lowest[groups.key_number()])
    if keep.all():
        return groups
    counts = np.add.reduceat(keep.astype(np.int64), groups.starts)
    return KeyGroups(groups.indices[keep], np.cumsum(counts) - counts)
