"""What is said of records whose primary key is not that of their table."""

from __future__ import annotations

from collections.abc import Sequence

from sources.changes import KeyRule


def changed_key(fields: Sequence[str], rule: KeyRule, primary_key: Sequence[str]) -> str:
    """Why a batch stops at records with another primary key than before."""
    now, keyed = ", ".join(fields), ", ".join(primary_key)
    before = f"was ({', '.join(rule.first)}) and " if rule.is_stated else ""
    return (
        f"the primary key that its records name {before}is now ({now}), that of table {rule.table} is ({keyed}): rows"
        " would be mixed up; write the source table into a new table (another `into`) from a new snapshot, or state"
        f" primary_key: [{keyed}] in the rule if that still tells the rows apart"
    )


def unusable_key(tool: str, rule: KeyRule, primary_key: Sequence[str]) -> str:
    """Why a record goes to quarantine that names no primary key."""
    keyed = ", ".join(primary_key)
    return (
        f"the message key and the record name no primary key, and table {rule.table} has that of the first records"
        f" ({keyed}); state primary_key: [{keyed}] in the rule if these columns tell the rows apart, or let {tool}"
        " write the key"
    )
