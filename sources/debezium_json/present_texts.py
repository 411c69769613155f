"""The values of records that can be parsed: there, and UTF-8."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.debezium_json.strange_values import strange_bytes
from sources.debezium_json.texts import Texts
from sources.json_changes.outcome import Outcome
from sources.json_changes.text_parts import are_utf8


def present_texts(
    batch: pa.RecordBatch,
    positions: npt.NDArray[np.int64],
    outcome: Outcome,
    tool: str | None = None,
) -> tuple[Texts, npt.NDArray[np.int64]]:
    """The values at these positions that are UTF-8, and the positions of nulls; other values go to quarantine.

    ``tool`` wrote them, if not Kafka Connect.
    """
    values = batch.column("value")
    nulls = positions[:0]
    if len(positions) < batch.num_rows:
        values = values.take(pa.array(positions))
    if values.null_count:
        there = np.asarray(values.is_valid())
        nulls, positions, values = positions[~there], positions[there], values.drop_null()
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.binary())
    good = are_utf8(values)
    if not good.all():
        for index in np.flatnonzero(~good).tolist():
            reason = strange_bytes(values[index].as_py(), tool) or "value is not UTF-8 text"
            outcome.quarantine(int(positions[index]), reason)
        positions, values = positions[good], values.filter(pa.array(good))
    return Texts(values, positions), nulls
