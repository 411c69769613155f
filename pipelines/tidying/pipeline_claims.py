"""Which snapshots pipelines look for again: the newest of each pipeline, with its position, and of each commit user.

By its newest snapshot, a pipeline finds the batch that it committed last and, if its checkpoint is lost, the position
to read from. The newest snapshot repeats what older snapshots of the pipeline say.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_table import Snapshot
from paimon_table.history.claims import Claim, Claims
from paimon_table.maintenance.rescale import RESCALE_PROPERTY
from sinks.commit.positions import PIPELINE_PROPERTY, checkpoint_user

LIVE_PIPELINE_MS = 7 * 86_400_000
"""A pipeline that has not committed for so long, while others have, is not waited for."""

LIVE_USER_MS = 86_400_000
"""The same for a commit user: an older checkpoint of a pipeline, or a job of it that commits step by step."""

_OURS = "tidemark."
"""The prefix of the properties by which pipelines and their jobs recognise their snapshots; compactions have none.

The property of a rescale is for others: the job commits once, and another call starts over.
"""


def pipeline_claims(own: str | None) -> Claims:
    """The claims of pipelines on snapshots; that of ``own`` never ends."""

    def claims(snapshot: Snapshot) -> Sequence[Claim]:
        found = []
        pipeline = snapshot.properties.get(PIPELINE_PROPERTY)
        if pipeline is not None:
            time_ms = None if pipeline == own else LIVE_PIPELINE_MS
            found.append(Claim(("pipeline", pipeline), time_ms, f"pipeline {pipeline} finds its position there"))
        if any(name.startswith(_OURS) and name != RESCALE_PROPERTY for name in snapshot.properties):
            text = f"commit user {snapshot.commit_user} finds its commits there"
            # A catch-up and the stream of its checkpoint take turns: neither searches for earlier commits.
            found.append(Claim(("user", checkpoint_user(snapshot.commit_user)), LIVE_USER_MS, text))
        return found

    return claims
