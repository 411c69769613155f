"""Debezium's operations as codes; those of c, u and d are the neutral ones, and r counts as an INSERT."""

from __future__ import annotations

from sources.json_changes.change_rows import DELETE, INSERT, UPDATE

OPS = {"c": INSERT, "u": UPDATE, "d": DELETE, "r": 3, "t": 4, "m": 5}
"""The code of each known operation."""
TRUNCATE, MESSAGE = OPS["t"], OPS["m"]
UNKNOWN_OP = -1
UNSTATED = len(OPS)
"""A row whose record states no operation: an insert or an update."""
LETTERS = tuple(OPS)
"""The operation of each code that stands for one."""
