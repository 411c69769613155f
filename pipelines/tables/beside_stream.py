"""Records that come to the tables of a pipeline beside its stream: again, or at last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paimon_table import Table
from sinks.commit.table_sink import PropertiesOf


@dataclass(frozen=True, slots=True)
class BesideStream:
    """What is otherwise with such records: they move no position, and what cannot be told of them stops nothing.

    Where the stream would stop, or skip a record because no rule is about it, they go to quarantine with the reason.
    """

    properties_of: PropertiesOf
    """What the snapshots record."""
    refusal: Callable[[str, Table], str | None]
    """Why a table, by its identifier, cannot take records that may be older than its rows; None where it can."""
    since_ms: int | None = None
    """When the first of several batches of such records was read; None where each batch stands for itself."""
    after: Mapping[str, int] = field(default_factory=dict)
    """By table the newest snapshot before any commit of these records."""
