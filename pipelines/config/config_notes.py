"""What `validate` says about a pipeline file that is right: things its author should know."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_table.options.names import BUCKET
from pipelines.config.config import PipelineConfig

_POSTPONED = "-2"


def notes_on(config: PipelineConfig) -> Iterator[str]:
    """One line each."""
    postponed = sorted(
        {rule.into for rule in config.target_rules if (rule.options.get(BUCKET) or "").strip() == _POSTPONED}
    )
    if postponed:
        yield (
            f"'bucket' = -2 ({', '.join(postponed)}): readers see rows only after `tidemark table compact`, or a"
            " compaction of Paimon's own"
        )
