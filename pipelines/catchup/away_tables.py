"""Tables whose rule was away for a while: the stream has gone on without them, and they miss what came meanwhile.

Where no rule writes a table when the pipeline begins, its place in the stream is kept. Once a rule writes it again it
is caught up from there, like a table that was paused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from paimon_table import TableName
from pipelines.checkpoint.commit_counts import CommitCounts
from pipelines.config.config import PipelineConfig
from pipelines.tables.known_routes import possible_rules, rules_for
from pipelines.tables.left_out import LeftOut

log = logging.getLogger(__name__)


def note_away(
    config: PipelineConfig,
    counts: CommitCounts,
    left_out: LeftOut,
    created_ms: Callable[[TableName], int | None],
) -> None:
    """Keep the places of tables that no rule writes, and let those come back that one writes again.

    ``created_ms`` says when a table was made: one that was dropped meanwhile, or made anew, lacks all that it had.
    """
    if left_out.is_first_batch:
        return
    for identifier, commits in counts.all.items():
        name = TableName.of(identifier)
        rules = rules_for(config, name, commits.topics) if commits.topics else possible_rules(config, name)
        if not rules:
            if not left_out.is_away(identifier):
                left_out.go_away(identifier, commits.topics)
                log.info("table %s: no rule writes it; its place is kept for one that does again", identifier)
        elif left_out.is_away(identifier):
            has_rows = created_ms(name) == commits.created_ms
            is_filled = any(rule.backfill for rule in rules)
            mark = left_out.come_back(identifier, has_rows=has_rows, is_filled=is_filled)
            if mark.is_behind:
                log.warning("table %s: %s; it is caught up beside the stream", identifier, mark.reason)
