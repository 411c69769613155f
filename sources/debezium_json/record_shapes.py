"""Shapes of records: where a parsed value has the operation and the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sources.places_of_change import PlaceOfChange, place_of_change
from sources.values.cells import with_plain_values


class RecordShape(Protocol):
    """Makes an envelope of a value: the rest of the decoder knows envelopes only. Picklable."""

    @property
    def has_old_rows(self) -> bool:
        """Whether an update may have the earlier row."""
        ...

    @property
    def source_names(self) -> Mapping[str, Sequence[str]] | None:
        """The fields of a payload with the meaning of a field of ``source``; None if ``source`` has that field."""
        ...

    def event(self, value: Any) -> Any:
        """The envelope that a parsed payload represents; a MalformedRecord stays one.

        Without old rows its one row is ``after``. The operation, which a header may give, says whether it is deleted.
        """
        ...

    def place(self, payload: Any) -> PlaceOfChange:
        """The position of a change in the log of the source, from a parsed payload."""
        ...

    def is_metadata(self, name: str) -> bool:
        """Whether a field of a bare row image is not a column."""
        ...


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Values that are envelopes already; ``unsent`` stands for a value that its connector did not send."""

    has_old_rows: bool = True
    unsent: str = ""

    @property
    def source_names(self) -> None:
        return None

    def event(self, value: Any) -> Any:
        return with_plain_values(value, self.unsent)

    def place(self, payload: Any) -> PlaceOfChange:
        return place_of_change(payload)

    def is_metadata(self, name: str) -> bool:
        return False


ENVELOPES = Envelopes()
