"""What the log says when the primary key of a table is not the message key of its source table."""

from __future__ import annotations

import logging
from collections.abc import Sequence

log = logging.getLogger(__name__)


def warn_of_key(primary_key: Sequence[str], message_key: Sequence[str], topic: str, identifier: str) -> None:
    """Warn where events depend on whole old rows, or rows of several message keys become one."""
    beyond = [name for name in primary_key if message_key and name not in message_key]
    if beyond:
        log.warning(
            "%s: primary key column %s of table %s is not in the message key; updates and deletes that do not bring the"
            " whole old row (PostgreSQL: REPLICA IDENTITY FULL, and `before: full` in the rule) go to quarantine",
            topic,
            beyond[0],
            identifier,
        )
    outside = [name for name in message_key if name not in primary_key]
    if outside:
        log.warning(
            "%s: %s of the message key (%s) is not in the primary key (%s) of table %s: rows that differ in it alone"
            " become one row",
            topic,
            outside[0],
            ", ".join(message_key),
            ", ".join(primary_key),
            identifier,
        )
