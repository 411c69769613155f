"""Debezium's operations as codes: c, u and d have the neutral codes, and r counts as an INSERT."""

from __future__ import annotations

from sources.json_changes.change_rows import DELETE, INSERT, SNAPSHOT, TRUNCATE, UPDATE

OPS = {"c": INSERT, "u": UPDATE, "d": DELETE, "r": SNAPSHOT, "t": TRUNCATE, "m": 5}
"""The code of each known operation."""
MESSAGE = OPS["m"]
UNKNOWN_OP = -1
UNSTATED = len(OPS)
"""A row whose record states no operation: an insert or an update."""
LETTERS = tuple(OPS)
"""The operation of each code that has one."""
