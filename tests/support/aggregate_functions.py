"""Aggregate functions for tests: made from texts, applied to the values of one key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.merge.aggregate.folding import aggregate, fold
from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.aggregate.registry import aggregate_function
from paimon_table.options.field_options import FieldOptions
from paimon_table.types import DataField, arrow_type, parse_type


def function(name: str, type_text: str, **options: Any) -> AggregateFunction:
    """The function on column ``v``."""
    return aggregate_function(name, DataField(1, "v", parse_type(type_text)), FieldOptions(**options))


def column(type_text: str, values: Sequence[Any]) -> pa.Array:
    return pa.array(list(values), arrow_type(parse_type(type_text)))


def result(name: str, type_text: str, values: Sequence[Any], retracts: Sequence[int] = (), **options: Any) -> Any:
    """What comes of the values of one key, by the fold and by vectors; ``retracts`` are positions of -U and -D."""
    bound = function(name, type_text, **options)
    array = column(type_text, values)
    marks = np.isin(np.arange(len(values)), retracts)
    is_retract = marks if marks.any() else None
    starts = np.zeros(1, np.int64)
    try:
        by_fold = fold(bound, array, starts, is_retract)
    except MalformedRecord as error:
        with pytest.raises(MalformedRecord, match=re.escape(str(error))):
            aggregate(bound, array, starts, is_retract)
        raise
    by_vectors = aggregate(bound, array, starts, is_retract)
    assert repr(bound.to_python(by_vectors)) == repr(bound.to_python(by_fold))
    return bound.to_python(by_fold)[0]
