"""The plan of a pipeline, in one line before its first batch."""

from __future__ import annotations

from pipelines.config.config import PipelineConfig
from pipelines.config.config_values import duration_text


def start_line(
    config: PipelineConfig, reads: str, begins: str, closed_batch: int | None, is_resuming: bool, once: bool
) -> str:
    """The whole line: the source, where reading begins, how often, the places of tables and checkpoint.

    ``reads`` and ``begins`` are the words of the source's reader.
    """
    if closed_batch is not None:
        where = f"continues after batch {closed_batch}"
    elif is_resuming:
        where = "new checkpoint, continues from the positions in the tables"
    else:
        where = f"new checkpoint, {begins}"
    often = "until all is read" if once else f"a batch every {duration_text(config.trigger.interval)}"
    return f"reads {reads}; {where}; {often}; tables in {config.catalog.place}, checkpoint {config.checkpoint}"
