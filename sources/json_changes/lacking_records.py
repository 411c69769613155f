"""Records that do not have a column at all: in columns of rows it shows as NULL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from sources.json_changes.outcome import Outcome
from sources.values.json_values import json_text

Lacks: TypeAlias = Callable[[str, npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
"""Which records, by position, lack a column, of records that show NULL there."""

_ESCAPED_CHARACTER = "\\u"


def lacking_records(
    name: str,
    positions: npt.NDArray[np.int64],
    outcome: Outcome,
    images: Callable[[Any], Sequence[Mapping[str, Any]]],
) -> npt.NDArray[np.bool_]:
    """See ``Lacks``; ``images`` gives the rows of a parsed value. Reads the value of each record that mentions the
    name."""
    asked = np.ones(len(positions), np.bool_)
    if outcome.is_json:
        texts = outcome.values_at(positions)
        asked = np.asarray(pc.match_substring(texts, json_text(name)))
        asked = asked | np.asarray(pc.match_substring(texts, _ESCAPED_CHARACTER))
    lacks = ~asked
    for index in np.flatnonzero(asked).tolist():
        lacks[index] = not any(name in image for image in images(outcome.parsed("value", int(positions[index]))))
    return lacks
