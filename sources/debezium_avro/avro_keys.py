"""The field names of message keys: Avro keys take them from their schema, other keys from their JSON."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.framing import NULL
from sources.debezium_avro.record_reading import KeyFormat, RecordReading
from sources.debezium_json.message_keys import Mask, MessageKeys
from sources.decode_target import KeyFields
from sources.json_changes.outcome import Outcome

_NO_KEY = "the message key has no usable schema"


def with_known_keys(reading: RecordReading, outcome: Outcome) -> Mask:
    """Marks records whose key has no unknown schema; the others go to quarantine if they have a value."""
    frames = reading.keys
    usable = np.ones(len(reading.values.codes), np.bool_)
    if frames is None:
        return usable
    for code in np.unique(frames.codes[frames.codes > NULL]).tolist():
        problem = reading.schema(frames, code)
        if isinstance(problem, MalformedRecord):
            unknown = (frames.codes == code) & (reading.values.codes != NULL)
            usable &= ~unknown
            for position in np.flatnonzero(unknown).tolist():
                outcome.quarantine(position, f"{_NO_KEY}: {problem}; set key_format if keys are not Avro")
    return usable


class AvroKeys:
    """The keys of a batch; see ``sources.debezium_json.message_keys.KeyForms``."""

    def __init__(self, keys: pa.Array, reading: RecordReading, key_format: KeyFormat) -> None:
        self.fields: list[KeyFields] = []
        self._keys = keys
        self._reading = reading
        self._format = key_format

    def codes(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Per position the index of its key's fields."""
        return self._codes[positions]

    @cached_property
    def _codes(self) -> npt.NDArray[np.int32]:
        codes = np.full(len(self._keys), -1, np.int32)
        frames = self._reading.keys
        present = np.asarray(self._keys.is_valid())
        self._fill(codes, ~present, None)
        if frames is not None:
            for code in np.unique(frames.codes[frames.codes > NULL]).tolist():
                self._fill(codes, frames.codes == code, self._reading.key_fields(code))
        others = codes < 0
        if self._format in ("avro", "text"):
            self._fill(codes, others, ())
        elif others.any():
            of_json = MessageKeys(self._keys.filter(pa.array(others)))
            found = of_json.codes(np.arange(int(others.sum())))
            renumbered = np.array([self._code(fields) for fields in of_json.fields], np.int32)
            codes[others] = renumbered[found]
        return codes

    def _fill(self, codes: npt.NDArray[np.int32], mask: Mask, fields: KeyFields) -> None:
        if mask.any():
            codes[mask] = self._code(fields)

    def _code(self, fields: KeyFields) -> int:
        if fields not in self.fields:
            self.fields.append(fields)
        return self.fields.index(fields)
