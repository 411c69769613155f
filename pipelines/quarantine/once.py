"""Bad records that a replay, or a table on its way back, has met again: each stays in the quarantine once."""

from __future__ import annotations

from paimon_table.errors import BrokenInvariant, SinkUnavailable
from pipelines.checkpoint.behind_marks import BehindMark
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.quarantine.alone import alone
from pipelines.quarantine.bad_lines import BadLine, BadLines, DamagedLine, aside_owner, replay_owner
from pipelines.quarantine.kept_lines import take_out


def keep_once(config: PipelineConfig, state: ReplayState) -> int:
    """Take out of a finished replay's own directory the records that another one has as well; gives how many.

    The other line stays: the stream's, or that of somebody who has tried the record before. Idempotent.
    """
    return _kept_once(BadLines(config), replay_owner(state))


def keep_once_behind(config: PipelineConfig, mark: BehindMark) -> bool:
    """The same for a table that has caught up; False while a retry or drop works on the quarantine."""
    query = Checkpoint(config).query_id
    if query is None:
        raise BrokenInvariant(f"table {mark.table} has caught up with a stream that has no checkpoint; please report")
    try:
        _kept_once(BadLines(config), aside_owner(query, mark))
    except SinkUnavailable:
        return False
    return True


def _kept_once(bad: BadLines, owner: str) -> int:
    if not bad.io.list_names(f"{bad.path}/{owner}"):
        return 0
    with alone(bad):
        files = bad.files()
        own = [file for file in files if file.owner == owner]
        others = [file for file in files if file.owner != owner]
        put_aside = {(line.record, line.content) for line in bad.lines(own, lambda: None) if isinstance(line, BadLine)}
        twice = {
            (line.record, line.content)
            for line in bad.lines(others, lambda: None)
            if isinstance(line, BadLine) and (line.record, line.content) in put_aside
        }

        def is_there_twice(line: BadLine | DamagedLine) -> bool:
            return isinstance(line, BadLine) and (line.record, line.content) in twice

        return sum(take_out(bad.io, file, is_there_twice) for file in own) if twice else 0
