"""Tables on their way back into the stream, as others may look at them."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.catchup.standing import Standing, TableState
from pipelines.checkpoint.behind_marks import Cause
from pipelines.live.views import Beside
from sources.wording import position_words


def catching_up(standings: Mapping[str, Standing]) -> dict[str, Beside]:
    """Those of the tables that are being caught up, by identifier, with how far they are."""
    return {
        name: Beside(
            "backfill" if one.cause is Cause.NEW else "catch-up",
            one.records_read,
            one.records_left,
            position_words(one.position),
        )
        for name, one in standings.items()
        if one.state is TableState.CATCHING_UP
    }
