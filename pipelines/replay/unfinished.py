"""Replays and rebuilds that are not done, as others may look at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipelines.checkpoint.replay_state import ReplayState
from pipelines.views.table_views import Beside
from sources.wording import position_words


def unfinished_replays(
    replays: Iterable[ReplayState], left: Mapping[str, int | None] | None = None
) -> dict[str, Beside]:
    """By table; ``left`` says of replays, by id, about how many records they have to read."""
    return {
        state.table: Beside(
            "replay" if state.rebuild is None else "rebuild",
            state.record_count,
            (left or {}).get(state.id),
            position_words(state.position),
        )
        for state in replays
        if not state.is_done
    }
