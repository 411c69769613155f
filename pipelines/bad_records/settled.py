"""What became of lines of the quarantine that somebody has read again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settled:
    """Their numbers."""

    twice: int = 0
    """Bad records that others have as well."""
    good: int = 0
    """Lines of records that are in the table now."""
    notes: str = ""
    """Where these are noted, if that stays."""
