"""How many bad records a table may have: ``100`` or ``1%`` of a batch, or any number but ``nearly all``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from pipelines.config.config_values import refused

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")

NEARLY_ALL_PERCENT = 90
"""The share of bad records that is a mistake in the file or the connector, and not one of a few records."""

FEWEST_OF_NEW = 3
"""Bad records that are enough for this in a table without rows."""

FEWEST_OF_OLD = 100
"""For a table with rows, whose earlier records were good."""

NEWEST = 200
"""Of how many records, at least, a table is judged by the newest; it holds these bad ones with some good ones."""


@dataclass(frozen=True, slots=True)
class Share:
    """Records of one table: those that were bad, and those that it took."""

    bad: int = 0
    taken: int = 0

    @property
    def all(self) -> int:
        return self.bad + self.taken

    def __add__(self, other: Share) -> Share:
        return Share(self.bad + other.bad, self.taken + other.taken)


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """``most`` bad records, or that many in a hundred."""

    most: float
    is_percent: bool

    def __str__(self) -> str:
        return f"{self.most:g}%" if self.is_percent else f"{self.most:.0f}"

    def is_exceeded(self, batch: Share, newest: Share, *, has_rows: bool) -> bool:
        """Whether the bad records of ``batch`` are too many."""
        return batch.bad > (self.most * batch.all / 100 if self.is_percent else self.most)


@dataclass(frozen=True, slots=True)
class NearlyAll:
    """Any number of bad records, but not nearly all of the newest ones."""

    def __str__(self) -> str:
        return "nearly all"

    def is_exceeded(self, batch: Share, newest: Share, *, has_rows: bool) -> bool:
        """Whether nearly all of the ``newest`` records are bad; a table with rows needs more bad records."""
        fewest = FEWEST_OF_OLD if has_rows else FEWEST_OF_NEW
        return newest.bad >= fewest and newest.bad * 100 >= newest.all * NEARLY_ALL_PERCENT


NEARLY_ALL = NearlyAll()
"""The limit that holds where the file sets none."""

Budget: TypeAlias = ErrorBudget | NearlyAll


def _parse(value: Any) -> Budget:
    match value:
        case ErrorBudget() | NearlyAll():
            return value
        case int() if not isinstance(value, bool) and value >= 0:
            return ErrorBudget(value, False)
        case str() if value.strip() == str(NearlyAll()):
            return NearlyAll()
        case str() if (found := _PERCENT.fullmatch(value.strip())) is not None and float(found[1]) <= 100:
            return ErrorBudget(float(found[1]), True)
    raise refused("expected a number of records such as 100, a share such as 1%, or `nearly all`")


MaxBadRecords = Annotated[
    Budget,
    PlainValidator(_parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*%|nearly all)\s*$", "examples": ["1%"]},
            ]
        }
    ),
]
"""A whole number of records, a share of them as text, or ``nearly all``."""
