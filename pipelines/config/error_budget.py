"""How many bad records one batch of one table may have: ``100``, or ``1%`` of its records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from pipelines.config.config_values import refused

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """``most`` bad records, or that many in a hundred."""

    most: float
    is_percent: bool

    def __str__(self) -> str:
        return f"{self.most:g}%" if self.is_percent else f"{self.most:.0f}"

    def is_exceeded(self, bad: int, all_records: int) -> bool:
        """Whether ``bad`` of ``all_records``, which they are part of, are too many."""
        return bad > (self.most * all_records / 100 if self.is_percent else self.most)


def _parse(value: Any) -> ErrorBudget:
    match value:
        case ErrorBudget():
            return value
        case int() if not isinstance(value, bool) and value >= 0:
            return ErrorBudget(value, False)
        case str() if (found := _PERCENT.fullmatch(value.strip())) is not None and float(found[1]) <= 100:
            return ErrorBudget(float(found[1]), True)
    raise refused("expected a number of records such as 100, or a share such as 1%")


MaxBadRecords = Annotated[
    ErrorBudget,
    PlainValidator(_parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%\s*$", "examples": ["1%"]},
            ]
        }
    ),
]
"""A whole number of records, or a share of them as text."""
