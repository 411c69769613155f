"""The system columns of every stored row: a copy of its key, its sequence number and its kind.

Names and numbers are Paimon's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
"""Column of every stored row: arrival order inside its bucket (int64)."""

VALUE_KIND = "_VALUE_KIND"
"""Column of every stored row: its RowKind as int8."""

KEY_PREFIX = "_KEY_"
"""Prefix of the copies of the trimmed primary key columns in data files."""


class RowKind(IntEnum):
    """Kind of a row; UPDATE_BEFORE and DELETE are the retracts."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]


def are_retracts(kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Which of these row kinds are -U or -D."""
    retracts: npt.NDArray[np.bool_] = kinds & 1 == 1
    return retracts


def are_adds(kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Which of these row kinds are +I or +U."""
    adds: npt.NDArray[np.bool_] = kinds & 1 == 0
    return adds
