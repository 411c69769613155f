"""JSON texts of records, and the source tables that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.changes import SourceTable
from sources.debezium_json.envelope_schema import names_of
from sources.debezium_json.envelopes import unwrapped
from sources.debezium_json.ops import OPS
from sources.debezium_json.record_shapes import ENVELOPES, RecordShape
from sources.json_changes.exact_parse import parse_exactly
from sources.json_changes.outcome import Outcome
from sources.json_changes.taking import taken

_TABLE_OPS = frozenset("rcudt")


class Records(Protocol):
    """Values of records with their positions in the batch."""

    @property
    def values(self) -> pa.Array: ...
    @property
    def positions(self) -> npt.NDArray[np.int64]: ...
    @property
    def shape(self) -> RecordShape: ...
    def taken(self, indices: npt.NDArray[np.int64]) -> Records: ...
    def parsed(self, index: int) -> Any:
        """The envelope of one text, read exactly, or a MalformedRecord."""
        ...

    def payload(self, index: int) -> Any:
        """One text parsed exactly, before its shape turns it into an envelope."""
        ...


@dataclass(frozen=True, slots=True)
class Texts:
    """Binary JSON texts with their positions in the batch, all of one shape."""

    values: pa.Array
    positions: npt.NDArray[np.int64]
    shape: RecordShape = ENVELOPES

    def taken(self, indices: npt.NDArray[np.int64]) -> Texts:
        return Texts(taken(self.values, indices), self.positions[indices], self.shape)

    def parsed(self, index: int) -> Any:
        """One text parsed exactly: the envelope that it represents, or a MalformedRecord."""
        return self.shape.event(self.payload(index))

    def payload(self, index: int) -> Any:
        """See ``Records``."""
        return unwrapped(parse_exactly(self.values[int(index)].as_py()))


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """Values that are not JSON texts, which their outcome reads; see ``Records``."""

    outcome: Outcome
    values: pa.Array
    positions: npt.NDArray[np.int64]
    shape: RecordShape = ENVELOPES

    def taken(self, indices: npt.NDArray[np.int64]) -> ParsedRecords:
        return ParsedRecords(self.outcome, taken(self.values, indices), self.positions[indices], self.shape)

    def parsed(self, index: int) -> Any:
        return self.shape.event(self.payload(index))

    def payload(self, index: int) -> Any:
        return self.outcome.parsed("value", int(self.positions[index]))


@dataclass(frozen=True, slots=True)
class SourceNames:
    """Reads the names of source tables; if an envelope has no ``source``, the topic's name replaces it."""

    topic: str

    def table_of(self, envelope: Any) -> SourceTable | None:
        """The source table of an event with op r, c, u, d or t; None for other values."""
        if not isinstance(envelope, Mapping) or op_code(envelope) is None:
            return None
        source = envelope.get("source")
        return self.named(*names_of(source)) if isinstance(source, Mapping) else self.from_topic()

    def named(self, database: Any, schema: Any, table: Any) -> SourceTable:
        if not isinstance(table, str) or not table:
            return self.from_topic()
        return SourceTable(
            self.topic,
            database if isinstance(database, str) else None,
            schema if isinstance(schema, str) else None,
            table,
        )

    def from_topic(self) -> SourceTable:
        return SourceTable.of_topic(self.topic)


def op_code(envelope: Mapping[str, Any]) -> int | None:
    """The code of an operation on a table (r, c, u, d, t), else None."""
    op = envelope.get("op")
    return OPS[op] if isinstance(op, str) and op in _TABLE_OPS else None
