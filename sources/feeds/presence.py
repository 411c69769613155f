"""Which columns a record has at all: Arrow shows a field that is missing as it shows one that is NULL.

A plain name in quotes, followed by a colon, occurs once for each object that has the field, if objects hold nothing
nested. Inside a string its quotes are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_$#. -]+", re.ASCII)
_MOST_OBJECTS = 3
_ESCAPED_CHARACTER = "\\u00"
"""Characters of a name."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The other object of a text that may have the same fields.

    ``exists`` says which texts have it, ``has`` per column which have a value there.
    """

    exists: Mask
    has: Mapping[str, Mask]


def absent_columns(
    texts: pa.Array, null: Mapping[str, Mask], elsewhere: Elsewhere | None = None
) -> tuple[dict[str, Mask], Mask]:
    """Per column the texts that lack its field, and the texts that need an exact parse.

    ``null`` has the texts in question: those whose value shows as NULL. A text with more objects than itself and
    two rows may have nested ones. Without ``elsewhere`` a field counts wherever it stands.
    """
    absent: dict[str, Mask] = {}
    doubt = np.zeros(len(texts), np.bool_)
    asked = np.logical_or.reduce([doubt, *null.values()])
    if not asked.any():
        return absent, doubt
    indices = np.flatnonzero(asked)
    some = texts.take(pa.array(indices))
    is_flat = np.asarray(pc.less_equal(pc.count_substring(some, "{"), _MOST_OBJECTS))
    is_flat = is_flat & ~np.asarray(pc.match_substring(some, _ESCAPED_CHARACTER))
    doubt[indices[~is_flat]] = True
    for name, mask in null.items():
        asks = mask[indices] & is_flat
        if not asks.any():
            continue
        if not _PLAIN_NAME.fullmatch(name):
            doubt[indices[asks]] = True
            continue
        counts = _field_counts(some, name)
        if elsewhere is not None:
            exists, has = elsewhere.exists[indices], elsewhere.has[name][indices]
            counts = counts - has
            doubt[indices[asks & exists & ~has & (counts == 1)]] = True
        lacking = asks & (counts == 0)
        if lacking.any():
            absent[name] = np.zeros(len(texts), np.bool_)
            absent[name][indices[lacking]] = True
    return absent, doubt


def _field_counts(texts: pa.Array, name: str) -> npt.NDArray[np.int64]:
    """How many times each text has a field of this name, in any object."""
    pattern = re.escape(f'"{name}"') + r"\s*:"
    counts = np.asarray(pc.count_substring(texts, f'"{name}":')).astype(np.int64)
    return counts if counts.all() else np.asarray(pc.count_substring_regex(texts, pattern)).astype(np.int64)
