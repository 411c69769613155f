"""Tables that the rules name and the pipeline has not written, although the stream has passed their topics."""

from __future__ import annotations

import logging
from collections.abc import Collection

from pipelines.checkpoint.behind_marks import Cause
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import PLACEHOLDER
from pipelines.tables.left_out import FILLED, LeftOut
from sources.topics import name_matches
from sources.wording import first_of

log = logging.getLogger(__name__)

NAMES_SHOWN = 5

_ALL = ""
"""Stands for all topics, where nobody knows which were read."""


def note_new_tables(
    config: PipelineConfig, left_out: LeftOut, written: Collection[str], read: Collection[str] | None, next_batch: int
) -> None:
    """Let tables with ``backfill`` be filled beside the stream; say which others will miss what was read before.

    ``read`` are the topics that the stream has read records of, None when that is not known. Tables whose names come
    from their events are found when such an event comes.
    """
    without: dict[str, None] = {}
    filled: dict[str, set[str]] = {}
    for rule in config.tables:
        table, pattern = rule.into, rule.match.topic
        if PLACEHOLDER.search(table) or table in written or table in left_out.tables or left_out.was_behind(table):
            continue
        topics = None if read is None else [t for t in sorted(read) if pattern is None or name_matches(pattern, t)]
        if topics is not None and not topics:
            continue
        if rule.backfill:
            filled.setdefault(table, set()).update({_ALL} if topics is None else topics)
        else:
            without[table] = None
    for table, named in filled.items():
        of_topics = () if _ALL in named else sorted(named)
        left_out.leave_out(table, Cause.NEW, FILLED, next_batch, of_topics, from_start=True, public_reason=FILLED)
        log.info("table %s: %s", table, FILLED)
    if without:
        log.info(
            "%s: not written so far, although topics were read; records before batch %d that would have been for it are"
            " not in it: if there were any, set `backfill: true` in the rule to read them too",
            ", ".join(first_of(list(without), NAMES_SHOWN)),
            next_batch,
        )
